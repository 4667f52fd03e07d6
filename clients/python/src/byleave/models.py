"""What the server says, as values. Read strictly: what does not fit is `Nonsense`; fields that are new are left aside."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import Failed, Nonsense, Refused, Unknown, Withheld

Json = Any
T = TypeVar("T")

State = Literal["settled", "waiting", "held-up", "ready", "taken", "running"]
Outcome = Literal["completed", "failed", "withheld", "refused", "rehearsed", "unknown"]


@dataclass(frozen=True)
class Refusal:
    """Why something did not happen."""

    code: str
    why: str
    page: str


@dataclass(frozen=True)
class Change:
    """Something that was changed on the way."""

    what: str
    by: str
    why: str | None


@dataclass(frozen=True)
class Receipt:
    """Where a call stands in the book."""

    entries: int
    head: str


@dataclass(frozen=True)
class Settled:
    """What came of a call, as the server says it."""

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
    changes: list[Change]
    receipt: Receipt | None


@dataclass(frozen=True)
class QuestionRef:
    """A question, with the digest that an answer repeats."""

    id: str
    kind: str
    digest: str
    expires_at: int


@dataclass(frozen=True)
class Standing:
    """How far a call has come."""

    call: str
    state: State
    question: QuestionRef | None = None
    held_up_by: str | None = None
    arguments: Json = None
    result: Settled | None = None


@dataclass(frozen=True)
class Result(Settled):
    """What came of a call."""

    call: str

    def text(self) -> str:
        """For the model to read, whatever came of it: its output, or why there is none."""
        if self.outcome in ("completed", "rehearsed"):
            return self.output
        said = self.error or (self.refusal.why if self.refusal else "it failed")
        code = f" ({self.refusal.code}, see {self.refusal.page})" if self.refusal else ""
        return f"{self.output}\n{self.outcome}: {said}{code}".lstrip("\n")

    def released(self) -> str:
        """The output, where the call completed; else raises what stands in its way."""
        if self.outcome in ("completed", "rehearsed"):
            return self.output
        if self.outcome == "failed":
            raise Failed(self.text(), self)
        refusal = self.refusal or Refusal("nonsense", "the server does not say why", "")
        kind = {"withheld": Withheld, "refused": Refused, "unknown": Unknown}[self.outcome]
        raise kind(self, refusal.code, refusal.why, refusal.page)


def result_of(standing: Standing) -> Result:
    """What came of a call that is settled."""
    if standing.result is None:
        raise Nonsense("a settled call has no result")
    settled = standing.result
    if settled.success != (settled.outcome in ("completed", "rehearsed")):
        raise Nonsense(f"a call that was {settled.outcome} is said to be success={settled.success}")
    fields = {field.name: getattr(settled, field.name) for field in dataclasses.fields(settled)}
    return Result(call=standing.call, **fields)


@dataclass(frozen=True)
class Event:
    """An event of a call: `entry`, with the number of the entry as id, or `tool_approval`."""

    event: str
    id: int | None
    data: Json


@dataclass(frozen=True)
class OpenQuestion:
    """An open question, in a line."""

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
class SheetLine:
    """One line of a question: to be shown as text."""

    role: Json
    text: str
    gutter: int


@dataclass(frozen=True)
class Offer:
    """A leave that may be given."""

    offer: int
    breadth: str
    words: str


@dataclass(frozen=True)
class Sheet:
    """Everything that a person must see to answer a question."""

    question: QuestionRef
    call: str
    agent: str
    session: str
    tool: str
    arguments: Json
    lines: list[SheetLine]
    complete: bool
    gravity: str
    offers: list[Offer]
    no_leave: str | None


@dataclass(frozen=True)
class Leave:
    """A leave that was given."""

    leave: str
    state: str
    tool: str
    scope: list[Json]
    session: str | None
    until: int | None
    uses: int
    uses_max: int | None
    by: str
    given_at: int
    call: str
    rule: str


@dataclass(frozen=True)
class CallEntry:
    """A call of the book, in a line."""

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
class RecordLine:
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
    damage: str | None
    lines: list[RecordLine]


@dataclass(frozen=True)
class ToolEntry:
    """A tool."""

    name: str
    schema: Json
    unfit: str | None
    read_only: bool
    destructive: bool


@dataclass(frozen=True)
class Reason:
    """A reason of a ruling."""

    verdict: str
    rule: str | None
    origin: str | None
    effects: list[int]
    why: str


@dataclass(frozen=True)
class Explanation:
    """What a call would do, and what the policy says of it."""

    tool: str
    verdict: str | None
    refusal: Refusal | None
    effects: list[Json]
    reasons: list[Reason]
    policy: str | None


@dataclass(frozen=True)
class ReplayCount:
    """How many calls would go from one verdict to another."""

    before: str
    now: str
    calls: int


@dataclass(frozen=True)
class ReplayChange:
    """A call that would get another verdict."""

    call: str
    tool: str
    summary: str
    before: str
    now: str
    rule: str | None
    origin: str | None
    why: str


@dataclass(frozen=True)
class NotJudged:
    """A call that cannot be judged again."""

    call: str
    tool: str
    why: str


@dataclass(frozen=True)
class Replay:
    """What other rules would have made of past calls."""

    judged: int
    same: int
    more: bool
    counts: list[ReplayCount]
    changed: list[ReplayChange]
    not_judged: list[NotJudged]


@dataclass(frozen=True)
class Anchor:
    """What the newest segment of the book was when it was last sealed."""

    number: int
    digest: str
    key: str


@dataclass(frozen=True)
class Flaw:
    """The first place of the book that is not as it was written."""

    place: str
    why: str


@dataclass(frozen=True)
class Verification:
    """What came of checking the book."""

    sound: bool
    records: int
    lines: int
    acts: int
    segments: int
    unsealed: int
    anchor: Anchor | None
    flaw: Flaw | None


@dataclass(frozen=True)
class Halt:
    """Whether everything is halted."""

    halted: bool
    why: str | None
    by: str | None


@dataclass(frozen=True)
class Health:
    """How the server is."""

    status: str
    version: str


def decode(kind: type[T], value: Json, where: str = "the answer") -> T:
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
            raise Nonsense(f"{where} is {value!r}")
        return value
    if origin is list:
        if not isinstance(value, list):
            raise Nonsense(f"{where} is no list")
        return [_read(get_args(kind)[0], one, f"{where}[{i}]") for i, one in enumerate(value)]
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, value, where)
    is_flag = isinstance(value, bool)
    if not isinstance(value, kind) or (is_flag and kind is not bool):
        raise Nonsense(f"{where} is no {kind.__name__}")
    return value


def _read_fields(kind: Any, value: Json, where: str) -> Any:
    if not isinstance(value, dict):
        raise Nonsense(f"{where} is no object")
    found = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            found[field.name] = _read(_hints(kind)[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and _hints(kind)[field.name] is not Any:
            raise Nonsense(f"{where} has no `{field.name}`")
        elif field.default is dataclasses.MISSING:
            found[field.name] = None
    return kind(**found)
