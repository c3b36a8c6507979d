# SPDX-License-Identifier: Apache-2.0
"""A task of Inspect whose samples run in sandboxes of ipybox. The model is scripted.

It needs the package inspect-ai: `pip install inspect-ai`.

usage: python inspect_task.py
"""

import tempfile

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash

MODEL = "mockllm/model"


def call(command):
    return ModelOutput.for_tool_call(MODEL, "bash", {"command": command})


task = Task(
    dataset=[
        Sample(
            input="What is the sum of the numbers in numbers.txt?",
            files={"numbers.txt": "19\n23\n"},
            target="42",
        )
    ],
    solver=[use_tools(bash(timeout=30)), generate()],
    scorer=includes(),
    sandbox="ipybox",
)
answers = [
    call("awk '{s += $1} END {print s}' numbers.txt"),
    call("echo broken > /usr/bin/awk"),
    ModelOutput.from_content(MODEL, "The sum is 42."),
]
for answer in answers:
    answer.usage = ModelUsage()  # else Inspect would count tokens, with a table from the network
with tempfile.TemporaryDirectory() as logs:
    model = get_model(MODEL, custom_outputs=answers)
    (log,) = eval(task, model=model, log_dir=logs, display="none")
    (sample,) = log.samples
    for message in sample.messages:
        if message.role == "tool":
            print(message.text.strip())
    print(log.status, log.results.scores[0].metrics["accuracy"].value)
