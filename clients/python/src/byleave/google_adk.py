"""Tools for the Google Agent Development Kit whose calls go through Byleave: tools of the server, and guarded functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from .client import AsyncClient
from .formats import FormattedTool, format_tools
from .guarded import AsyncGuardedFunction
from .models import Result

Run = Callable[[dict[str, Any]], Awaitable[Result]]


async def tools(client: AsyncClient, names: Iterable[str] | None = None, *, session: str | None = None) -> list[BaseTool]:
    """Returns the tools of the server, or those with these names."""

    def make_tool(tool: FormattedTool) -> BaseTool:
        async def run(arguments: dict[str, Any]) -> Result:
            return await client.call(tool.tool, arguments, session=session)

        return _Tool(tool, run)

    return [make_tool(tool) for tool in format_tools(await client.tools("openai"), names)]


def guarded(function: AsyncGuardedFunction[Any, Any]) -> BaseTool:
    """Returns a tool for a function with `@byleave.tool`."""
    return _Tool(FormattedTool(function.name, function.name, function.description, function.schema), function.run)


class _Tool(BaseTool):
    def __init__(self, tool: FormattedTool, run: Run) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._parameters = dict(tool.parameters)
        self._run = run

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=self._parameters)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, str]:
        # A refusal is a result, too, so that the model reads it.
        return {"result": (await self._run(args)).text()}
