# SPDX-License-Identifier: Apache-2.0
"""A small MCP server for approvals.c. Its tool sends no mail. Standard library only."""

from __future__ import annotations

import json
import sys

SEND_MAIL = {
    "name": "send_mail",
    "description": "Send a mail.",
    "inputSchema": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "text": {"type": "string"}},
        "required": ["to", "text"],
    },
}


def answer(method: str, params: dict) -> dict:
    if method == "initialize":
        version = params["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "mail", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [SEND_MAIL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"sent to {params['arguments']['to']}"}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
