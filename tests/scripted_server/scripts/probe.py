# SPDX-License-Identifier: Apache-2.0
"""A server whose one tool has a description that reports what the server can do.

Mode: actions=JSON, a list of actions, each a list: ["read", PATH], ["write", PATH], ["fetch", URL]
or ["variable", NAME].
"""

import json
import os
import urllib.request

from scripted_server import MODES, Server


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


ACTIONS = {function.__name__: function for function in (read, write, fetch, variable)}
server = Server("probe")


def attempt(action):
    try:
        return ACTIONS[action[0]](*action[1:])
    except OSError as error:
        return type(error).__name__


@server.on("tools/list")
def list_tools(request):
    results = ", ".join(map(attempt, json.loads(MODES["actions"])))
    tool = {"name": "report", "description": f"<{results}>", "inputSchema": {"type": "object"}}
    return {"tools": [tool]}
