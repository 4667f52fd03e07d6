"""The client: with and without `async`. Both perform the same steps."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import httpx

from . import requests, steps
from .errors import ByleaveError, Unreachable
from .models import (
    CallEntry,
    Event,
    Explanation,
    Halt,
    Health,
    Json,
    Leave,
    OpenQuestion,
    Record,
    Replay,
    Result,
    Sheet,
    Standing,
    ToolEntry,
    Verification,
    decode,
)
from .sse import Parser
from .steps import Flow, Invoke, Now, Pause, Reply, Request, Step

T = TypeVar("T")

#: Longer than the server lets a request wait.
TIMEOUT = httpx.Timeout(10.0, read=steps.WAIT_S + 30.0)
#: A stream shows every 15 s that it is alive.
STREAM_TIMEOUT = httpx.Timeout(10.0, read=60.0)


def _where(base_url: str | None, token: str | None) -> dict[str, Any]:
    base_url = base_url or os.environ.get("BYLEAVE_URL")
    token = token or os.environ.get("BYLEAVE_TOKEN")
    if not base_url or not token:
        raise ByleaveError(
            "where is the server, and who are you? Give `base_url` and `token`, or set BYLEAVE_URL and BYLEAVE_TOKEN"
        )
    # A redirect would carry the token elsewhere; a proxy of the environment would see it.
    return {
        "base_url": base_url.removesuffix("/").removesuffix("/v1"),
        "headers": {"Authorization": f"Bearer {token}"},
        "timeout": TIMEOUT,
        "follow_redirects": False,
        "trust_env": False,
    }


def _options(request: Request) -> dict[str, Any]:
    options: dict[str, Any] = {"params": dict(request.query), "headers": dict(request.headers)}
    if request.body is not None:
        options["json"] = request.body
    return options


def _reply(response: httpx.Response) -> Reply:
    return Reply(response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content)


def _away(error: httpx.HTTPError) -> Unreachable:
    return Unreachable(f"the server cannot be reached: {type(error).__name__}: {error}")


def _list(kind: type[T], name: str, request: Request, tries: int) -> Flow[list[T]]:
    reply = yield from steps.sent(request, tries)
    said = steps.json_of(reply)
    return decode(list[kind], said.get(name) if isinstance(said, dict) else None)  # type: ignore[valid-type]


class Client:
    """A client of `byleave serve`.

    Where it is and who asks can also be said by BYLEAVE_URL and BYLEAVE_TOKEN. `tries` is how often a request is sent that is safe
    to send again, before the server counts as away.
    """

    def __init__(self, base_url: str | None = None, token: str | None = None, *, tries: int = 5) -> None:
        self._http = httpx.Client(**_where(base_url, token))
        self.tries = max(1, tries)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Calls

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        key: str | None = None,
        session: str | None = None,
        reason: str | None = None,
        mode: str | None = None,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> Result:
        """Makes a call and waits until it is settled, however long a person takes, or `timeout_s`.

        With the same `key` it is the same call, which is never run twice; one is made where none is given, and kept when the
        request has to be sent again. A call that was refused is a result, too: `Result.released` raises what stands in the way.
        """
        body = requests.call_body(tool, arguments or {}, session, reason, mode, dry_run)
        return self.perform(steps.called(body, key or steps.new_key(), timeout_s, self.tries))

    def submit(
        self,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        key: str | None = None,
        session: str | None = None,
        reason: str | None = None,
        mode: str | None = None,
        dry_run: bool = False,
        wait_s: int = 0,
    ) -> Standing:
        """Makes a call and says how far it has come."""
        body = requests.call_body(tool, arguments or {}, session, reason, mode, dry_run)
        return self._ask(Standing, steps.submitted(body, key or steps.new_key(), wait_s))

    def look(self, call: str, *, wait_s: int = 0) -> Standing:
        """How far a call has come."""
        return self._ask(Standing, steps.looked(call, wait_s))

    def wait(self, call: str, *, timeout_s: float | None = None) -> Result:
        """Waits until a call is settled."""
        return self.perform(steps.waited(call, timeout_s, self.tries))

    def cancel(self, call: str, *, wait_s: int = steps.WAIT_S) -> Standing:
        """Calls a call off: what runs is stopped, what waits is refused."""
        return self._ask(Standing, requests.cancel(call, wait_s))

    def events(self, call: str, *, last: int | None = None) -> Iterator[Event]:
        """Follows a call to its end, and goes on where it was when the connection breaks."""
        failures = 0
        while True:
            began = last
            try:
                request = requests.events(call, last)
                with self._http.stream(
                    request.method, request.path, headers=dict(request.headers), timeout=STREAM_TIMEOUT
                ) as response:
                    if response.status_code == 204:
                        return
                    if response.status_code != 200:
                        response.read()
                        raise steps.problem_of(_reply(response))
                    parser = Parser()
                    for text in response.iter_text():
                        for event in parser.feed(text):
                            # Only what was handed on counts as seen.
                            yield event
                            last = event.id if event.id is not None else last
            except httpx.HTTPError as error:
                broke: httpx.HTTPError | None = error
            else:
                broke = None
            # A stream that ended may be at its end: the next one then has no content.
            failures = 0 if last != began else failures + 1
            if failures >= self.tries:
                raise _away(broke or httpx.ReadError("the stream ends again and again"))
            if broke is not None:
                time.sleep(min(0.1 * 2**failures, 5.0))

    # Questions and leaves

    def questions(self, *, limit: int | None = None, after: int | None = None) -> list[OpenQuestion]:
        """Open questions, the newest first."""
        return self.perform(_list(OpenQuestion, "questions", requests.questions(limit, after), self.tries))

    def question(self, question: str) -> Sheet:
        """Everything that a person must see to answer a question."""
        return self._ask(Sheet, requests.question(question))

    def answer(self, question: str, digest: str, say: str, **more: Json) -> Standing:
        """Answers a question as it was shown: `yes`, `no`, `edit`, `part`, `leave` or `abort`, with what belongs to it."""
        return self._ask(Standing, requests.answer(question, digest, {"say": say, **more}))

    def leaves(self) -> list[Leave]:
        """The leaves that were given."""
        return self.perform(_list(Leave, "leaves", requests.leaves(), self.tries))

    def revoke(self, leave: str) -> None:
        """Makes a leave count no longer."""
        self.perform(steps.sent(requests.revoke(leave), self.tries))

    # The book

    def book(self, **query: Any) -> list[CallEntry]:
        """Calls of the book, newest first: by `tool`, `agent`, `outcome`, `code`, `text`, `since`, `until`, `limit`, `after`."""
        return self.perform(_list(CallEntry, "calls", requests.book(query), self.tries))

    def record(self, call: str) -> Record:
        """The record of a call."""
        return self._ask(Record, requests.record(call))

    def export(self, form: str = "json", *, since: int | None = None, until: int | None = None) -> str:
        """The records, as JSON lines or as `markdown`."""
        return self.perform(steps.sent(requests.export(form, since, until), self.tries)).body.decode()

    def verify(self) -> Verification:
        """Checks the whole book."""
        return self._ask(Verification, requests.verify())

    # The rest

    def tools(self, form: str = "mcp") -> list[ToolEntry]:
        """The tools, with their schemas in the form of `mcp`, `openai`, `anthropic` or `gemini`."""
        return self.perform(_list(ToolEntry, "tools", requests.tools(form), self.tries))

    def explain(self, tool: str, arguments: Mapping[str, Json] | None = None, *, mode: str | None = None) -> Explanation:
        """What a call would do, and what the policy says of it; nothing is run."""
        return self._ask(Explanation, requests.explain(tool, arguments or {}, mode))

    def replay(self, policy: str, *, limit: int | None = None) -> Replay:
        """What these rules (TOML) would have made of the newest calls; nothing is put in force."""
        return self._ask(Replay, requests.replay(policy, limit))

    def halted(self) -> Halt:
        """Whether everything is halted."""
        return self._ask(Halt, requests.halted())

    def halt(self, why: str) -> None:
        """Refuses everything from now on."""
        self.perform(steps.sent(requests.halt(why), self.tries))

    def lift(self) -> None:
        """Lifts a halt."""
        self.perform(steps.sent(requests.lift(), self.tries))

    def health(self) -> Health:
        """How the server is."""
        return self._ask(Health, requests.health())

    def _ask(self, kind: type[T], request: Request) -> T:
        return self.perform(steps.asked(kind, request, self.tries))

    def perform(self, flow: Flow[T]) -> T:
        """Performs the steps of a flow."""
        try:
            step = next(flow)
            while True:
                try:
                    said = self._step(step)
                except Exception as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(said)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _step(self, step: Step) -> Any:
        if isinstance(step, Now):
            return time.monotonic()
        if isinstance(step, Pause):
            return time.sleep(step.seconds)
        if isinstance(step, Invoke):
            made = step.function(*step.subject, **step.arguments)
            if inspect.isawaitable(made):
                if inspect.iscoroutine(made):
                    made.close()
                raise TypeError("what is asynchronous needs an AsyncClient")
            return made
        try:
            return _reply(self._http.request(step.method, step.path, **_options(step)))
        except httpx.HTTPError as error:
            raise _away(error) from error


class AsyncClient:
    """A client of `byleave serve`, for `async`.

    Where it is and who asks can also be said by BYLEAVE_URL and BYLEAVE_TOKEN. `tries` is how often a request is sent that is safe
    to send again, before the server counts as away.
    """

    def __init__(self, base_url: str | None = None, token: str | None = None, *, tries: int = 5) -> None:
        self._http = httpx.AsyncClient(**_where(base_url, token))
        self.tries = max(1, tries)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    # Calls

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        key: str | None = None,
        session: str | None = None,
        reason: str | None = None,
        mode: str | None = None,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> Result:
        """Makes a call and waits until it is settled, however long a person takes, or `timeout_s`.

        With the same `key` it is the same call, which is never run twice; one is made where none is given, and kept when the
        request has to be sent again. A call that was refused is a result, too: `Result.released` raises what stands in the way.
        """
        body = requests.call_body(tool, arguments or {}, session, reason, mode, dry_run)
        return await self.perform(steps.called(body, key or steps.new_key(), timeout_s, self.tries))

    async def submit(
        self,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        key: str | None = None,
        session: str | None = None,
        reason: str | None = None,
        mode: str | None = None,
        dry_run: bool = False,
        wait_s: int = 0,
    ) -> Standing:
        """Makes a call and says how far it has come."""
        body = requests.call_body(tool, arguments or {}, session, reason, mode, dry_run)
        return await self._ask(Standing, steps.submitted(body, key or steps.new_key(), wait_s))

    async def look(self, call: str, *, wait_s: int = 0) -> Standing:
        """How far a call has come."""
        return await self._ask(Standing, steps.looked(call, wait_s))

    async def wait(self, call: str, *, timeout_s: float | None = None) -> Result:
        """Waits until a call is settled."""
        return await self.perform(steps.waited(call, timeout_s, self.tries))

    async def cancel(self, call: str, *, wait_s: int = steps.WAIT_S) -> Standing:
        """Calls a call off: what runs is stopped, what waits is refused."""
        return await self._ask(Standing, requests.cancel(call, wait_s))

    async def events(self, call: str, *, last: int | None = None) -> AsyncIterator[Event]:
        """Follows a call to its end, and goes on where it was when the connection breaks."""
        failures = 0
        while True:
            began = last
            try:
                request = requests.events(call, last)
                async with self._http.stream(
                    request.method, request.path, headers=dict(request.headers), timeout=STREAM_TIMEOUT
                ) as response:
                    if response.status_code == 204:
                        return
                    if response.status_code != 200:
                        await response.aread()
                        raise steps.problem_of(_reply(response))
                    parser = Parser()
                    async for text in response.aiter_text():
                        for event in parser.feed(text):
                            # Only what was handed on counts as seen.
                            yield event
                            last = event.id if event.id is not None else last
            except httpx.HTTPError as error:
                broke: httpx.HTTPError | None = error
            else:
                broke = None
            # A stream that ended may be at its end: the next one then has no content.
            failures = 0 if last != began else failures + 1
            if failures >= self.tries:
                raise _away(broke or httpx.ReadError("the stream ends again and again"))
            if broke is not None:
                await asyncio.sleep(min(0.1 * 2**failures, 5.0))

    # Questions and leaves

    async def questions(self, *, limit: int | None = None, after: int | None = None) -> list[OpenQuestion]:
        """Open questions, the newest first."""
        return await self.perform(_list(OpenQuestion, "questions", requests.questions(limit, after), self.tries))

    async def question(self, question: str) -> Sheet:
        """Everything that a person must see to answer a question."""
        return await self._ask(Sheet, requests.question(question))

    async def answer(self, question: str, digest: str, say: str, **more: Json) -> Standing:
        """Answers a question as it was shown: `yes`, `no`, `edit`, `part`, `leave` or `abort`, with what belongs to it."""
        return await self._ask(Standing, requests.answer(question, digest, {"say": say, **more}))

    async def leaves(self) -> list[Leave]:
        """The leaves that were given."""
        return await self.perform(_list(Leave, "leaves", requests.leaves(), self.tries))

    async def revoke(self, leave: str) -> None:
        """Makes a leave count no longer."""
        await self.perform(steps.sent(requests.revoke(leave), self.tries))

    # The book

    async def book(self, **query: Any) -> list[CallEntry]:
        """Calls of the book, newest first: by `tool`, `agent`, `outcome`, `code`, `text`, `since`, `until`, `limit`, `after`."""
        return await self.perform(_list(CallEntry, "calls", requests.book(query), self.tries))

    async def record(self, call: str) -> Record:
        """The record of a call."""
        return await self._ask(Record, requests.record(call))

    async def export(self, form: str = "json", *, since: int | None = None, until: int | None = None) -> str:
        """The records, as JSON lines or as `markdown`."""
        return (await self.perform(steps.sent(requests.export(form, since, until), self.tries))).body.decode()

    async def verify(self) -> Verification:
        """Checks the whole book."""
        return await self._ask(Verification, requests.verify())

    # The rest

    async def tools(self, form: str = "mcp") -> list[ToolEntry]:
        """The tools, with their schemas in the form of `mcp`, `openai`, `anthropic` or `gemini`."""
        return await self.perform(_list(ToolEntry, "tools", requests.tools(form), self.tries))

    async def explain(self, tool: str, arguments: Mapping[str, Json] | None = None, *, mode: str | None = None) -> Explanation:
        """What a call would do, and what the policy says of it; nothing is run."""
        return await self._ask(Explanation, requests.explain(tool, arguments or {}, mode))

    async def replay(self, policy: str, *, limit: int | None = None) -> Replay:
        """What these rules (TOML) would have made of the newest calls; nothing is put in force."""
        return await self._ask(Replay, requests.replay(policy, limit))

    async def halted(self) -> Halt:
        """Whether everything is halted."""
        return await self._ask(Halt, requests.halted())

    async def halt(self, why: str) -> None:
        """Refuses everything from now on."""
        await self.perform(steps.sent(requests.halt(why), self.tries))

    async def lift(self) -> None:
        """Lifts a halt."""
        await self.perform(steps.sent(requests.lift(), self.tries))

    async def health(self) -> Health:
        """How the server is."""
        return await self._ask(Health, requests.health())

    async def _ask(self, kind: type[T], request: Request) -> T:
        return await self.perform(steps.asked(kind, request, self.tries))

    async def perform(self, flow: Flow[T]) -> T:
        """Performs the steps of a flow."""
        try:
            step = next(flow)
            while True:
                try:
                    said = await self._step(step)
                except Exception as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(said)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _step(self, step: Step) -> Any:
        if isinstance(step, Now):
            return time.monotonic()
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Invoke):
            made = step.function(*step.subject, **step.arguments)
            return await made if inspect.isawaitable(made) else made
        try:
            return _reply(await self._http.request(step.method, step.path, **_options(step)))
        except httpx.HTTPError as error:
            raise _away(error) from error
