"""The client, with and without `async`. Both perform the same steps."""

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
    CallStatus,
    Event,
    Explanation,
    HaltStatus,
    Health,
    Json,
    OpenQuestion,
    QuestionView,
    Record,
    Replay,
    Result,
    StandingApproval,
    ToolEntry,
    Verification,
    decode,
)
from .sse import Parser
from .steps import Flow, Invoke, Now, Pause, Reply, Request, Step

T = TypeVar("T")

#: Longer than the maximum waiting time of the server.
TIMEOUT = httpx.Timeout(10.0, read=steps.WAIT_S + 30.0)
#: A stream sends a keep-alive message every 15 s.
STREAM_TIMEOUT = httpx.Timeout(10.0, read=60.0)


def _http_options(base_url: str | None, token: str | None) -> dict[str, Any]:
    base_url = base_url or os.environ.get("BYLEAVE_URL")
    token = token or os.environ.get("BYLEAVE_TOKEN")
    if not base_url or not token:
        raise ByleaveError(
            "the server address or the token is missing; pass `base_url` and `token`, or set BYLEAVE_URL and BYLEAVE_TOKEN"
        )
    # A redirect would send the token to another server, and a proxy of the environment would see the token.
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


def _unreachable(error: httpx.HTTPError) -> Unreachable:
    return Unreachable(f"cannot reach the server: {type(error).__name__}: {error}")


def _list(kind: type[T], name: str, request: Request, tries: int) -> Flow[list[T]]:
    reply = yield from steps.send(request, tries)
    body = steps.json_of(reply)
    return decode(list[kind], body.get(name) if isinstance(body, dict) else None)  # type: ignore[valid-type]


