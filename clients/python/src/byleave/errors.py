"""What can go wrong. Whatever it is, a guarded function has not run unless its class says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .models import Result


class ByleaveError(Exception):
    """Anything that this package raises."""


class Unreachable(ByleaveError):
    """The server cannot be reached, or went away. What was accepted is found again with the same key."""


class Nonsense(ByleaveError):
    """The server answered what cannot be understood; it is taken as no."""


class Problem(ByleaveError):
    """The server refused a request (RFC 9457)."""

    def __init__(self, status: int, code: str, title: str, detail: str, page: str, retry_after_s: float | None) -> None:
        super().__init__(f"{detail} ({code}, {status})")
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.page = page
        self.retry_after_s = retry_after_s


class Unauthenticated(Problem):
    """There is no token, or none that counts."""


class Forbidden(Problem):
    """The token is good, and not for this."""


class NotFound(Problem):
    """There is no such thing, or not for you."""


class Conflict(Problem):
    """The key, the claim or the question was used already; `code` says which."""


class TooMany(Problem):
    """More requests than are allowed; `retry_after_s` says when."""


_BY_STATUS: dict[int, type[Problem]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: TooMany,
}


def problem_class(status: int) -> type[Problem]:
    """The class of a problem with this status."""
    return _BY_STATUS.get(status, Problem)


class NotCompleted(ByleaveError):
    """A call that was settled without a result that the model may have."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class Refused(NotCompleted):
    """It did not run, and here is why."""

    def __init__(self, result: Result, code: str, why: str, page: str) -> None:
        super().__init__(f"{why} ({code})", result)
        self.code = code
        self.why = why
        self.page = page


class Withheld(Refused):
    """It ran, and its result is not released."""


class Unknown(Refused):
    """It may have run; nobody can say."""


class Failed(NotCompleted):
    """It ran, and says that it failed."""


class WaitedTooLong(ByleaveError):
    """The call is not settled yet. It goes on; the same key finds it again."""

    def __init__(self, call: str, state: str) -> None:
        super().__init__(f"call {call} is still {state}")
        self.call = call
        self.state = state


class Unreported(ByleaveError):
    """The function has run, and the server could not be told what came of it; the call ends as unknown."""
