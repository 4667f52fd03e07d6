"""A client for `byleave serve`, and a decorator that puts functions behind its gate."""

from .client import AsyncClient, Client
from .errors import (
    ByleaveError,
    Conflict,
    Failed,
    Forbidden,
    InvalidResponse,
    NotCompleted,
    NotFound,
    Problem,
    Refused,
    ReportFailed,
    TooManyRequests,
    Unauthenticated,
    Unknown,
    Unreachable,
    WaitTimeout,
    Withheld,
)
from .guarded import AsyncGuardedFunction, Declaration, GuardedFunction, tool
from .models import CallStatus, Event, QuestionView, Refusal, Result
from .reviews import Input, Output, change, deny

__all__ = [
    "AsyncClient",
    "AsyncGuardedFunction",
    "ByleaveError",
    "CallStatus",
    "Client",
    "Conflict",
    "Declaration",
    "Event",
    "Failed",
    "Forbidden",
    "GuardedFunction",
    "Input",
    "InvalidResponse",
    "NotCompleted",
    "NotFound",
    "Output",
    "Problem",
    "QuestionView",
    "Refusal",
    "Refused",
    "ReportFailed",
    "Result",
    "TooManyRequests",
    "Unauthenticated",
    "Unknown",
    "Unreachable",
    "WaitTimeout",
    "Withheld",
    "change",
    "deny",
    "tool",
]
