# SPDX-License-Identifier: Apache-2.0
"""An agent of Pydantic AI with a workspace in a sandbox of ipybox. The model is scripted.

It needs the package pydantic-ai: `pip install pydantic-ai-slim`.

usage: python pydantic_ai_workspace.py
"""

import asyncio

from ipybox.integrations.pydantic_ai import IpyboxWorkspace
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

COMMANDS = ["awk '{s += $1} END {print s}' numbers.txt", "echo broken > /usr/bin/awk"]


def answer(messages, info):
    n_calls = sum(isinstance(message, ModelResponse) for message in messages)
    if n_calls < len(COMMANDS):
        return ModelResponse(parts=[ToolCallPart("shell", {"command": COMMANDS[n_calls]})])
    return ModelResponse(parts=[TextPart("The sum is 42.")])


agent = Agent(FunctionModel(answer))


@agent.tool
async def shell(context: RunContext, command: str) -> str:
    """Runs a command line."""
    result = await context.workspace.run(command, shell=True, timeout=30)
    print(result.exit_code, (result.stdout + result.stderr).strip())
    return result.stdout + result.stderr


async def main():
    async with IpyboxWorkspace() as workspace:
        await workspace.run("printf '19\\n23\\n' > numbers.txt", shell=True)
        result = await agent.run("What is the sum in numbers.txt?", workspace=workspace)
        print(result.output)
        # The run has ended, and the environment is still there.
        print((await workspace.run(["ls"])).stdout.strip())


asyncio.run(main())
