# SPDX-License-Identifier: Apache-2.0
"""A task of Inspect whose model runs Python, and may order tea only. The model is scripted.

It needs the package inspect-ai: `pip install inspect-ai`.

usage: python inspect_python.py
"""

import tempfile

from inspect_ai import Task, eval
from inspect_ai.approval import Approval, ApprovalPolicy, approver
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from ipybox.integrations.inspect import run_python

MODEL = "mockllm/model"


@tool
def order():
    async def execute(item: str, amount: int) -> str:
        """Orders an item.

        Args:
            item: Its name.
            amount: How many.
        """
        return f"{amount} {item} ordered"

    return execute


@approver
def only_tea():
    async def approve(message, call, view, history):
        is_fine = call.function != "order" or call.arguments["item"] == "tea"
        return Approval(decision="approve" if is_fine else "reject")

    return approve


task = Task(
    dataset=[Sample(input="Order ten of each item.")],
    solver=[use_tools(run_python([order()])), generate()],
    sandbox="ipybox",
    approval=[ApprovalPolicy(only_tea(), "*")],
)
answers = [
    ModelOutput.for_tool_call(MODEL, "run_python", {"code": f"print(order('{item}', 10))"})
    for item in ("tea", "rice")
]
answers.append(ModelOutput.from_content(MODEL, "I may order tea only."))
for answer in answers:
    answer.usage = ModelUsage()  # else Inspect would count tokens, with a table from the network
with tempfile.TemporaryDirectory() as logs:
    model = get_model(MODEL, custom_outputs=answers)
    (log,) = eval(task, model=model, log_dir=logs, display="none")
    for message in log.samples[0].messages:
        if message.role == "tool":
            print(message.error.type if message.error else message.text)
