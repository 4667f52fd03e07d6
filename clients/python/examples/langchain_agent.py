"""LangChain tools behind the gate: one of the server's, and a function of this process.

    BYLEAVE_URL=... BYLEAVE_TOKEN=... python langchain_agent.py

The model is a fake that says what it is told to, so that this runs without one.
"""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall

import byleave
from byleave import langchain


@byleave.tool(declared={"kind": "readonly", "sensitive": False})
def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


class FakeModel(GenericFakeChatModel):
    """A fake: it calls these tools one after another, and then says that it is done."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def model() -> FakeModel:
    calls = [
        ToolCall(name="read_file", args={"path": "README.md"}, id="1"),
        ToolCall(name="read_file", args={"path": ".env"}, id="2"),
        ToolCall(name="shout", args={"text": "hello"}, id="3"),
    ]
    said = [AIMessage(content="", tool_calls=[call]) for call in calls]
    return FakeModel(messages=iter([*said, AIMessage(content="done")]))


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
                said = by_name[call["name"]].invoke(call)
                messages.append(said)
                print(f"{call['name']} {call['args']} -> {said.status}: {said.content}")


if __name__ == "__main__":
    main()
