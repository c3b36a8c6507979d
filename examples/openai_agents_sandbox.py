# SPDX-License-Identifier: Apache-2.0
"""An agent of the OpenAI Agents SDK in a sandbox of ipybox. The model is scripted.

It needs the package openai-agents: `pip install openai-agents`.

usage: python openai_agents_sandbox.py
"""

import asyncio
from pathlib import Path

from agents import RunConfig, Runner
from agents.sandbox import SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Shell
from agents.testing import ScriptedModel, assistant_message, function_call
from ipybox.integrations.openai_agents import IpyboxSandboxClient

COMMANDS = [
    "printf '19\\n23\\n' > numbers.txt",
    "awk '{s += $1} END {print s}' numbers.txt",
    "echo broken > /usr/bin/awk",
]
calls = [
    [function_call("exec_command", {"cmd": command}, call_id=str(number))]
    for number, command in enumerate(COMMANDS)
]
model = ScriptedModel([*calls, [assistant_message("The sum is 42.")]])
agent = SandboxAgent(name="adder", model=model, capabilities=[Shell()])


async def main():
    client = IpyboxSandboxClient()
    async with await client.create() as session:
        config = RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
        result = await Runner.run(agent, "Add 19 and 23 with a file.", run_config=config)
        for item in result.new_items:
            if item.type == "tool_call_output_item":
                print(item.output.partition("Output:\n")[2].strip())
        print(result.final_output)
        # The run has ended, and the session is still there.
        print((await session.read(Path("numbers.txt"))).read())
    await client.delete(session)


asyncio.run(main())
