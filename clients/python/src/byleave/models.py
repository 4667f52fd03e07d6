"""Responses of the server as values. Reading is strict and raises `InvalidResponse`. Unknown fields are ignored."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import ByleaveError, InvalidResponse

Json = Any
T = TypeVar("T")

State = Literal["settled", "waiting", "blocked", "ready", "claimed", "running"]
Outcome = Literal["completed", "failed", "withheld", "refused", "dry-run", "unknown", "answered"]
#: The outcomes with a text for the model. `answered`: a person answered in the place of the tool, which did not run.
SUCCESSES = ("completed", "dry-run", "answered")


@dataclass(frozen=True)
class Refusal:
    """The reason for a refusal."""

    code: str
    message: str
    page: str
    #: How a participant failed, if the code says that one did: error, panic, timeout or invalid-response.
    cause: str | None = None


@dataclass(frozen=True)
class Modification:
    """A change by a reviewer or a person."""

    kind: str
    actor: str
    reason: str | None


@dataclass(frozen=True)
class Receipt:
    """The position of a call in the audit log."""

    entries: int
    head: str


@dataclass(frozen=True)
class ResultBody:
    """The result of a call, as the server sends it."""

    outcome: Outcome
    tool: str
    success: bool
    output: str
    truncated: bool
    execution_time_ms: int
    error: str | None
    refusal: Refusal | None
    arguments: Json
    data: Json
    effects: list[Json] | None
    modifications: list[Modification]
    receipt: Receipt | None


class NotCompleted(ByleaveError):
    """The call was settled without a result for the model."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class Refused(NotCompleted):
    """The call did not run."""

    def __init__(self, result: Result, code: str, reason: str, page: str) -> None:
        super().__init__(f"{reason} ({code})", result)
        self.code = code
        self.reason = reason
        self.page = page


class Withheld(Refused):
    """The call ran, but its result was not released."""


class Unknown(Refused):
    """The call may have run; its outcome is unknown."""


class Failed(NotCompleted):
    """The call ran and failed."""


@dataclass(frozen=True)
class QuestionRef:
    """A question, with the digest that an answer must repeat."""

    id: str
    kind: str
    digest: str
    expires_at: int


@dataclass(frozen=True)
class CallStatus:
    """The status of a call."""

    call: str
    state: State
    question: QuestionRef | None = None
    blocking_call: str | None = None
    arguments: Json = None
    data: Json = None
    result: ResultBody | None = None


@dataclass(frozen=True)
class Result(ResultBody):
    """The result of a call."""

    call: str

    def text(self) -> str:
        """Returns the text for the model: the output, or the reason why there is none."""
        if self.outcome in SUCCESSES:
            return self.output
        message = self.error or (self.refusal.message if self.refusal else "the call failed")
        code = f" ({self.refusal.code}, see {self.refusal.page})" if self.refusal else ""
        return f"{self.output}\n{self.outcome}: {message}{code}".lstrip("\n")

    def released(self) -> str:
        """Returns the output of a completed call, or the answer of a person in its place. Raises if there is neither."""
        if self.outcome in SUCCESSES:
            return self.output
        if self.outcome == "failed":
            raise Failed(self.text(), self)
        refusal = self.refusal or Refusal("invalid-response", "the server gave no reason", "")
        kind = {"withheld": Withheld, "refused": Refused, "unknown": Unknown}[self.outcome]
        raise kind(self, refusal.code, refusal.message, refusal.page)


def result_of(status: CallStatus) -> Result:
    """Returns the result of a settled call."""
    if status.result is None:
        raise InvalidResponse("the response of the server has no result for a settled call")
    body = status.result
    if body.success != (body.outcome in SUCCESSES):
        raise InvalidResponse(f"the response of the server has the outcome {body.outcome} with success={body.success}")
    fields = {field.name: getattr(body, field.name) for field in dataclasses.fields(body)}
    return Result(call=status.call, **fields)


@dataclass(frozen=True)
class Event:
    """An event of a call: `entry`, with the number of the entry as id, or `tool_approval`."""

    event: str
    id: int | None
    data: Json


@dataclass(frozen=True)
class OpenQuestion:
    """An open question, summarized."""

    question: str
    kind: str
    call: str
    session: str
    agent: str
    tool: str
    operation: str
    summary: str
    asked_at: int
    expires_at: int
    cursor: int


@dataclass(frozen=True)
class QuestionLine:
    """One line of a question, to show as text."""

    role: Json
    text: str
    gutter: int


@dataclass(frozen=True)
class ApprovalScope:
    """A scope for a status approval."""

    scope: int
    width: str
    description: str


