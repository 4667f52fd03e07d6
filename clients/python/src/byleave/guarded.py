"""`@byleave.tool`: a function of this process, behind the gate."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, cast, overload

from . import schema as schemas
from .client import AsyncClient, Client
from .models import Json, Result
from .own import Order, Spec, used, value_of
from .reviews import InputReviewer, OutputReviewer
from .steps import new_key

P = ParamSpec("P")
R = TypeVar("R")
Class = Literal["bash", "file", "webfetch", "readonly", "generic"]
Role = Literal["read-path", "write-path", "edit-path", "delete-path", "patch", "url", "command"]


class Declared(TypedDict, total=False):
    """What a function says of itself. What is not said counts as the stricter."""

    kind: Class
    roles: Mapping[str, Role]
    operation: str
    needs_approval: bool
    requires_checkpoint: bool
    concurrency_safe: bool
    read_only: bool
    destructive: bool
    sensitive: bool
    timeout_ms: int


class _Guarded(Generic[P]):
    def __init__(self, function: Callable[P, Any], spec: Spec, schema: Mapping[str, Json], description: str) -> None:
        functools.update_wrapper(cast(Any, self), function)
        self.name = spec.name
        self.description = description
        self.schema = schema
        self._spec = spec
        self._signature = inspect.signature(function)

    def _arguments(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Json]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _order(
        self,
        arguments: Mapping[str, Json],
        key: str | None,
        session: str | None,
        reason: str | None,
        timeout_s: float | None,
    ) -> Order:
        return Order(arguments, key or new_key(), session, reason, None, timeout_s)


class Guarded(_Guarded[P], Generic[P, R]):
    """A function behind the gate. Calling it asks the server first, and gives what the server releases."""

    client: Client | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, value_of(self.run(self._arguments(*args, **kwargs))))

    def run(
        self,
        arguments: Mapping[str, Json],
        *,
        key: str | None = None,
        session: str | None = None,
        reason: str | None = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Uses it, and says what came of it: a refusal is a result, too."""
        self.client = self.client or Client()
        order = self._order(arguments, key, session, reason, timeout_s)
        return self.client.perform(used(self._spec, order, self.client.tries))


class AsyncGuarded(_Guarded[P], Generic[P, R]):
    """An asynchronous function behind the gate."""

    client: AsyncClient | None = None

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, value_of(await self.run(self._arguments(*args, **kwargs))))

    async def run(
        self,
        arguments: Mapping[str, Json],
        *,
        key: str | None = None,
        session: str | None = None,
        reason: str | None = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Uses it, and says what came of it: a refusal is a result, too."""
        self.client = self.client or AsyncClient()
        order = self._order(arguments, key, session, reason, timeout_s)
        return await self.client.perform(used(self._spec, order, self.client.tries))


class _Decorator:
    def __init__(self, make: Callable[[Callable[..., Any]], Any]) -> None:
        self._make = make

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> AsyncGuarded[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> Guarded[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return self._make(function)


@overload
def tool(function: Callable[P, Awaitable[R]], /) -> AsyncGuarded[P, R]: ...  # type: ignore[overload-overlap]
@overload
def tool(function: Callable[P, R], /) -> Guarded[P, R]: ...
@overload
def tool(
    *,
    client: Client | AsyncClient | None = None,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Json] | None = None,
    input: InputReviewer | None = None,
    output: OutputReviewer | None = None,
    declared: Declared | None = None,
) -> _Decorator: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    client: Client | AsyncClient | None = None,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Json] | None = None,
    input: InputReviewer | None = None,
    output: OutputReviewer | None = None,
    declared: Declared | None = None,
) -> Any:
    """Puts a function behind the gate.

    Each call is judged, asked about and recorded by the server, and runs here, once, only when the server says so. `input` sees the
    arguments before that, and `output` the result before anybody else; each may change it or refuse. Where the server cannot be
    reached, or answers nonsense, the function does not run.
    """

    def make(function: Callable[..., Any]) -> Any:
        said = description or inspect.getdoc(function) or ""
        shape = dict(schema) if schema is not None else schemas.of_function(function)
        words: dict[str, Any] = {"description": said, "input_schema": shape, **(declared or {})}
        if "kind" in words:
            words["class"] = words.pop("kind")
        spec = Spec(name or function.__name__, words, function, input, output)
        if inspect.iscoroutinefunction(function):
            guarded: Any = AsyncGuarded(function, spec, shape, said)
        else:
            guarded = Guarded(function, spec, shape, said)
        fits = AsyncClient if isinstance(guarded, AsyncGuarded) else Client
        if client is not None and not isinstance(client, fits):
            raise TypeError(f"`{spec.name}` needs {fits.__name__}")
        guarded.client = client
        return guarded

    return make(function) if function is not None else _Decorator(make)
