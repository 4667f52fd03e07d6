"""JSON Schema of a function's arguments, from its signature."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def of_function(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the schema of a function's arguments. Raises if a type has no JSON Schema; pass `schema` then."""
    hints = get_type_hints(function)
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"the parameter `{name}` cannot be passed by name, so a model cannot pass it")
        if name not in hints:
            raise TypeError(f"the parameter `{name}` has no type; annotate it, or pass `schema`")
        properties[name] = _of(hints[name], name)
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _of(hint: Any, name: str) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(one, name) for one in args]}
    if hint is list or origin is list:
        return {"type": "array", "items": _of(args[0], name)} if args else {"type": "array"}
    if hint is dict or origin is dict:
        if args and args[0] is not str:
            raise TypeError(f"the parameter `{name}` is a dict with keys that are not `str`; JSON objects need `str` keys")
        return {"type": "object", "additionalProperties": _of(args[1], name)} if args else {"type": "object"}
    raise TypeError(f"the type {hint!r} of the parameter `{name}` has no JSON Schema; pass `schema`")