@dataclass(frozen=True)
class QuestionView:
    """Everything that a person must see to answer a question."""

    question: QuestionRef
    call: str
    agent: str
    session: str
    tool: str
    arguments: Json
    lines: list[QuestionLine]
    complete: bool
    severity: str
    approval_scopes: list[ApprovalScope]
    no_approval_reason: str | None


@dataclass(frozen=True)
class StandingApproval:
    """A status approval."""

    standing_approval: str
    state: str
    tool: str
    patterns: list[Json]
    session: str | None
    expires_at: int | None
    uses: int
    max_uses: int | None
    approver: str
    granted_at: int
    call: str
    rule: str


@dataclass(frozen=True)
class CallEntry:
    """A call of the audit log, summarized."""

    call: str
    session: str
    agent: str
    tool: str
    operation: str
    summary: str
    state: str
    outcome: str | None
    code: str | None
    opened_at: int
    changed_at: int
    cursor: int


@dataclass(frozen=True)
class RecordEntry:
    """One entry of a record."""

    seq: int
    link: str
    entry: Json
    text: str


@dataclass(frozen=True)
class Record:
    """A record: every entry with its link."""

    call: str
    forgotten: bool
    integrity_error: str | None
    entries: list[RecordEntry]


@dataclass(frozen=True)
class ToolEntry:
    """A tool."""

    name: str
    schema: Json
    unsupported_reason: str | None
    read_only: bool
    destructive: bool


@dataclass(frozen=True)
class Reason:
    """A reason of a decision."""

    verdict: str
    rule: str | None
    origin: str | None
    effects: list[int]
    message: str


@dataclass(frozen=True)
class Explanation:
    """The effects of a call and the decision of the policy."""

    tool: str
    verdict: str | None
    refusal: Refusal | None
    effects: list[Json]
    reasons: list[Reason]
    policy: str | None


@dataclass(frozen=True)
class ReplayCount:
    """The number of calls that would change from one verdict to another."""

    before: str
    after: str
    calls: int


@dataclass(frozen=True)
class ReplayChange:
    """A call that would get another verdict."""

    call: str
    tool: str
    summary: str
    before: str
    after: str
    rule: str | None
    origin: str | None
    message: str


@dataclass(frozen=True)
class ReplaySkip:
    """A call that cannot be evaluated again."""

    call: str
    tool: str
    reason: str


@dataclass(frozen=True)
class Replay:
    """The result of evaluating past calls with other rules."""

    evaluated: int
    same: int
    has_more: bool
    counts: list[ReplayCount]
    changed: list[ReplayChange]
    skipped: list[ReplaySkip]


@dataclass(frozen=True)
class Anchor:
    """The newest sealed segment of the audit log."""

    number: int
    digest: str
    public_key: str


@dataclass(frozen=True)
class IntegrityError:
    """The first place of the audit log that was changed."""

    position: str
    reason: str


@dataclass(frozen=True)
class Verification:
    """The result of verifying the audit log."""

    intact: bool
    records: int
    entries: int
    admin_actions: int
    segments: int
    unsealed: int
    anchor: Anchor | None
    integrity_error: IntegrityError | None


@dataclass(frozen=True)
class HaltStatus:
    """Whether a halt is active."""

    halted: bool
    reason: str | None
    actor: str | None


@dataclass(frozen=True)
class Health:
    """The health of the server."""

    status: str
    version: str


def decode(kind: type[T], value: Json, where: str = "the response") -> T:
    """Reads a JSON value as a dataclass, or a list of them."""
    return _read(kind, value, where)  # type: ignore[no-any-return]


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, value: Json, where: str) -> Any:
    if kind is Any:
        return value
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in get_args(kind):
            return None
        (kind,) = [one for one in get_args(kind) if one is not type(None)]
        return _read(kind, value, where)
    if origin is Literal:
        if value not in get_args(kind):
            raise InvalidResponse(f"{where} has the unknown value {value!r}")
        return value
    if origin is list:
        if not isinstance(value, list):
            raise InvalidResponse(f"{where} is not a list")
        return [_read(get_args(kind)[0], one, f"{where}[{i}]") for i, one in enumerate(value)]
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, value, where)
    is_flag = isinstance(value, bool)
    if not isinstance(value, kind) or (is_flag and kind is not bool):
        raise InvalidResponse(f"{where} is not of the type {kind.__name__}")
    return value


def _read_fields(kind: Any, value: Json, where: str) -> Any:
    if not isinstance(value, dict):
        raise InvalidResponse(f"{where} is not an object")
    found = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            found[field.name] = _read(_hints(kind)[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and _hints(kind)[field.name] is not Any:
            raise InvalidResponse(f"{where} has no `{field.name}`")
        elif field.default is dataclasses.MISSING:
            found[field.name] = None
    return kind(**found)
