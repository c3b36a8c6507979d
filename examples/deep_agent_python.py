# SPDX-License-Identifier: Apache-2.0
"""A deep agent of LangChain that runs Python, and asks before it orders. The model is scripted.

It needs the package deepagents: `pip install deepagents`.

usage: python deep_agent_python.py
"""

from deepagents import create_deep_agent
from ipybox.integrations.deepagents import IpyboxSandbox
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def get_price(item: str) -> int:
    """The price of an item."""
    return {"tea": 3, "rice": 4}[item]


def order(item: str, amount: int) -> str:
    """Orders an item."""
    return f"{amount} {item} ordered"


CELL = """
prices = {item: get_price(item) for item in ("tea", "rice")}
cheapest = min(prices, key=prices.get)
print(order(cheapest, 10))
"""
call = {"id": "call1", "name": "run_python", "args": {"code": CELL}}
answers = [AIMessage("", tool_calls=[call]), AIMessage("Ten of the cheapest are ordered.")]

with IpyboxSandbox() as sandbox:
    agent = create_deep_agent(
        model=ScriptedModel(messages=iter(answers)),
        backend=sandbox,
        tools=[sandbox.python_tool([get_price, order], interrupt_on=["order"])],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "1"}}
    state = agent.invoke({"messages": [("user", "Order 10 of the cheapest.")]}, config)
    for action in state["__interrupt__"][0].value["action_requests"]:
        print("asked:", action["name"], action["args"])
    state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    for message in state["messages"][-2:]:
        print(message.content)
