#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small MCP server on stdio for the benchmarks, as fast as Python allows.

usage: tool_server.py [--tools N]

Its tools are `echo` and N - 1 more, with parameters like those of real servers: an enum, a nested
object, an array.
"""

from __future__ import annotations

import json
import sys
from typing import Any

ECHO = {
    "name": "echo",
    "description": "Give the text back.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


def search_tool(number: int) -> dict[str, Any]:
    return {
        "name": f"search-items-{number}",
        "description": f"Search the items of collection {number}.\n\n"
        "Results come one page at a time.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for"},
                "sort": {
                    "type": "string",
                    "enum": ["stars", "forks", "updated"],
                    "description": "Sort by",
                },
                "page": {"type": "integer", "minimum": 1, "default": 1},
                "labels": {"type": "array", "items": {"type": "string"}},
                "range": {
                    "type": "object",
                    "properties": {"from": {"type": "string"}, "to": {"type": "string"}},
                    "required": ["from"],
                },
            },
            "required": ["query"],
        },
    }


def answer(method: str, params: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "benchmark", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": tools}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}
    return {}


def main() -> None:
    count = int(sys.argv[2]) if sys.argv[1:2] == ["--tools"] else 1
    tools = [ECHO] + [search_tool(number) for number in range(1, count)]
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result = answer(request["method"], request.get("params") or {}, tools)
        reply = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
        sys.stdout.buffer.write(reply.encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
