"""Exceptions. A guarded function has not run unless the class of the exception says otherwise."""

from __future__ import annotations


class ByleaveError(Exception):
    """The base class of all exceptions of this package."""


class Unreachable(ByleaveError):
    """The server cannot be reached, or the connection broke. An accepted call can be found again with the same key."""


class InvalidResponse(ByleaveError):
    """The response of the server is not valid. It is treated as a refusal."""


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
    """The token is missing or not valid."""


class Forbidden(Problem):
    """The token does not allow this."""


class NotFound(Problem):
    """The object does not exist, or you may not see it."""


class Conflict(Problem):
    """The key, the claim or the question was already used; `code` says which."""


class TooManyRequests(Problem):
    """Too many requests; `retry_after_s` says when to try again."""


_BY_STATUS: dict[int, type[Problem]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: TooManyRequests,
}


def problem_class(status: int) -> type[Problem]:
    """Returns the exception class for this status."""
    return _BY_STATUS.get(status, Problem)


class WaitTimeout(ByleaveError):
    """The call is not settled yet. It continues, and can be found again with the same key."""

    def __init__(self, call: str, state: str) -> None:
        super().__init__(f"call {call} is still {state}")
        self.call = call
        self.state = state


class ReportFailed(ByleaveError):
    """The function has run, but its result could not be reported to the server. The outcome of the call is unknown."""
