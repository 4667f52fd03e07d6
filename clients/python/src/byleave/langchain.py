"""LangChain tools whose calls go through Byleave: those of the server, and functions behind its gate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from .client import AsyncClient, Client
from .forms import Form, forms
from .guarded import AsyncGuarded, Guarded
from .models import Result


def tools(client: Client, names: Iterable[str] | None = None, *, session: str | None = None) -> list[BaseTool]:
    """The tools of the server, or those with these names."""

    def made(form: Form) -> BaseTool:
        def run(**arguments: Any) -> str:
            return _said(client.call(form.tool, arguments, session=session))

        return _tool(form, func=run)

    return [made(form) for form in forms(client.tools("openai"), names)]


async def async_tools(client: AsyncClient, names: Iterable[str] | None = None, *, session: str | None = None) -> list[BaseTool]:
    """The same for `async`."""

    def made(form: Form) -> BaseTool:
        async def run(**arguments: Any) -> str:
            return _said(await client.call(form.tool, arguments, session=session))

        return _tool(form, coroutine=run)

    return [made(form) for form in forms(await client.tools("openai"), names)]


def guarded(function: Guarded[Any, Any] | AsyncGuarded[Any, Any]) -> BaseTool:
    """A function that `@byleave.tool` has put behind the gate."""
    form = Form(function.name, function.name, function.description, function.schema)
    if isinstance(function, AsyncGuarded):
        ahead = function

        async def run_ahead(**arguments: Any) -> str:
            return _said(await ahead.run(arguments))

        return _tool(form, coroutine=run_ahead)

    def run(**arguments: Any) -> str:
        return _said(function.run(arguments))

    return _tool(form, func=run)


def _said(result: Result) -> str:
    """What the model gets; what did not complete is marked as an error."""
    if result.success:
        return result.text()
    raise ToolException(result.text())


def _tool(form: Form, **run: Any) -> BaseTool:
    return StructuredTool(
        name=form.name, description=form.description, args_schema=dict(form.parameters), handle_tool_error=True, **run
    )
