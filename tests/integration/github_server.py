# SPDX-License-Identifier: Apache-2.0
"""An MCP server with two tools that answer in JSON texts without saying so, like the one of the guide's example.

`--more` adds a parameter to search_repositories, as a newer version of the server might.
"""

from __future__ import annotations

import json
import sys

REPOSITORIES = [
    {"name": name, "stargazers_count": 10 ** (6 - n), "private": False}
    for n, name in enumerate(["linux", "subsurface", "uemacs", "pesconvert"])
]
STRING, NUMBER = {"type": "string"}, {"type": "number", "minimum": 1, "maximum": 100}
SEARCH = {
    "query": STRING,
    "sort": {"type": "string", "enum": ["stars", "forks", "help-wanted-issues", "updated"]},
    "order": {"type": "string", "enum": ["asc", "desc"]},
    "perPage": NUMBER,
}
if "--more" in sys.argv:
    SEARCH["minimal_output"] = {"type": "boolean", "default": True}
TOOLS = [
    {
        "name": "search_repositories",
        "description": "Find repositories.",
        "inputSchema": {"type": "object", "properties": SEARCH, "required": ["query"]},
    },
    {
        "name": "list_commits",
        "description": "Get commits of a repository.",
        "inputSchema": {
            "type": "object",
            "properties": {"owner": STRING, "repo": STRING, "perPage": NUMBER},
            "required": ["owner", "repo"],
        },
    },
]


def call(name: str, arguments: dict) -> object:
    n = arguments.get("perPage", 30)
    if name == "search_repositories":
        return {"total_count": len(REPOSITORIES), "items": REPOSITORIES[:n]}
    repo = arguments["repo"]
    return [
        {
            "sha": f"{k:040x}",
            "commit": {"message": f"{repo} {k}\n\nbody"},
            "html_url": f"https://example.org/{repo}/{k}",
        }
        for k in range(n)
    ]


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    answer: dict = {"error": {"code": -32601, "message": "Method not found"}}
    if method == "initialize":
        server = {"name": "github", "version": "1"}
        answer = {
            "result": {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": server,
            }
        }
    elif method == "tools/list":
        answer = {"result": {"tools": TOOLS}}
    elif method == "tools/call":
        text = json.dumps(call(params["name"], params["arguments"]))
        answer = {"result": {"content": [{"type": "text", "text": text}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
