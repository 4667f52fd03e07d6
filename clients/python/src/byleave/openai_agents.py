"""Tools for the OpenAI Agents SDK whose calls go through Byleave: tools of the server, and guarded functions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from .client import AsyncClient
from .formats import FormattedTool, format_tools
from .guarded import AsyncGuardedFunction
from .models import Result


async def tools(client: AsyncClient, names: Iterable[str] | None = None, *, session: str | None = None) -> list[FunctionTool]:
    """Returns the tools of the server, or those with these names."""

    def make_tool(tool: FormattedTool) -> FunctionTool:
        async def run(arguments: dict[str, Any]) -> Result:
            return await client.call(tool.tool, arguments, session=session)

        return _tool(tool, run)

    return [make_tool(tool) for tool in format_tools(await client.tools("openai"), names)]


def guarded(function: AsyncGuardedFunction[Any, Any]) -> FunctionTool:
    """Returns a tool for a function with `@byleave.tool`."""
    return _tool(FormattedTool(function.name, function.name, function.description, function.schema), function.run)


def _tool(tool: FormattedTool, run: Callable[[dict[str, Any]], Awaitable[Result]]) -> FunctionTool:
    async def invoke(_context: ToolContext[Any], text: str) -> str:
        try:
            arguments = json.loads(text or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            return "refused: the arguments are not a JSON object"
        return (await run(arguments)).text()

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=dict(tool.parameters),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
