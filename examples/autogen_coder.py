# SPDX-License-Identifier: Apache-2.0
"""An agent of AutoGen whose code runs in a sandbox.

The model is scripted, so that this program needs no key. It needs two packages:
`pip install autogen-agentchat autogen-ext`.

usage: python autogen_coder.py
"""

from __future__ import annotations

import asyncio

from autogen_agentchat.agents import CodeExecutorAgent
from autogen_agentchat.messages import CodeExecutionEvent
from autogen_ext.models.replay import ReplayChatCompletionClient
from ipybox import ApprovalRequest
from ipybox.integrations.autogen import IpyboxCodeExecutor

# What the model writes.
ANSWERS = [
    "```python\nprice = get_price('tea')\nprint(price)\n```",
    "Tea costs 3.",
    "```python\nprint(2 * price)\n```",
    "Two cost 6.",
]


async def get_price(item: str) -> int:
    """The price of an item."""
    return {"tea": 3, "rice": 4}[item]


def approve(request: ApprovalRequest) -> bool:
    print("asked:", request)
    return request.tool_name == "get_price"


async def main() -> None:
    model = ReplayChatCompletionClient(ANSWERS)
    async with IpyboxCodeExecutor(tools=[get_price], approve=approve, timeout=60) as executor:
        agent = CodeExecutorAgent(
            "coder", code_executor=executor, model_client=model, supported_languages=["python"]
        )
        for task in ("What does tea cost?", "And two of them?"):
            async for message in agent.run_stream(task=task):
                if isinstance(message, CodeExecutionEvent):
                    print("printed:", message.result.output.strip())
            print("answer:", message.messages[-1].content)


if __name__ == "__main__":
    asyncio.run(main())
