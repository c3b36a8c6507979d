# SPDX-License-Identifier: Apache-2.0
"""What the clients in Python share: they make the calls of a job, and print what they saw.

A job has the server ({"command": […]} or {"url", "token"}) and the calls: id, tool, arguments, and
whether to observe progress or to cancel at the first progress. The report has the version of the
client, the names of the tools, the outcome of each call, and the questions of the server.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, Protocol

JOB: dict[str, Any] = json.loads(sys.argv[1])
SERVER = JOB["server"]
HEADERS = {"Authorization": f"Bearer {SERVER.get('token')}"}
# SDKs pass few variables by default; the server needs those of the test.
ENVIRON = dict(os.environ)

Progress = Callable[[float, Any, Any], Awaitable[None]]


class Session(Protocol):
    async def tools(self) -> list[str]: ...

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: Progress | None
    ) -> dict[str, Any]: ...


def blocks(content: list[Any], is_error: bool) -> dict[str, Any]:
    """The outcome of a call, from the blocks of its result."""
    for block in content:
        if block.type == "image":
            assert base64.b64decode(block.data, validate=True).startswith(b"\x89PNG")
    return {
        "text": "".join(block.text for block in content if block.type == "text"),
        "images": sum(block.type == "image" for block in content),
        "error": is_error,
    }


async def outcome(session: Session, call: dict[str, Any]) -> dict[str, Any]:
    messages: list[str] = []
    first = asyncio.Event()

    async def on_progress(done: float, total: Any, message: Any) -> None:
        messages.append(message)
        first.set()

    observes = on_progress if call.get("progress") or call.get("cancel") else None
    task = asyncio.ensure_future(session.call(call["tool"], call["arguments"], observes))
    if call.get("cancel"):
        await first.wait()
        task.cancel()
        done, _ = await asyncio.wait([task])
        return {"cancelled": task.cancelled()}
    return {**await task, "progress": messages}


async def report(session: Session, package: str, asked: list[str]) -> None:
    tools = await session.tools()
    outcomes = {call["id"]: await outcome(session, call) for call in JOB["calls"]}
    result = {"version": version(package), "tools": tools, "outcomes": outcomes, "asked": asked}
    print(json.dumps(result))
