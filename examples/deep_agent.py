# SPDX-License-Identifier: Apache-2.0
"""A deep agent of LangChain whose tools work in a sandbox of ipybox. The model is scripted.

It needs the package deepagents: `pip install deepagents`.

usage: python deep_agent.py
"""

from deepagents import create_deep_agent
from ipybox.integrations.deepagents import IpyboxSandbox
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def call(number, name, **args):
    return AIMessage("", tool_calls=[{"id": f"call{number}", "name": name, "args": args}])


with IpyboxSandbox() as sandbox:
    path = f"{sandbox.workspace}/numbers.txt"
    answers = [
        call(1, "write_file", file_path=path, content="19\n23\n"),
        call(2, "execute", command="awk '{s += $1} END {print s}' numbers.txt"),
        call(3, "execute", command="echo broken > /usr/bin/awk"),
        AIMessage("The sum is 42."),
    ]
    agent = create_deep_agent(model=ScriptedModel(messages=iter(answers)), backend=sandbox)
    state = agent.invoke({"messages": [("user", "Add 19 and 23 with a file.")]})
    for message in state["messages"]:
        if message.type == "tool" and message.name == "execute":
            print(message.content.partition("\n")[0])
    print(state["messages"][-1].content)
    print(sandbox.download_files([path])[0].content)
