"""Tools of the OpenAI Agents SDK behind the gate: one of the server's, and a function of this process.

    BYLEAVE_URL=... BYLEAVE_TOKEN=... python openai_agent.py

The model is a fake with scripted replies, so that this runs without a real one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import byleave
from byleave import openai_agents


@byleave.tool(declaration={"kind": "readonly", "sensitive": False})
async def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


class FakeModel(Model):
    """A fake model that calls these tools in order, and then ends."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = [
            ("read_file", {"path": "README.md"}),
            ("read_file", {"path": ".env"}),
            ("shout", {"text": "hello"}),
        ]

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        if self.calls:
            name, arguments = self.calls.pop(0)
            call = ResponseFunctionToolCall(
                type="function_call", call_id=f"call-{len(self.calls)}", name=name, arguments=json.dumps(arguments)
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        text = ResponseOutputText(type="output_text", text="done", annotations=[])
        message = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def main() -> None:
    async with byleave.AsyncClient() as client:
        tools = [*await openai_agents.tools(client, ["read_file"]), openai_agents.guarded(shout)]
        agent = Agent(name="reader", tools=[*tools], model=FakeModel())
        result = await Runner.run(agent, "read what you can", run_config=RunConfig(tracing_disabled=True))
        for item in result.new_items:
            if item.type == "tool_call_output_item":
                print("tool ->", item.output)
        print("model:", result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
