"""What a client does, as steps: each flow yields what is to be sent, waited for or run, and is told what came of it.

Nothing here touches a socket or a clock; `client` performs the steps, with and without `async`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from .errors import Nonsense, Problem, Unreachable, WaitedTooLong, problem_class
from .models import Json, Result, Standing, decode, result_of

T = TypeVar("T")

#: How long one request waits for a call to be settled; the server allows 60.
WAIT_S = 30


@dataclass(frozen=True)
class Request:
    """To be sent to the server."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Sent twice, it does the same as once.
    repeatable: bool = False


@dataclass(frozen=True)
class Reply:
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Pause:
    """To be waited for."""

    seconds: float


@dataclass(frozen=True)
class Invoke:
    """To be run here."""

    function: Callable[..., Any]
    subject: tuple[Any, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Now:
    """To be told what time it is, in seconds from some point."""


Step = Request | Pause | Invoke | Now
Flow = Generator[Step, Any, T]


def sent(request: Request, tries: int) -> Flow[Reply]:
    """Sends a request, and again where that is safe and the server is away or busy."""
    for attempt in range(tries):
        is_last = attempt + 1 == tries or not request.repeatable
        try:
            reply: Reply = yield request
        except Unreachable:
            if is_last:
                raise
            yield Pause(min(0.1 * 2**attempt, 5.0))
            continue
        if 200 <= reply.status < 300:
            return reply
        problem = problem_of(reply)
        if is_last or problem.code != "too-many":
            raise problem
        yield Pause(problem.retry_after_s or 1.0)
    raise AssertionError("there is at least one try")


def json_of(reply: Reply) -> Json:
    """The JSON that was answered."""
    try:
        return json.loads(reply.body)
    except ValueError as error:
        raise Nonsense("the answer is no JSON") from error


def problem_of(reply: Reply) -> Problem:
    """The problem that was answered. What does not read as one is nonsense."""
    said = json_of(reply) if reply.headers.get("content-type") == "application/problem+json" else None
    if not isinstance(said, dict):
        raise Nonsense(f"the server answered {reply.status} and does not say why")
    code, title, detail, page = (str(said.get(name, "")) for name in ("code", "title", "detail", "type"))
    after = reply.headers.get("retry-after", "")
    retry_after_s = float(after) if after.isdigit() else None
    return problem_class(reply.status)(reply.status, code, title, detail, page, retry_after_s)


def asked(kind: type[T], request: Request, tries: int) -> Flow[T]:
    """Sends a request and reads the answer."""
    reply = yield from sent(request, tries)
    return decode(kind, json_of(reply))


def path(*parts: str) -> str:
    """A path beneath `/v1`; nothing that is put in can leave its place."""
    return "/v1/" + "/".join(quote(part, safe="") if part.strip(".") else "-" for part in parts)


def submitted(body: Mapping[str, Any], key: str, wait_s: int) -> Request:
    """A call, under a key: sent twice, it is made once."""
    return Request("POST", path("calls"), {"wait": wait_s}, body, {"Idempotency-Key": key}, repeatable=True)


def looked(call: str, wait_s: int) -> Request:
    """A look at how far a call has come."""
    return Request("GET", path("calls", call), {"wait": wait_s}, repeatable=True)


def new_key() -> str:
    """A key, or a claim, that nobody else has."""
    return secrets.token_hex(16)


def called(body: Mapping[str, Any], key: str, timeout_s: float | None, tries: int) -> Flow[Result]:
    """Makes a call and waits until it is settled."""
    clock = yield from started(timeout_s)
    standing = yield from asked(Standing, submitted(body, key, (yield from clock.wait())), tries)
    return (yield from settled(standing, clock, tries))


def waited(call: str, timeout_s: float | None, tries: int) -> Flow[Result]:
    """Waits until a call is settled."""
    clock = yield from started(timeout_s)
    standing = yield from asked(Standing, looked(call, (yield from clock.wait())), tries)
    return (yield from settled(standing, clock, tries))


@dataclass(frozen=True)
class Clock:
    """How long may be waited."""

    until: float | None

    def wait(self) -> Flow[int]:
        """How long the next request may wait, in whole seconds."""
        if self.until is None:
            return WAIT_S
        now: float = yield Now()
        return max(0, min(WAIT_S, int(self.until - now)))

    def check(self, standing: Standing) -> Flow[None]:
        """Raises where the time is over."""
        now: float = yield Now()
        if self.until is not None and now >= self.until:
            raise WaitedTooLong(standing.call, standing.state)
        # A wait of less than a second would be none, and then many.
        if self.until is not None and self.until - now < 1:
            yield Pause(self.until - now)


def started(timeout_s: float | None) -> Flow[Clock]:
    """Begins to wait."""
    now: float = yield Now()
    return Clock(None if timeout_s is None else now + timeout_s)


def settled(standing: Standing, clock: Clock, tries: int) -> Flow[Result]:
    """Waits until a call is settled. One that is for its maker to run is not waited for."""
    while standing.state != "settled":
        if standing.state in ("ready", "taken"):
            raise WaitedTooLong(standing.call, standing.state)
        yield from clock.check(standing)
        standing = yield from asked(Standing, looked(standing.call, (yield from clock.wait())), tries)
    return result_of(standing)
