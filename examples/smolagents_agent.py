# SPDX-License-Identifier: Apache-2.0
"""An agent of smolagents whose code runs in a sandbox.

The model is scripted, so that this program needs no key. It needs the package
smolagents: `pip install smolagents`.

usage: python smolagents_agent.py
"""

from __future__ import annotations

from ipybox import ApprovalRequest, CallRefusedError
from ipybox.integrations.causes import find_error
from ipybox.integrations.smolagents import IpyboxExecutor
from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, MessageRole, Model

# What the model writes: a call, a call that is refused, and an answer.
STEPS = [
    "prices = {item: get_price(item) for item in ('tea', 'rice')}\nprint(prices)",
    "order('rice', amount=100)",
    "final_answer(sum(prices.values()))",
]


@tool
def get_price(item: str) -> int:
    """The price of an item.

    Args:
        item: Its name.
    """
    return {"tea": 3, "rice": 4}[item]


@tool
def order(item: str, amount: int) -> str:
    """Orders an item.

    Args:
        item: Its name.
        amount: How many.
    """
    raise AssertionError("this is not approved")


def approve(request: ApprovalRequest) -> bool:
    print("asked:", request)
    return request.tool_name == "get_price"


class ScriptedModel(Model):
    def generate(self, messages: list[ChatMessage], **_: object) -> ChatMessage:
        code = STEPS[sum(message.role == MessageRole.ASSISTANT for message in messages)]
        return ChatMessage(MessageRole.ASSISTANT, f"<code>\n{code}\n</code>")


def main() -> None:
    executor = IpyboxExecutor(approve=approve, timeout=60)
    with CodeAgent(
        tools=[get_price, order],
        model=ScriptedModel(),
        executor=executor,
        additional_authorized_imports=["*"],
        step_callbacks=[executor.observe_images],
        verbosity_level=-1,
    ) as agent:
        print("answer:", agent.run("What do tea and rice cost together? Order 100 of rice."))
        for step in agent.memory.steps:
            if isinstance(find_error(getattr(step, "error", None)), CallRefusedError):
                print("refused in step", step.step_number)


if __name__ == "__main__":
    main()
