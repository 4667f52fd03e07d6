"""LangChain tools behind the gate: one of the server's, and a function of this process.

    BYLEAVE_URL=... BYLEAVE_TOKEN=... python langchain_agent.py

The model is a fake with scripted replies, so that this runs without a real one.
"""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall

import byleave
from byleave import langchain


@byleave.tool(declaration={"kind": "readonly", "sensitive": False})
def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


class FakeModel(GenericFakeChatModel):
    """A fake model that calls these tools in order, and then ends."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def model() -> FakeModel:
    calls = [
        ToolCall(name="read_file", args={"path": "README.md"}, id="1"),
        ToolCall(name="read_file", args={"path": ".env"}, id="2"),
        ToolCall(name="shout", args={"text": "hello"}, id="3"),
    ]
    replies = [AIMessage(content="", tool_calls=[call]) for call in calls]
    return FakeModel(messages=iter([*replies, AIMessage(content="done")]))


def main() -> None:
    with byleave.Client() as client:
        tools = [*langchain.tools(client, ["read_file"]), langchain.guarded(shout)]
        by_name = {tool.name: tool for tool in tools}
        chat = model().bind_tools(tools)
        messages: list[BaseMessage] = [HumanMessage("read what you can")]
        while True:
            answer = chat.invoke(messages)
            messages.append(answer)
            if not answer.tool_calls:
                print("model:", answer.content)
                return
            for call in answer.tool_calls:
                reply = by_name[call["name"]].invoke(call)
                messages.append(reply)
                print(f"{call['name']} {call['args']} -> {reply.status}: {reply.content}")


if __name__ == "__main__":
    main()
