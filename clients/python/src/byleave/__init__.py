"""A client for `byleave serve`, and functions behind its gate. Nothing happens but by your leave."""

from .client import AsyncClient, Client
from .errors import (
    ByleaveError,
    Conflict,
    Failed,
    Forbidden,
    Nonsense,
    NotCompleted,
    NotFound,
    Problem,
    Refused,
    TooMany,
    Unauthenticated,
    Unknown,
    Unreachable,
    Unreported,
    WaitedTooLong,
    Withheld,
)
from .guarded import AsyncGuarded, Declared, Guarded, tool
from .models import Event, Refusal, Result, Sheet, Standing
from .reviews import Input, Output, change, deny

__all__ = [
    "AsyncClient",
    "AsyncGuarded",
    "ByleaveError",
    "Client",
    "Conflict",
    "Declared",
    "Event",
    "Failed",
    "Forbidden",
    "Guarded",
    "Input",
    "Nonsense",
    "NotCompleted",
    "NotFound",
    "Output",
    "Problem",
    "Refusal",
    "Refused",
    "Result",
    "Sheet",
    "Standing",
    "TooMany",
    "Unauthenticated",
    "Unknown",
    "Unreachable",
    "Unreported",
    "WaitedTooLong",
    "Withheld",
    "change",
    "deny",
    "tool",
]
