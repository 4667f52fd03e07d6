"""A person who answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import byleave


@contextmanager
def answering(person: byleave.Client, tool: str, kind: str, **fields: Any) -> Iterator[list[str]]:
    """Answers the next question about a tool, from another thread; yields the ids of the answered questions."""
    answered: list[str] = []
    over = threading.Event()

    def answer() -> None:
        while not over.is_set():
            for question in person.questions():
                if question.tool == tool:
                    view = person.question(question.question)
                    person.answer(question.question, view.question.digest, kind, **fields)
                    answered.append(question.question)
                    return
            time.sleep(0.02)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield answered
    finally:
        over.set()
        thread.join()
