"""The single requests of the API, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .models import Json
from .steps import Request, path


def _given(**query: Any) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}


def _get(*parts: str, **query: Any) -> Request:
    return Request("GET", path(*parts), _given(**query), repeatable=True)


def call_body(
    tool: str,
    arguments: Mapping[str, Json],
    session: str | None,
    reason: str | None,
    mode: str | None,
    dry_run: bool,
) -> dict[str, Any]:
    """Returns the body of a call."""
    body = _given(tool=tool, arguments=dict(arguments), session=session, reason=reason, mode=mode)
    return {**body, "dry_run": True} if dry_run else body


def cancel(call: str, wait_s: int) -> Request:
    return Request("POST", path("calls", call, "cancel"), {"wait": wait_s}, repeatable=True)


def events(call: str, last: int | None) -> Request:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    return Request("GET", path("calls", call, "events"), headers={"Accept": "text/event-stream", **headers})


def questions(limit: int | None, after: int | None) -> Request:
    return _get("questions", limit=limit, after=after)


def question(id: str) -> Request:
    return _get("questions", id)


def answer(question: str, digest: str, choice: Mapping[str, Json]) -> Request:
    return Request("POST", path("questions", question, "answer"), body={"digest": digest, "answer": dict(choice)})


def standing_approvals() -> Request:
    return _get("approvals")


def revoke(standing_approval: str) -> Request:
    return Request("DELETE", path("approvals", standing_approval))


def audit_log(query: Mapping[str, Any]) -> Request:
    return _get("log", "calls", **query)


def record(call: str) -> Request:
    return _get("log", "calls", call)


def export(format: str, since: int | None, until: int | None) -> Request:
    return _get("audit", "export", format=format, since=since, until=until)


def verify() -> Request:
    return Request("POST", path("audit", "verify"), repeatable=True)


def tools(format: str) -> Request:
    return _get("tools", format=format)


def explain(tool: str, arguments: Mapping[str, Json], mode: str | None) -> Request:
    body = _given(tool=tool, arguments=dict(arguments), mode=mode)
    return Request("POST", path("policy", "explain"), body=body, repeatable=True)


def replay(policy: str, limit: int | None) -> Request:
    return Request("POST", path("policy", "replay"), body=_given(policy=policy, limit=limit), repeatable=True)


def halt_status() -> Request:
    return _get("halt")


def halt(reason: str) -> Request:
    return Request("PUT", path("halt"), body={"reason": reason})


def lift() -> Request:
    return Request("DELETE", path("halt"))


def health() -> Request:
    return _get("health")
