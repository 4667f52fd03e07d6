"""`@byleave.tool` puts a function of this process behind the gate."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Union, cast, overload

from . import schema as schemas
from .client import AsyncClient, Client
from .client_tools import CallRequest, Spec, data_of, run_client_tool, value_of
from .models import Json, Result
from .reviews import InputReviewer, OutputReviewer
from .steps import new_key

P = ParamSpec("P")
R = TypeVar("R")
Class = Literal["bash", "file", "webfetch", "readonly", "generic"]
Role = Literal["read-path", "write-path", "edit-path", "delete-path", "patch", "url", "command"]


AnyGuarded = Union["GuardedFunction[Any, Any]", "AsyncGuardedFunction[Any, Any]"]


class Declaration(TypedDict, total=False):
    """The declaration of a function. Without `kind` it counts as undeclared, and without `sensitive` as sensitive."""

    aliases: Sequence[str]
    search_hint: str
    kind: Class
    roles: Mapping[str, Role]
    operation: str
    needs_approval: bool
    requires_checkpoint: bool
    requires_reverse_thinking: bool
    concurrency_safe: bool
    read_only: bool
    destructive: bool
    reversible: bool
    sensitive: bool
    timeout_ms: int
    #: The tools whose data the function is given: other guarded functions, and full names such as `grep`. See `earlier_data`.
    wants_data: Sequence[str | AnyGuarded]


class _GuardedBase(Generic[P]):
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

    def _request(
        self,
        arguments: Mapping[str, Json],
        key: str | None,
        session: str | None,
        reason: str | None,
        timeout_s: float | None,
    ) -> CallRequest:
        return CallRequest(arguments, key or new_key(), session, reason, None, timeout_s)


class GuardedFunction(_GuardedBase[P], Generic[P, R]):
    """A function behind the gate. A call asks the server first, and returns the released result."""

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
        """Calls the function and returns the result. A refusal is also a result."""
        self.client = self.client or Client()
        request = self._request(arguments, key, session, reason, timeout_s)
        return self.client.perform(run_client_tool(self._spec, request, self.client.tries))


class AsyncGuardedFunction(_GuardedBase[P], Generic[P, R]):
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
        """Calls the function and returns the result. A refusal is also a result."""
        self.client = self.client or AsyncClient()
        request = self._request(arguments, key, session, reason, timeout_s)
        return await self.client.perform(run_client_tool(self._spec, request, self.client.tries))


def earlier_data(source: str | AnyGuarded) -> Json:
    """Returns the data of an earlier call that the guarded function that runs is given, or `None` if there is none.

    The function declares `wants_data`. `source` is the tool that returned the data. It is the newest call of that tool in the
    session that had completed when the call was planned. The data of a guarded function is its released value.
    """
    return data_of(source if isinstance(source, str) else source._spec)


class _Decorator:
    def __init__(self, make: Callable[[Callable[..., Any]], Any]) -> None:
        self._make = make

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> AsyncGuardedFunction[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> GuardedFunction[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return self._make(function)


@overload
def tool(function: Callable[P, Awaitable[R]], /) -> AsyncGuardedFunction[P, R]: ...  # type: ignore[overload-overlap]
@overload
def tool(function: Callable[P, R], /) -> GuardedFunction[P, R]: ...
@overload
def tool(
    *,
    client: Client | AsyncClient | None = None,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Json] | None = None,
    input: InputReviewer | None = None,
    output: OutputReviewer | None = None,
    declaration: Declaration | None = None,
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
    declaration: Declaration | None = None,
) -> Any:
    """Puts a function behind the gate.

    The server evaluates and records each call, and asks a person if needed. The function runs here, once, and only if the server
    allows it. `input` reviews the arguments first, and `output` reviews the result first. Each may change them or refuse. If the
    server cannot be reached, or its response is not valid, the function does not run.
    """

    def make(function: Callable[..., Any]) -> Any:
        text = description or inspect.getdoc(function) or ""
        parameters = dict(schema) if schema is not None else schemas.of_function(function)
        body: dict[str, Any] = {"description": text, "input_schema": parameters, **(declaration or {})}
        if "kind" in body:
            body["class"] = body.pop("kind")
        wanted = tuple(one if isinstance(one, str) else one._spec for one in body.pop("wants_data", ()))
        spec = Spec(name or function.__name__, body, function, input, output, wanted)
        if inspect.iscoroutinefunction(function):
            guarded: Any = AsyncGuardedFunction(function, spec, parameters, text)
        else:
            guarded = GuardedFunction(function, spec, parameters, text)
        client_class = AsyncClient if isinstance(guarded, AsyncGuardedFunction) else Client
        if client is not None and not isinstance(client, client_class):
            raise TypeError(f"the function `{spec.name}` needs a client of the class {client_class.__name__}")
        guarded.client = client
        return guarded

    return make(function) if function is not None else _Decorator(make)
