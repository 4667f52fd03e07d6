"""Reviews of the arguments and the result of a function by its own reviewers.

A reviewer returns `True` (no objection), `False` (refuse), a value (use this instead), or `change` and `deny` with a reason. A
reviewer that raises or returns nothing refuses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .models import Json
from .steps import Flow, Invoke


@dataclass(frozen=True)
class Input:
    """Arguments to review."""

    tool: str
    key: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True)
class Output:
    """A result to review."""

    tool: str
    call: str
    arguments: Mapping[str, Json]
    value: Json


@dataclass(frozen=True)
class Pass:
    """No objection."""


@dataclass(frozen=True)
class Change:
    """Replaces all arguments, or the whole result."""

    value: Json
    reason: str | None = None


@dataclass(frozen=True)
class Deny:
    """Refuses the arguments or the result."""

    reason: str | None = None


Opinion = Pass | Change | Deny
ReviewerResult = bool | Json | Opinion
InputReviewer = Callable[[Input], ReviewerResult | Awaitable[ReviewerResult]]
OutputReviewer = Callable[[Output], ReviewerResult | Awaitable[ReviewerResult]]


def change(value: Json, reason: str | None = None) -> Change:
    """Replaces the arguments or the result."""
    return Change(value, reason)


def deny(reason: str | None = None) -> Deny:
    """Refuses the arguments or the result."""
    return Deny(reason)


def review(reviewer: Callable[..., Any] | None, subject: Input | Output) -> Flow[Opinion]:
    """Asks a reviewer. A reviewer that fails refuses."""
    if reviewer is None:
        return Pass()
    try:
        result = yield Invoke(reviewer, (subject,))
    except Exception as error:  # A reviewer that fails refuses.
        return Deny(f"the reviewer failed: {type(error).__name__}")
    if isinstance(result, (Pass, Change, Deny)):
        return result
    if result is True:
        return Pass()
    if result is False:
        return Deny()
    if result is None:
        return Deny("the reviewer returned nothing")
    return Change(result)
