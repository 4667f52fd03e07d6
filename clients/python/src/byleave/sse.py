"""Server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .errors import InvalidResponse
from .models import Event


class Parser:
    """Parses text into events. Only `\\n` ends a line, because JSON may contain other line separators of Python."""

    def __init__(self) -> None:
        self._rest = ""
        self._event = ""
        self._id: str | None = None
        self._data: list[str] = []

    def feed(self, text: str) -> Iterator[Event]:
        """Adds a piece of text and yields the events that end in it."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            event = self._line(line.removesuffix("\r"))
            if event is not None:
                yield event

    def _line(self, line: str) -> Event | None:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._event = value
            elif name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            return None
        event, id, data = self._event, self._id, self._data
        self._event, self._id, self._data = "", None, []
        if not data:
            return None
        try:
            return Event(event, None if id is None else int(id), json.loads("\n".join(data)))
        except ValueError as error:
            raise InvalidResponse("cannot parse an event of the server") from error
