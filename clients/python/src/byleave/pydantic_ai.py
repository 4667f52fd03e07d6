"""Tools for Pydantic AI whose calls go through Byleave: tools of the server, and guarded functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic_ai import Tool

from .client import AsyncClient
from .formats import FormattedTool, format_tools
from .guarded import AsyncGuardedFunction
from .models import Result


async def tools(client: AsyncClient, names: Iterable[str] | None = None, *, session: str | None = None) -> list[Tool[Any]]:
    """Returns the tools of the server, or those with these names."""

    def make_tool(tool: FormattedTool) -> Tool[Any]:
        async def run(arguments: dict[str, Any]) -> Result:
            return await client.call(tool.tool, arguments, session=session)

        return _tool(tool, run)

    return [make_tool(tool) for tool in format_tools(await client.tools("openai"), names)]


def guarded(function: AsyncGuardedFunction[Any, Any]) -> Tool[Any]:
    """Returns a tool for a function with `@byleave.tool`."""
    return _tool(FormattedTool(function.name, function.name, function.description, function.schema), function.run)


def _tool(tool: FormattedTool, run: Callable[[dict[str, Any]], Awaitable[Result]]) -> Tool[Any]:
    async def invoke(**arguments: Any) -> str:
        # A refusal is a result, too, so that the model reads it and nothing is retried by itself.
        return (await run(arguments)).text()

    # The server checks the arguments against the schema.
    made: Tool[Any] = Tool.from_schema(invoke, name=tool.name, description=tool.description, json_schema=dict(tool.parameters))
    return made
