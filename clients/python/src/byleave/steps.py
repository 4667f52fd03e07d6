"""The logic of the client as steps. Each flow yields a request, a pause or a function to run, and receives the result.

This module does no I/O and reads no deadline. `client` performs the steps, with and without `async`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from .errors import InvalidResponse, Problem, Unreachable, WaitTimeout, problem_class
from .models import CallStatus, Json, Result, decode, result_of

T = TypeVar("T")

#: The time that one request waits for a call to be settled, in seconds. The server allows 60.
WAIT_S = 30


@dataclass(frozen=True)
class Request:
    """A request to send to the server."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether the request is idempotent.
    repeatable: bool = False


@dataclass(frozen=True)
class Reply:
    """A response of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Pause:
    """A pause."""

    seconds: float


@dataclass(frozen=True)
class Invoke:
    """A function to run in this process."""

    function: Callable[..., Any]
    subject: tuple[Any, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Now:
    """A request for the current time, in seconds from an arbitrary point."""


Step = Request | Pause | Invoke | Now
Flow = Generator[Step, Any, T]


def send(request: Request, tries: int) -> Flow[Reply]:
    """Sends a request. Retries if that is safe and the server is unreachable or busy."""
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
    """Returns the JSON of a response."""
    try:
        return json.loads(reply.body)
    except ValueError as error:
        raise InvalidResponse("the response of the server is not valid JSON") from error


def problem_of(reply: Reply) -> Problem:
    """Returns the problem in a response. Raises `InvalidResponse` if the response is not a problem."""
    problem = json_of(reply) if reply.headers.get("content-type") == "application/problem+json" else None
    if not isinstance(problem, dict):
        raise InvalidResponse(f"the server answered with status {reply.status} and without a problem document")
    code, title, detail, page = (str(problem.get(name, "")) for name in ("code", "title", "detail", "type"))
    after = reply.headers.get("retry-after", "")
    retry_after_s = float(after) if after.isdigit() else None
    return problem_class(reply.status)(reply.status, code, title, detail, page, retry_after_s)


def send_and_decode(kind: type[T], request: Request, tries: int) -> Flow[T]:
    """Sends a request and decodes the response."""
    reply = yield from send(request, tries)
    return decode(kind, json_of(reply))


def path(*parts: str) -> str:
    """Returns a path below `/v1`. The parts are quoted, so that none can change the path."""
    return "/v1/" + "/".join(quote(part, safe="") if part.strip(".") else "-" for part in parts)


def submit_request(body: Mapping[str, Any], key: str, wait_s: int) -> Request:
    """Returns the request that submits a call under an idempotency key."""
    return Request("POST", path("calls"), {"wait": wait_s}, body, {"Idempotency-Key": key}, repeatable=True)


def status_request(call: str, wait_s: int) -> Request:
    """Returns the request for the status of a call."""
    return Request("GET", path("calls", call), {"wait": wait_s}, repeatable=True)


def new_key() -> str:
    """Returns a new random key or claim."""
    return secrets.token_hex(16)


def make_call(body: Mapping[str, Any], key: str, timeout_s: float | None, tries: int) -> Flow[Result]:
    """Makes a call and waits until it is settled."""
    deadline = yield from start_deadline(timeout_s)
    status = yield from send_and_decode(CallStatus, submit_request(body, key, (yield from deadline.wait())), tries)
    return (yield from wait_until_settled(status, deadline, tries))


def wait_for_call(call: str, timeout_s: float | None, tries: int) -> Flow[Result]:
    """Waits until a call is settled."""
    deadline = yield from start_deadline(timeout_s)
    status = yield from send_and_decode(CallStatus, status_request(call, (yield from deadline.wait())), tries)
    return (yield from wait_until_settled(status, deadline, tries))


@dataclass(frozen=True)
class Deadline:
    """A deadline."""

    until: float | None

    def wait(self) -> Flow[int]:
        """Returns how long the next request may wait, in whole seconds."""
        if self.until is None:
            return WAIT_S
        now: float = yield Now()
        return max(0, min(WAIT_S, int(self.until - now)))

    def check(self, status: CallStatus) -> Flow[None]:
        """Raises if the deadline has passed."""
        now: float = yield Now()
        if self.until is not None and now >= self.until:
            raise WaitTimeout(status.call, status.state)
        # The server waits whole seconds only. Without this pause, many requests would follow each other.
        if self.until is not None and self.until - now < 1:
            yield Pause(self.until - now)


def start_deadline(timeout_s: float | None) -> Flow[Deadline]:
    """Starts a deadline."""
    now: float = yield Now()
    return Deadline(None if timeout_s is None else now + timeout_s)


def wait_until_settled(status: CallStatus, deadline: Deadline, tries: int) -> Flow[Result]:
    """Waits until a call is settled. Does not wait for a call that this client itself must run."""
    while status.state != "settled":
        if status.state in ("ready", "claimed"):
            raise WaitTimeout(status.call, status.state)
        yield from deadline.check(status)
        status = yield from send_and_decode(CallStatus, status_request(status.call, (yield from deadline.wait())), tries)
    return result_of(status)
