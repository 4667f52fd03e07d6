"""A client for `byleave serve`, and a decorator that puts functions behind its gate."""

from .client import AsyncClient, Client
from .errors import (
    ByleaveError,
    Conflict,
    Forbidden,
    InvalidResponse,
    NotFound,
    Problem,
    ReportFailed,
    TooManyRequests,
    Unauthenticated,
    Unreachable,
    WaitTimeout,
)
from .guarded import AsyncGuardedFunction, Declaration, GuardedFunction, tool
from .models import (
    CallStatus,
    Event,
    Failed,
    NotCompleted,
    QuestionView,
    Refusal,
    Refused,
    Result,
    Unknown,
    Withheld,
)
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
