#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for `ipybox rpc`: `echo` returns its parameters, other methods misbehave."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result: Any = {
            "protocol": int(os.environ.get("FAKE_PROTOCOL", "1")),
            "version": "0",
            "pid": os.getpid(),
        }
    elif method == "die":
        os._exit(3)
    elif method == "garbage":
        sys.stdout.write("this is no JSON\n")
        sys.stdout.flush()
        return
    elif method == "raw":
        sys.stdout.write(params["line"].replace("ID", str(message["id"])) + "\n")
        sys.stdout.flush()
        return
    elif method == "hang":
        return
    elif method == "session.cancel":
        send({"jsonrpc": "2.0", "id": params["request"], "result": "late"})
        return
    elif method == "error":
        send({"jsonrpc": "2.0", "id": message["id"], "error": params})
        return
    elif method == "ask":
        approval = {
            "session": "s1",
            "request": message["id"],
            "server_name": "a",
            "tool_name": "b",
            "tool_args": {},
        }
        send({"jsonrpc": "2.0", "id": "q1", "method": "approval.request", "params": approval})
        reply = json.loads(sys.stdin.readline())
        result = reply["result"]
    else:
        result = params
    if "id" in message:
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})


def main() -> None:
    for line in sys.stdin:
        answer(json.loads(line))


if __name__ == "__main__":
    main()