class Client:
    """A client of `byleave serve`.

    BYLEAVE_URL and BYLEAVE_TOKEN are the defaults for the address and the token. `tries` is the maximum number of attempts for
    requests that are safe to repeat.
    """

    def __init__(self, base_url: str | None = None, token: str | None = None, *, tries: int = 5) -> None:
        self._http = httpx.Client(**_http_options(base_url, token))
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
        """Makes a call and waits until it is settled, or until `timeout_s` has passed.

        The same `key` refers to the same call, which never runs twice. Without `key`, a new one is created and used for all
        retries. A refusal is also a result; `Result.released` raises it.
        """
        body = requests.call_body(tool, arguments or {}, session, reason, mode, dry_run)
        return self.perform(steps.make_call(body, key or steps.new_key(), timeout_s, self.tries))

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
    ) -> CallStatus:
        """Makes a call and returns its status."""
        body = requests.call_body(tool, arguments or {}, session, reason, mode, dry_run)
        return self._ask(CallStatus, steps.submit_request(body, key or steps.new_key(), wait_s))

    def status(self, call: str, *, wait_s: int = 0) -> CallStatus:
        """Returns the status of a call."""
        return self._ask(CallStatus, steps.status_request(call, wait_s))

    def wait(self, call: str, *, timeout_s: float | None = None) -> Result:
        """Waits until a call is settled."""
        return self.perform(steps.wait_for_call(call, timeout_s, self.tries))

    def cancel(self, call: str, *, wait_s: int = steps.WAIT_S) -> CallStatus:
        """Cancels a call. A running call is stopped, and a waiting call is refused."""
        return self._ask(CallStatus, requests.cancel(call, wait_s))

    def events(self, call: str, *, last: int | None = None) -> Iterator[Event]:
        """Follows a call to its end. Continues at the same entry if the connection breaks."""
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
                            # An event is seen only after it was yielded.
                            yield event
                            last = event.id if event.id is not None else last
            except httpx.HTTPError as error:
                broken: httpx.HTTPError | None = error
            else:
                broken = None
            # The call may have ended. The next stream then has no content.
            failures = 0 if last != began else failures + 1
            if failures >= self.tries:
                raise _unreachable(broken or httpx.ReadError("the event stream ends repeatedly"))
            if broken is not None:
                time.sleep(min(0.1 * 2**failures, 5.0))

    # Questions and standing approvals

    def questions(self, *, limit: int | None = None, after: int | None = None) -> list[OpenQuestion]:
        """Returns open questions, newest first."""
        return self.perform(_list(OpenQuestion, "questions", requests.questions(limit, after), self.tries))

    def question(self, question: str) -> QuestionView:
        """Returns everything that a person must see to answer a question."""
        return self._ask(QuestionView, requests.question(question))

    def answer(self, question: str, digest: str, kind: str, **fields: Json) -> CallStatus:
        """Answers a question as it was shown: `yes`, `no`, `edit`, `partial`, `standing-approval`,
        `result` or `abort`, with its fields."""
        return self._ask(CallStatus, requests.answer(question, digest, {"kind": kind, **fields}))

    def standing_approvals(self) -> list[StandingApproval]:
        """Returns the standing approvals."""
        return self.perform(_list(StandingApproval, "standing_approvals", requests.standing_approvals(), self.tries))

    def revoke(self, standing_approval: str) -> None:
        """Revokes a standing approval."""
        self.perform(steps.send(requests.revoke(standing_approval), self.tries))

    # The audit log

    def audit_log(self, **query: Any) -> list[CallEntry]:
        """Returns calls, newest first; `query`: `tool`, `agent`, `outcome`, `code`, `text`, `since`, `until`, `limit`, `after`."""
        return self.perform(_list(CallEntry, "calls", requests.audit_log(query), self.tries))

    def record(self, call: str) -> Record:
        """Returns the record of a call."""
        return self._ask(Record, requests.record(call))

    def export(self, format: str = "json", *, since: int | None = None, until: int | None = None) -> str:
        """Exports the records as JSON lines or as `markdown`."""
        return self.perform(steps.send(requests.export(format, since, until), self.tries)).body.decode()

    def verify(self) -> Verification:
        """Verifies the whole audit log."""
        return self._ask(Verification, requests.verify())

    # Tools, policy and service

    def tools(self, format: str = "mcp") -> list[ToolEntry]:
        """Returns the tools, with their schemas in the format of `mcp`, `openai`, `anthropic` or `gemini`."""
        return self.perform(_list(ToolEntry, "tools", requests.tools(format), self.tries))

    def explain(self, tool: str, arguments: Mapping[str, Json] | None = None, *, mode: str | None = None) -> Explanation:
        """Returns the effects of a call and the decision of the policy. Runs nothing."""
        return self._ask(Explanation, requests.explain(tool, arguments or {}, mode))

    def replay(self, policy: str, *, limit: int | None = None) -> Replay:
        """Evaluates the newest calls with these rules (TOML). The rules do not come into force."""
        return self._ask(Replay, requests.replay(policy, limit))

    def halt_status(self) -> HaltStatus:
        """Returns whether a halt is active."""
        return self._ask(HaltStatus, requests.halt_status())

    def halt(self, reason: str) -> None:
        """Halts all calls."""
        self.perform(steps.send(requests.halt(reason), self.tries))

    def lift(self) -> None:
        """Lifts a halt."""
        self.perform(steps.send(requests.lift(), self.tries))

    def health(self) -> Health:
        """Returns the health of the server."""
        return self._ask(Health, requests.health())

    def _ask(self, kind: type[T], request: Request) -> T:
        return self.perform(steps.send_and_decode(kind, request, self.tries))

    def perform(self, flow: Flow[T]) -> T:
        """Performs the steps of a flow."""
        try:
            step = next(flow)
            while True:
                try:
                    result = self._step(step)
                except Exception as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _step(self, step: Step) -> Any:
        if isinstance(step, Now):
            return time.monotonic()
        if isinstance(step, Pause):
            return time.sleep(step.seconds)
        if isinstance(step, Invoke):
            value = step.function(*step.subject, **step.arguments)
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):
                    value.close()
                raise TypeError("an asynchronous function needs an `AsyncClient`")
            return value
        try:
            return _reply(self._http.request(step.method, step.path, **_options(step)))
        except httpx.HTTPError as error:
            raise _unreachable(error) from error


