# SPDX-License-Identifier: Apache-2.0
"""An agent of Pydantic AI that runs Python, and asks before it orders. The model is scripted.

It needs the package pydantic-ai-slim: `pip install pydantic-ai-slim`.

usage: python pydantic_ai_python.py
"""

import asyncio

from ipybox.integrations.pydantic_ai import IpyboxWorkspace
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

CELL = """
prices = {item: get_price(item) for item in ("tea", "rice")}
cheapest = min(prices, key=prices.get)
print(order(cheapest, 10))
"""


def answer(messages, info):
    if any(isinstance(message, ModelResponse) for message in messages):
        return ModelResponse(parts=[TextPart(messages[-1].parts[-1].content)])
    return ModelResponse(parts=[ToolCallPart("run_python", {"code": CELL})])


def get_price(item: str) -> int:
    """The price of an item."""
    return {"tea": 3, "rice": 4}[item]


def order(item: str, amount: int) -> str:
    """Orders an item."""
    return f"{amount} {item} ordered"


async def main():
    async with IpyboxWorkspace() as workspace:
        tool = workspace.python_tool([get_price, Tool(order, requires_approval=True)])
        agent = Agent(FunctionModel(answer), tools=[tool], output_type=[str, DeferredToolRequests])
        result = await agent.run("Order 10 of the cheapest.")
        requests = result.output
        for call in requests.approvals:
            print("asked:", requests.metadata[call.tool_call_id]["question"])
        result = await agent.run(
            message_history=result.all_messages(),
            deferred_tool_results=requests.build_results(approve_all=True),
        )
        print(result.output)


asyncio.run(main())
