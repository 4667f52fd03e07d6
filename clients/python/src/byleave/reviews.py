"""Reviews: what a function's own reviewers make of its arguments and its result.

A reviewer returns `True` (nothing to object), `False` (no), a value (this instead), or `change` and `deny` with a reason. One that
raises, or returns nothing, objects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .models import Json
from .steps import Flow, Invoke


@dataclass(frozen=True)
class Input:
    """Arguments to be reviewed."""

    tool: str
    key: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True)
class Output:
    """A result to be reviewed."""

    tool: str
    call: str
    arguments: Mapping[str, Json]
    value: Json


@dataclass(frozen=True)
class Pass:
    """Nothing to object."""


@dataclass(frozen=True)
class Change:
    """This instead: all the arguments, or the whole result."""

    value: Json
    why: str | None = None


@dataclass(frozen=True)
class Deny:
    """No."""

    why: str | None = None


Verdict = Pass | Change | Deny
Said = bool | Json | Verdict
InputReviewer = Callable[[Input], Said | Awaitable[Said]]
OutputReviewer = Callable[[Output], Said | Awaitable[Said]]


def change(value: Json, why: str | None = None) -> Change:
    """This instead."""
    return Change(value, why)


def deny(why: str | None = None) -> Deny:
    """No."""
    return Deny(why)


def reviewed(reviewer: Callable[..., Any] | None, subject: Input | Output) -> Flow[Verdict]:
    """What a reviewer says; one that breaks objects."""
    if reviewer is None:
        return Pass()
    try:
        said = yield Invoke(reviewer, (subject,))
    except Exception as error:  # Breaking is objecting, whatever broke.
        return Deny(f"the reviewer broke: {type(error).__name__}")
    if isinstance(said, (Pass, Change, Deny)):
        return said
    if said is True:
        return Pass()
    if said is False:
        return Deny()
    if said is None:
        return Deny("the reviewer said nothing")
    return Change(said)
