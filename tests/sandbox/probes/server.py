# SPDX-License-Identifier: Apache-2.0
"""An MCP server whose one tool's description says what the server can do. Arguments: actions, each a JSON list."""

import json
import os
import sys
import urllib.request


def read(path):
    with open(path) as file:
        return "read " + file.read().strip()


def write(path):
    with open(path, "w") as file:
        file.write("written")
    return "written"


def fetch(url):
    return str(urllib.request.urlopen(url, timeout=100).status)


def variable(name):
    return os.environ.get(name, "unset")


def attempt(words):
    try:
        return globals()[words[0]](*words[1:])
    except OSError as error:
        return type(error).__name__


def answer(method):
    if method == "initialize":
        info = {"name": "probe", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    results = ", ".join(attempt(json.loads(text)) for text in sys.argv[1:])
    tool = {"name": "report", "description": "<" + results + ">", "inputSchema": {"type": "object"}}
    return {"tools": [tool]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(
            json.dumps(
                {"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"])}
            ),
            flush=True,
        )
