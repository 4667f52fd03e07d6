"""Tools of the server in the format of frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .errors import ByleaveError, InvalidResponse
from .models import Json, ToolEntry


@dataclass(frozen=True)
class FormattedTool:
    """A tool in the format of a framework."""

    tool: str
    name: str
    description: str
    parameters: Mapping[str, Json]


def format_tools(entries: Iterable[ToolEntry], names: Iterable[str] | None) -> list[FormattedTool]:
    """Returns the tools with these names, or all tools that the format can express. Raises if a name is unknown."""
    known = {entry.name: entry for entry in entries}
    if names is None:
        return [_format_tool(entry) for entry in known.values() if entry.schema is not None]
    chosen = []
    for name in names:
        if name not in known or known[name].schema is None:
            reason = known[name].unsupported_reason if name in known else "the server has no such tool"
            raise ByleaveError(f"cannot use the tool `{name}`: {reason}")
        chosen.append(_format_tool(known[name]))
    return chosen


def _format_tool(entry: ToolEntry) -> FormattedTool:
    function = entry.schema.get("function") if isinstance(entry.schema, dict) else None
    if not isinstance(function, dict):
        raise InvalidResponse(f"the tool `{entry.name}` has no valid schema")
    name, description, parameters = (function.get(key) for key in ("name", "description", "parameters"))
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise InvalidResponse(f"the tool `{entry.name}` has no valid schema")
    return FormattedTool(entry.name, name, str(description or ""), parameters)