class AsyncClient:
    """A client of `byleave serve`, for `async`.

    BYLEAVE_URL and BYLEAVE_TOKEN are the defaults for the address and the token. `tries` is the maximum number of attempts for
    requests that are safe to repeat.
    """

    def __init__(self, base_url: str | None = None, token: str | None = None, *, tries: int = 5) -> None:
        self._http = httpx.AsyncClient(**_http_options(base_url, token))
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
        """Makes a call and waits until it is settled, or until `timeout_s` has passed.

        The same `key` refers to the same call, which never runs twice. Without `key`, a new one is created and used for all
        retries. A refusal is also a result; `Result.released` raises it.
        """
        body = requests.call_body(tool, arguments or {}, session, reason, mode, dry_run)
        return await self.perform(steps.make_call(body, key or steps.new_key(), timeout_s, self.tries))

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
    ) -> CallStatus:
        """Makes a call and returns its status."""
        body = requests.call_body(tool, arguments or {}, session, reason, mode, dry_run)
        return await self._ask(CallStatus, steps.submit_request(body, key or steps.new_key(), wait_s))

    async def status(self, call: str, *, wait_s: int = 0) -> CallStatus:
        """Returns the status of a call."""
        return await self._ask(CallStatus, steps.status_request(call, wait_s))

    async def wait(self, call: str, *, timeout_s: float | None = None) -> Result:
        """Waits until a call is settled."""
        return await self.perform(steps.wait_for_call(call, timeout_s, self.tries))

    async def cancel(self, call: str, *, wait_s: int = steps.WAIT_S) -> CallStatus:
        """Cancels a call. A running call is stopped, and a waiting call is refused."""
        return await self._ask(CallStatus, requests.cancel(call, wait_s))

    async def events(self, call: str, *, last: int | None = None) -> AsyncIterator[Event]:
        """Follows a call to its end. Continues at the same entry if the connection breaks."""
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
                            # An event is seen only after it was yielded.
                            yield event
                            last = event.id if event.id is not None else last
            except httpx.HTTPError as error:
                broken: httpx.HTTPError | None = error
            else:
                broken = None
            # The call may have ended. The next stream then has no content.
            failures = 0 if last != began else failures + 1
            if failures >= self.tries:
                raise _unreachable(broken or httpx.ReadError("the event stream ends repeatedly"))
            if broken is not None:
                await asyncio.sleep(min(0.1 * 2**failures, 5.0))

    # Questions and standing approvals

    async def questions(self, *, limit: int | None = None, after: int | None = None) -> list[OpenQuestion]:
        """Returns open questions, newest first."""
        return await self.perform(_list(OpenQuestion, "questions", requests.questions(limit, after), self.tries))

    async def question(self, question: str) -> QuestionView:
        """Returns everything that a person must see to answer a question."""
        return await self._ask(QuestionView, requests.question(question))

    async def answer(self, question: str, digest: str, kind: str, **fields: Json) -> CallStatus:
        """Answers a question as it was shown: `yes`, `no`, `edit`, `partial`, `standing-approval`,
        `result` or `abort`, with its fields."""
        return await self._ask(CallStatus, requests.answer(question, digest, {"kind": kind, **fields}))

    async def standing_approvals(self) -> list[StandingApproval]:
        """Returns the standing approvals."""
        return await self.perform(_list(StandingApproval, "standing_approvals", requests.standing_approvals(), self.tries))

    async def revoke(self, standing_approval: str) -> None:
        """Revokes a standing approval."""
        await self.perform(steps.send(requests.revoke(standing_approval), self.tries))

    # The audit log

    async def audit_log(self, **query: Any) -> list[CallEntry]:
        """Returns calls, newest first; `query`: `tool`, `agent`, `outcome`, `code`, `text`, `since`, `until`, `limit`, `after`."""
        return await self.perform(_list(CallEntry, "calls", requests.audit_log(query), self.tries))

    async def record(self, call: str) -> Record:
        """Returns the record of a call."""
        return await self._ask(Record, requests.record(call))

    async def export(self, format: str = "json", *, since: int | None = None, until: int | None = None) -> str:
        """Exports the records as JSON lines or as `markdown`."""
        return (await self.perform(steps.send(requests.export(format, since, until), self.tries))).body.decode()

    async def verify(self) -> Verification:
        """Verifies the whole audit log."""
        return await self._ask(Verification, requests.verify())

    # Tools, policy and service

    async def tools(self, format: str = "mcp") -> list[ToolEntry]:
        """Returns the tools, with their schemas in the format of `mcp`, `openai`, `anthropic` or `gemini`."""
        return await self.perform(_list(ToolEntry, "tools", requests.tools(format), self.tries))

    async def explain(self, tool: str, arguments: Mapping[str, Json] | None = None, *, mode: str | None = None) -> Explanation:
        """Returns the effects of a call and the decision of the policy. Runs nothing."""
        return await self._ask(Explanation, requests.explain(tool, arguments or {}, mode))

    async def replay(self, policy: str, *, limit: int | None = None) -> Replay:
        """Evaluates the newest calls with these rules (TOML). The rules do not come into force."""
        return await self._ask(Replay, requests.replay(policy, limit))

    async def halt_status(self) -> HaltStatus:
        """Returns whether a halt is active."""
        return await self._ask(HaltStatus, requests.halt_status())

    async def halt(self, reason: str) -> None:
        """Halts all calls."""
        await self.perform(steps.send(requests.halt(reason), self.tries))

    async def lift(self) -> None:
        """Lifts a halt."""
        await self.perform(steps.send(requests.lift(), self.tries))

    async def health(self) -> Health:
        """Returns the health of the server."""
        return await self._ask(Health, requests.health())

    async def _ask(self, kind: type[T], request: Request) -> T:
        return await self.perform(steps.send_and_decode(kind, request, self.tries))

    async def perform(self, flow: Flow[T]) -> T:
        """Performs the steps of a flow."""
        try:
            step = next(flow)
            while True:
                try:
                    result = await self._step(step)
                except Exception as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _step(self, step: Step) -> Any:
        if isinstance(step, Now):
            return time.monotonic()
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Invoke):
            value = step.function(*step.subject, **step.arguments)
            return await value if inspect.isawaitable(value) else value
        try:
            return _reply(await self._http.request(step.method, step.path, **_options(step)))
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
