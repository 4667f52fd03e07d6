"""Tools of the server in the form that frameworks take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .errors import ByleaveError, Nonsense
from .models import Json, ToolEntry


@dataclass(frozen=True)
class Form:
    """A tool as a framework sees it."""

    tool: str
    name: str
    description: str
    parameters: Mapping[str, Json]


def forms(entries: Iterable[ToolEntry], names: Iterable[str] | None) -> list[Form]:
    """The tools with these names, or all that the form can have. A name that is not there is an error."""
    known = {entry.name: entry for entry in entries}
    if names is None:
        return [_form(entry) for entry in known.values() if entry.schema is not None]
    chosen = []
    for name in names:
        if name not in known or known[name].schema is None:
            why = known[name].unfit if name in known else "the server has no such tool"
            raise ByleaveError(f"`{name}` cannot be used: {why}")
        chosen.append(_form(known[name]))
    return chosen


def _form(entry: ToolEntry) -> Form:
    function = entry.schema.get("function") if isinstance(entry.schema, dict) else None
    if not isinstance(function, dict):
        raise Nonsense(f"`{entry.name}` has no form")
    name, description, parameters = (function.get(key) for key in ("name", "description", "parameters"))
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise Nonsense(f"`{entry.name}` has no form")
    return Form(entry.name, name, str(description or ""), parameters)
