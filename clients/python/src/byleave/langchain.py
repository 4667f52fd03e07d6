"""LangChain tools whose calls go through Byleave: tools of the server, and guarded functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from .client import AsyncClient, Client
from .formats import FormattedTool, format_tools
from .guarded import AsyncGuardedFunction, GuardedFunction
from .models import Result


def tools(client: Client, names: Iterable[str] | None = None, *, session: str | None = None) -> list[BaseTool]:
    """Returns the tools of the server, or those with these names."""

    def make_tool(tool: FormattedTool) -> BaseTool:
        def run(**arguments: Any) -> str:
            return _text_or_raise(client.call(tool.tool, arguments, session=session))

        return _tool(tool, func=run)

    return [make_tool(tool) for tool in format_tools(client.tools("openai"), names)]


async def async_tools(client: AsyncClient, names: Iterable[str] | None = None, *, session: str | None = None) -> list[BaseTool]:
    """Returns the same tools for `async`."""

    def make_tool(tool: FormattedTool) -> BaseTool:
        async def run(**arguments: Any) -> str:
            return _text_or_raise(await client.call(tool.tool, arguments, session=session))

        return _tool(tool, coroutine=run)

    return [make_tool(tool) for tool in format_tools(await client.tools("openai"), names)]


def guarded(function: GuardedFunction[Any, Any] | AsyncGuardedFunction[Any, Any]) -> BaseTool:
    """Returns a tool for a function with `@byleave.tool`."""
    tool = FormattedTool(function.name, function.name, function.description, function.schema)
    if isinstance(function, AsyncGuardedFunction):
        async_function = function

        async def run_async(**arguments: Any) -> str:
            return _text_or_raise(await async_function.run(arguments))

        return _tool(tool, coroutine=run_async)

    def run(**arguments: Any) -> str:
        return _text_or_raise(function.run(arguments))

    return _tool(tool, func=run)


def _text_or_raise(result: Result) -> str:
    """Returns the text for the model. Raises if the call did not complete."""
    if result.success:
        return result.text()
    raise ToolException(result.text())


def _tool(tool: FormattedTool, **run: Any) -> BaseTool:
    return StructuredTool(
        name=tool.name, description=tool.description, args_schema=dict(tool.parameters), handle_tool_error=True, **run
    )
