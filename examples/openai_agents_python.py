# SPDX-License-Identifier: Apache-2.0
"""An agent of the OpenAI Agents SDK that runs Python, and asks before it calls a function.

The model is scripted.

It needs the package openai-agents: `pip install openai-agents`.

usage: python openai_agents_python.py
"""

import asyncio

from agents import RunConfig, Runner
from agents.sandbox import SandboxAgent, SandboxRunConfig
from agents.testing import ScriptedModel, assistant_message, function_call
from ipybox import CallRefusedError
from ipybox.integrations.openai_agents import IpyboxSandboxClient, Python

CELLS = [
    "prices = {item: get_price(item) for item in ('tea', 'rice')}\nmin(prices, key=prices.get)",
    "order('tea', 10)",
]


def get_price(item: str) -> int:
    """The price of an item."""
    return {"tea": 3, "rice": 4}[item]


def order(item: str, amount: int) -> str:
    """Orders an item."""
    return f"{amount} {item} ordered"


async def approve(request):
    print("asked:", request)
    return request.tool_name == "get_price"


calls = [
    [function_call("run_python", {"code": code}, call_id=str(number))]
    for number, code in enumerate(CELLS)
]
agent = SandboxAgent(
    name="buyer",
    model=ScriptedModel([*calls, [assistant_message("I may not order.")]]),
    capabilities=[Python(functions=(get_price, order), approve=approve)],
)


async def main():
    client = IpyboxSandboxClient()
    sandbox = SandboxRunConfig(client=client)
    config = RunConfig(sandbox=sandbox, tracing_disabled=True)
    result = await Runner.run(agent, "Order 10 of the cheapest.", run_config=config)
    for item in result.new_items:
        if item.type == "tool_call_output_item":
            is_refused = isinstance(item.output.outcome.error, CallRefusedError)
            print("refused" if is_refused else item.output)
    print(result.final_output)


asyncio.run(main())
