"""Calls of functions of this process: judged, asked about and recorded by the server, run here, once, when it says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from .errors import Nonsense, Unreachable, Unreported
from .models import Json, Result, Standing, decode, result_of
from .reviews import Change, Deny, Input, InputReviewer, Output, OutputReviewer, Pass, Verdict, reviewed
from .steps import (
    Clock,
    Flow,
    Invoke,
    Request,
    asked,
    json_of,
    looked,
    new_key,
    path,
    sent,
    started,
    submitted,
)

#: A report is worth more patience than a request: what it tells has happened.
REPORT_TRIES = 8

#: The session of the guarded function that runs, so that what it calls does not wait for it to end.
_session: ContextVar[str | None] = ContextVar("byleave_session", default=None)


@dataclass(frozen=True)
class Spec:
    """A function, as the server judges it."""

    name: str
    declared: Mapping[str, Json]
    function: Callable[..., Any]
    review_input: InputReviewer | None = None
    review_output: OutputReviewer | None = None


@dataclass(frozen=True)
class Order:
    """One use of a function."""

    arguments: Mapping[str, Json]
    key: str = field(default_factory=new_key)
    session: str | None = None
    reason: str | None = None
    mode: str | None = None
    timeout_s: float | None = None


def used(spec: Spec, order: Order, tries: int) -> Flow[Result]:
    """Has a function judged, and runs it where it may; gives what the server releases."""
    clock = yield from started(order.timeout_s)
    arguments, verdict = yield from _input(spec, order)
    session = order.session or _nested()
    standing = yield from _submitted(spec, order, session, verdict, clock, tries)
    claim = new_key()
    while standing.state not in ("settled", "taken"):
        if standing.state == "ready":
            take = Request("POST", path("calls", standing.call, "take"), {"wait": 30}, {"claim": claim}, repeatable=True)
            standing = yield from asked(Standing, take, tries)
            continue
        yield from clock.check(standing)
        standing = yield from _looked(spec, standing, clock, tries)
    if standing.state == "taken":
        report = yield from _run(spec, order, standing, arguments, session)
        standing = yield from _reported(standing.call, {"claim": claim, **report})
        while standing.state != "settled":
            standing = yield from _looked(spec, standing, Clock(None), tries)
    return result_of(standing)


def value_of(result: Result) -> Json:
    """What a function returned, as it was released; else raises what stands in the way."""
    text = result.released()
    if isinstance(result.data, dict) and result.data.keys() == {"value"}:
        return result.data["value"]
    return text


def _input(spec: Spec, order: Order) -> Flow[tuple[Mapping[str, Json], Mapping[str, Json] | None]]:
    """What the reviewer of arguments says: the arguments that it passes, and its words for the server."""
    verdict = yield from reviewed(spec.review_input, Input(spec.name, order.key, order.arguments))
    if isinstance(verdict, Change) and not isinstance(verdict.value, dict):
        verdict = Deny("the reviewer changed the arguments to something that is no object")
    if isinstance(verdict, Change):
        return verdict.value, {"say": "change", "arguments": verdict.value, **_why(verdict)}
    if isinstance(verdict, Deny):
        return {}, {"say": "deny", **_why(verdict)}
    return order.arguments, None


def _submitted(
    spec: Spec, order: Order, session: str | None, review: Mapping[str, Json] | None, clock: Clock, tries: int
) -> Flow[Standing]:
    tool = yield from _registered(spec, tries)
    body: dict[str, Json] = {"tool": tool, "arguments": dict(order.arguments)}
    more = {"session": session, "reason": order.reason, "mode": order.mode, "review": review}
    body.update({name: value for name, value in more.items() if value is not None})
    return (yield from asked(Standing, submitted(body, order.key, (yield from clock.wait())), tries))


def _looked(spec: Spec, standing: Standing, clock: Clock, tries: int) -> Flow[Standing]:
    # A server that began anew has forgotten which functions there are.
    yield from _registered(spec, tries)
    return (yield from asked(Standing, looked(standing.call, (yield from clock.wait())), tries))


def _registered(spec: Spec, tries: int) -> Flow[str]:
    request = Request("PUT", path("own-tools", spec.name), body=dict(spec.declared), repeatable=True)
    said = json_of((yield from sent(request, tries)))
    tool = said.get("tool") if isinstance(said, dict) else None
    if not isinstance(tool, str):
        raise Nonsense("the server does not say what the function is called")
    return tool


def _run(spec: Spec, order: Order, standing: Standing, passed: Mapping[str, Json], session: str | None) -> Flow[dict[str, Json]]:
    """Runs the function, and says what came of it. It runs in no other place."""
    arguments = standing.arguments
    if not isinstance(arguments, dict):
        raise Nonsense("the server does not say with which arguments")
    if arguments != passed:
        # A person edited them, and no reviewer has seen that.
        again = yield from reviewed(spec.review_input, Input(spec.name, order.key, arguments))
        if not isinstance(again, Pass):
            why = again.why or "no reason was given"
            return {"error": f"it did not run: the reviewer does not pass the edited arguments: {why}"}
    inside = _session.set(session or "main")
    try:
        value = yield Invoke(spec.function, (), arguments)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    except Exception as error:  # A failure is a result that the model can read.
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        _session.reset(inside)
    output = Output(spec.name, standing.call, arguments, value)
    verdict = yield from reviewed(spec.review_output, output)
    return {**_content(value, text), **_output_review(verdict)}


def _content(value: Json, text: str) -> dict[str, Json]:
    # The text may get notes for the model in front of it; the value does not.
    return {"text": text, "data": {"value": value}}


def _output_review(verdict: Verdict) -> dict[str, Json]:
    if isinstance(verdict, Change):
        try:
            text = (
                verdict.value if isinstance(verdict.value, str) else json.dumps(verdict.value, ensure_ascii=False, allow_nan=False)
            )
        except (TypeError, ValueError):
            return {"review": {"say": "deny", "why": "the reviewer changed the result to something that is no JSON"}}
        return {"review": {"say": "change", **_content(verdict.value, text), **_why(verdict)}}
    if isinstance(verdict, Deny):
        return {"review": {"say": "deny", **_why(verdict)}}
    return {}


def _why(verdict: Change | Deny) -> dict[str, Json]:
    return {} if verdict.why is None else {"why": verdict.why}


def _reported(call: str, report: Mapping[str, Json]) -> Flow[Standing]:
    request = Request("POST", path("calls", call, "report"), {"wait": 2}, dict(report), repeatable=True)
    try:
        reply = yield from sent(request, REPORT_TRIES)
    except Unreachable as error:
        raise Unreported(f"call {call} has run, and the server could not be told: {error}") from error
    return decode(Standing, json_of(reply))


def _nested() -> str | None:
    outer = _session.get()
    return None if outer is None else f"{outer[:44]}.in"
