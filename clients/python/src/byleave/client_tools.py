"""Calls of guarded functions. The server evaluates and records each call, and this process runs it once, if allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .errors import InvalidResponse, ReportFailed, Unreachable
from .models import CallStatus, Json, Result, decode, result_of
from .reviews import Change, Deny, Input, InputReviewer, Opinion, Output, OutputReviewer, Pass, review
from .steps import (
    Deadline,
    Flow,
    Invoke,
    Request,
    json_of,
    new_key,
    path,
    send,
    send_and_decode,
    start_deadline,
    status_request,
    submit_request,
)

#: A report is retried more often than a request, because the function has already run.
REPORT_TRIES = 8

#: The session of the guarded function that runs. Nested calls get another session, so that they do not wait for it to end.
_session: ContextVar[str | None] = ContextVar("byleave_session", default=None)

#: The data of earlier calls that the guarded function that runs is given, by the full name of the tool.
_data: ContextVar[Mapping[str, Json]] = ContextVar("byleave_data", default=MappingProxyType({}))


@dataclass(frozen=True)
class Spec:
    """A function and its declaration for the server."""

    name: str
    declaration: Mapping[str, Json]
    function: Callable[..., Any]
    review_input: InputReviewer | None = None
    review_output: OutputReviewer | None = None
    #: The tools whose data the function is given: full names of tools, and other functions.
    wants_data: tuple[str | Spec, ...] = ()


@dataclass(frozen=True)
class CallRequest:
    """One call of a function."""

    arguments: Mapping[str, Json]
    key: str = field(default_factory=new_key)
    session: str | None = None
    reason: str | None = None
    mode: str | None = None
    timeout_s: float | None = None


def run_client_tool(spec: Spec, request: CallRequest, tries: int) -> Flow[Result]:
    """Submits a call of a function, runs it if allowed, and returns the released result."""
    deadline = yield from start_deadline(request.timeout_s)
    arguments, opinion = yield from _review_input(spec, request)
    session = request.session or _nested_session()
    status = yield from _submit(spec, request, session, opinion, deadline, tries)
    claim = new_key()
    while status.state not in ("settled", "claimed"):
        if status.state == "ready":
            claim_request = Request("POST", path("calls", status.call, "claim"), {"wait": 30}, {"claim": claim}, repeatable=True)
            status = yield from send_and_decode(CallStatus, claim_request, tries)
            continue
        yield from deadline.check(status)
        status = yield from _status(spec, status, deadline, tries)
    if status.state == "claimed":
        report = yield from _run_function(spec, request, status, arguments, session)
        status = yield from _report(status.call, {"claim": claim, **report})
        while status.state != "settled":
            status = yield from _status(spec, status, Deadline(None), tries)
    return result_of(status)


def value_of(result: Result) -> Json:
    """Returns the released value of a function. Raises if the call did not complete."""
    text = result.released()
    if isinstance(result.data, dict) and result.data.keys() == {"value"}:
        return result.data["value"]
    return text


def data_of(source: str | Spec) -> Json:
    """Returns the data of a tool that the function that runs is given, or `None`. The data of a function is its released value."""
    for name, given in _data.get().items():
        if isinstance(source, str):
            is_source = name == source
        else:
            is_source = name.startswith("client.") and name.rpartition(".")[2] == source.name
        if is_source and isinstance(given, dict):
            data = given.get("data")
            if not isinstance(source, str) and isinstance(data, dict) and data.keys() == {"value"}:
                return data["value"]
            return data
    return None


def _review_input(spec: Spec, request: CallRequest) -> Flow[tuple[Mapping[str, Json], Mapping[str, Json] | None]]:
    """Asks the reviewer of arguments. Returns the arguments that it passes, and its opinion for the server."""
    opinion = yield from review(spec.review_input, Input(spec.name, request.key, request.arguments))
    if isinstance(opinion, Change) and not isinstance(opinion.value, dict):
        opinion = Deny("the reviewer changed the arguments to a value that is not an object")
    if isinstance(opinion, Change):
        return opinion.value, {"opinion": "change", "arguments": opinion.value, **_reason(opinion)}
    if isinstance(opinion, Deny):
        return {}, {"opinion": "deny", **_reason(opinion)}
    return request.arguments, None


def _submit(
    spec: Spec, request: CallRequest, session: str | None, review: Mapping[str, Json] | None, deadline: Deadline, tries: int
) -> Flow[CallStatus]:
    tool = yield from _register(spec, tries)
    body: dict[str, Json] = {"tool": tool, "arguments": dict(request.arguments)}
    more = {"session": session, "reason": request.reason, "mode": request.mode, "review": review}
    body.update({name: value for name, value in more.items() if value is not None})
    return (yield from send_and_decode(CallStatus, submit_request(body, request.key, (yield from deadline.wait())), tries))


def _status(spec: Spec, status: CallStatus, deadline: Deadline, tries: int) -> Flow[CallStatus]:
    # A restarted server has lost the registered functions.
    yield from _register(spec, tries)
    return (yield from send_and_decode(CallStatus, status_request(status.call, (yield from deadline.wait())), tries))


def _register(spec: Spec, tries: int) -> Flow[str]:
    declaration = dict(spec.declaration)
    if spec.wants_data:
        # A function whose data is wanted must be registered first.
        names: list[Json] = []
        for wanted in spec.wants_data:
            names.append(wanted if isinstance(wanted, str) else (yield from _register(wanted, tries)))
        declaration["wants_data"] = names
    registration = Request("PUT", path("client-tools", spec.name), body=declaration, repeatable=True)
    body = json_of((yield from send(registration, tries)))
    tool = body.get("tool") if isinstance(body, dict) else None
    if not isinstance(tool, str):
        raise InvalidResponse("the response of the server has no tool name")
    return tool


def _run_function(
    spec: Spec, request: CallRequest, status: CallStatus, passed: Mapping[str, Json], session: str | None
) -> Flow[dict[str, Json]]:
    """Runs the function and returns the report. The function runs only here."""
    arguments = status.arguments
    if not isinstance(arguments, dict):
        raise InvalidResponse("the response of the server has no arguments")
    if arguments != passed:
        # A person edited the arguments, and the reviewer has not seen the edit.
        opinion = yield from review(spec.review_input, Input(spec.name, request.key, arguments))
        if not isinstance(opinion, Pass):
            reason = opinion.reason or "no reason was given"
            return {"error": f"the function did not run: the reviewer refused the edited arguments: {reason}"}
    session_token = _session.set(session or "main")
    data_token = _data.set(status.data if isinstance(status.data, dict) else {})
    try:
        value = yield Invoke(spec.function, (), arguments)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    except Exception as error:  # A failure is a result that the model can read.
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        _data.reset(data_token)
        _session.reset(session_token)
    output = Output(spec.name, status.call, arguments, value)
    opinion = yield from review(spec.review_output, output)
    return {**_content(value, text), **_output_review(opinion)}


def _content(value: Json, text: str) -> dict[str, Json]:
    # The server may put notes for the model before the text, but not before the value.
    return {"text": text, "data": {"value": value}}


def _output_review(opinion: Opinion) -> dict[str, Json]:
    if isinstance(opinion, Change):
        try:
            text = (
                opinion.value if isinstance(opinion.value, str) else json.dumps(opinion.value, ensure_ascii=False, allow_nan=False)
            )
        except (TypeError, ValueError):
            return {"review": {"opinion": "deny", "reason": "the reviewer changed the result to a value that is not JSON"}}
        return {"review": {"opinion": "change", **_content(opinion.value, text), **_reason(opinion)}}
    if isinstance(opinion, Deny):
        return {"review": {"opinion": "deny", **_reason(opinion)}}
    return {}


def _reason(opinion: Change | Deny) -> dict[str, Json]:
    return {} if opinion.reason is None else {"reason": opinion.reason}


def _report(call: str, report: Mapping[str, Json]) -> Flow[CallStatus]:
    request = Request("POST", path("calls", call, "report"), {"wait": 2}, dict(report), repeatable=True)
    try:
        reply = yield from send(request, REPORT_TRIES)
    except Unreachable as error:
        raise ReportFailed(f"call {call} has run, but its result could not be reported to the server: {error}") from error
    return decode(CallStatus, json_of(reply))


def _nested_session() -> str | None:
    outer = _session.get()
    return None if outer is None else f"{outer[:44]}.in"
