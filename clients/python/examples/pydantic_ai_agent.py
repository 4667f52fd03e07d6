"""Tools of Pydantic AI behind the gate: one of the server's, and a function of this process.

    BYLEAVE_URL=... BYLEAVE_TOKEN=... python pydantic_ai_agent.py

The model is a fake with scripted replies, so that this runs without a real one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import byleave
from byleave import pydantic_ai


@byleave.tool(declaration={"kind": "readonly", "sensitive": False})
async def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "README.md"}),
    ("read_file", {"path": ".env"}),
    ("shout", {"text": "hello"}),
]


def reply(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Calls these tools in order, and then ends."""
    done = sum(isinstance(message, ModelResponse) for message in messages)
    if done < len(CALLS):
        name, arguments = CALLS[done]
        return ModelResponse(parts=[ToolCallPart(name, arguments)])
    return ModelResponse(parts=[TextPart("done")])


async def main() -> None:
    async with byleave.AsyncClient() as client:
        tools = [*await pydantic_ai.tools(client, ["read_file"]), pydantic_ai.guarded(shout)]
        result = await Agent(FunctionModel(reply), tools=tools).run("read what you can")
        for message in result.all_messages():
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    print("tool ->", part.content)
        print("model:", result.output)


if __name__ == "__main__":
    asyncio.run(main())
