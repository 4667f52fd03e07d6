"""Tools of the Google Agent Development Kit behind the gate: one of the server's, and a function of this process.

    BYLEAVE_URL=... BYLEAVE_TOKEN=... python google_adk_agent.py

The model is a fake with scripted replies, so that this runs without a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

import byleave
from byleave import google_adk


@byleave.tool(declaration={"kind": "readonly", "sensitive": False})
async def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "README.md"}),
    ("read_file", {"path": ".env"}),
    ("shout", {"text": "hello"}),
]


class FakeModel(BaseLlm):
    """A fake model that calls these tools in order, and then ends."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        done = sum(part.function_response is not None for part in parts)
        if done < len(CALLS):
            name, arguments = CALLS[done]
            part = types.Part.from_function_call(name=name, args=arguments)
        else:
            part = types.Part.from_text(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def main() -> None:
    async with byleave.AsyncClient() as client:
        tools = [*await google_adk.tools(client, ["read_file"]), google_adk.guarded(shout)]
        agent = LlmAgent(name="reader", model=FakeModel(model="fake"), tools=[*tools])
        async with InMemoryRunner(agent=agent, app_name="reader") as runner:
            await runner.session_service.create_session(app_name="reader", user_id="user", session_id="session")
            said = types.Content(role="user", parts=[types.Part.from_text(text="read what you can")])
            async for event in runner.run_async(user_id="user", session_id="session", new_message=said):
                for part in (event.content.parts if event.content else None) or []:
                    if part.function_response:
                        print("tool ->", (part.function_response.response or {})["result"])
                    elif part.text:
                        print("model:", part.text)


if __name__ == "__main__":
    asyncio.run(main())
