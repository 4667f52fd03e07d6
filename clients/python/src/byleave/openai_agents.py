"""Tools of the OpenAI Agents SDK whose calls go through Byleave: those of the server, and functions behind its gate."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from .client import AsyncClient
from .forms import Form, forms
from .guarded import AsyncGuarded
from .models import Result


async def tools(client: AsyncClient, names: Iterable[str] | None = None, *, session: str | None = None) -> list[FunctionTool]:
    """The tools of the server, or those with these names."""

    def made(form: Form) -> FunctionTool:
        async def run(arguments: dict[str, Any]) -> Result:
            return await client.call(form.tool, arguments, session=session)

        return _tool(form, run)

    return [made(form) for form in forms(await client.tools("openai"), names)]


def guarded(function: AsyncGuarded[Any, Any]) -> FunctionTool:
    """A function that `@byleave.tool` has put behind the gate."""
    return _tool(Form(function.name, function.name, function.description, function.schema), function.run)


def _tool(form: Form, run: Callable[[dict[str, Any]], Awaitable[Result]]) -> FunctionTool:
    async def invoke(_context: ToolContext[Any], text: str) -> str:
        try:
            arguments = json.loads(text or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            return "refused: the arguments are no JSON object"
        return (await run(arguments)).text()

    return FunctionTool(
        name=form.name,
        description=form.description,
        params_json_schema=dict(form.parameters),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
