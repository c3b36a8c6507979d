# SPDX-License-Identifier: Apache-2.0
"""A recursive language model of DSPy whose code runs in a sandbox.

The model is scripted, so that this program needs no key. It needs the package dspy:
`pip install dspy`.

usage: python dspy_rlm.py
"""

from __future__ import annotations

import dspy
from dspy.utils import DummyLM
from ipybox import ApprovalRequest
from ipybox.integrations.dspy import IpyboxInterpreter

# What the model writes, and what it answers when the code asks it.
ANSWERS = [
    {
        "reasoning": "The text is long. Find the lines first.",
        "code": "lines = [line for line in log.splitlines() if 'ERROR' in line]\nprint(lines)",
    },
    {
        "reasoning": "Ask what they mean, and look up the owner.",
        "code": "cause = llm_query(f'What is the cause? {lines}').splitlines()[-1]\n"
        "SUBMIT(f'{cause}: ask {find_owner(part=\"disk\")}')",
    },
    {"answer": "the disk is full"},
]


def find_owner(part: str) -> str:
    """Finds who is responsible for a part of the system."""
    return {"disk": "Ann"}[part]


def approve(request: ApprovalRequest) -> bool:
    if request.tool_name == "find_owner":
        print("asked:", request)
    return request.tool_name in ("find_owner", "llm_query")


def main() -> None:
    log = "INFO all is well\n" * 10_000 + "ERROR no space left on device\n"
    factory = IpyboxInterpreter.factory(approve=approve, timeout=60)
    rlm = dspy.RLM("log -> answer", tools=[find_owner], interpreter_factory=factory)
    with dspy.context(lm=DummyLM(ANSWERS), adapter=dspy.ChatAdapter()):
        prediction = rlm(log=log)
    print("printed:", prediction.trajectory[0]["output"])
    print("answer:", prediction.answer)


if __name__ == "__main__":
    main()
