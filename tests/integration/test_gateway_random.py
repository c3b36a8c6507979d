# SPDX-License-Identifier: Apache-2.0
"""Clients of `ipybox gateway` act at random while kernels are interrupted, restarted, killed and
deleted.

Each request is answered once, between busy and idle. Nothing hangs or is left behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
import uuid

import harness
from gateway_driver import V1, Gateway, frame_v1, parse_v1
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

SECONDS = 8
SEED = int(os.environ.get("IPYBOX_TEST_SEED", "20261121"))
CLIENTS = 6
CELLS = [
    "1",
    "x = 1",
    "1/0",
    "print('x' * 1000)",
    "for i in range(3000): print(i)",
    "print('y' * 3_000_000)",
    "await __import__('asyncio').sleep(0.02)",
    "import time; time.sleep(0.05)",
    "import time; time.sleep(600)",
    "while True: pass",
    "import os; os._exit(1)",
    "input()",
]
QUESTIONS = ["kernel_info", "complete", "inspect", "is_complete", "history", "comm_info", "unknown"]
# Longer than anything takes here, on the slowest machine.
PATIENCE = 60


class Chaos:
    def __init__(self, gateway: Gateway, seed: int) -> None:
        self.gateway = gateway
        self.random = random.Random(seed)
        self.kernels: list[str] = []
        self.deadline = time.monotonic() + SECONDS
        self.n_answers = 0

    async def rest(self, method: str, path: str, body: dict | None = None) -> int:
        status, answer = await asyncio.to_thread(
            self.gateway.request, method, f"/api/kernels{path}", body
        )
        if status == 201:
            self.kernels.append(answer["id"])
        return status

    async def disturb(self) -> None:
        """Runs until it is cancelled. A cell that never ends is interrupted sooner or later."""
        while True:
            await asyncio.sleep(self.random.random() * 0.3)
            for kernel in list(self.kernels):
                assert await self.rest("POST", f"/{kernel}/interrupt", {}) == 204
            if self.random.random() < 0.1:
                assert (
                    await self.rest("POST", f"/{self.random.choice(self.kernels)}/restart", {})
                    == 200
                )
            if self.random.random() < 0.05:
                kernel = self.kernels.pop(self.random.randrange(len(self.kernels)))
                assert await self.rest("DELETE", f"/{kernel}") == 204
                assert await self.rest("POST", "", {}) == 201

    async def use(self) -> None:
        while time.monotonic() < self.deadline:
            v1 = self.random.random() < 0.5
            url = f"ws://127.0.0.1:{self.gateway.port}/api/kernels/{self.random.choice(self.kernels)}/channels"
            try:
                async with connect(
                    url, subprotocols=[V1] if v1 else None, max_size=None, proxy=None
                ) as socket:
                    for _ in range(self.random.randrange(1, 6)):
                        asked = [
                            await self.ask(socket, v1) for _ in range(self.random.randrange(1, 5))
                        ]
                        if self.random.random() < 0.15:
                            socket.transport.abort()
                            break
                        await asyncio.wait_for(self.wait_for_answers(socket, v1, asked), PATIENCE)
            except InvalidStatus as error:
                assert error.response.status_code == 404
            except ConnectionClosed as error:
                assert error.rcvd is None or error.rcvd.code == 1001

    async def ask(self, socket: ClientConnection, v1: bool) -> str:
        is_cell = self.random.random() < 0.6
        kind = "execute" if is_cell else self.random.choice(QUESTIONS)
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": f"{kind}_request",
            "session": "s",
            "version": "5.3",
        }
        content = {
            "code": self.random.choice(CELLS) if is_cell else "pri",
            "stop_on_error": self.random.random() < 0.5,
        }
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        channel = "control" if kind == "kernel_info" and self.random.random() < 0.5 else "shell"
        await socket.send(
            frame_v1(channel, message, []) if v1 else json.dumps({**message, "channel": channel})
        )
        return header["msg_id"]

    async def wait_for_answers(self, socket: ClientConnection, v1: bool, asked: list[str]) -> None:
        steps = {msg_id: ["busy", "reply", "idle"] for msg_id in asked}
        while any(steps.values()):
            frame = await socket.recv()
            message = parse_v1(frame) if v1 else json.loads(frame)
            left = steps.get(message["parent_header"].get("msg_id"))
            state = message["content"].get("execution_state")
            is_reply = message["header"]["msg_type"].endswith("_reply")
            if left is not None and (is_reply or state in ("busy", "idle")):
                assert left.pop(0) == ("reply" if is_reply else state), message
                self.n_answers += is_reply


async def run(gateway: Gateway) -> int:
    chaos = Chaos(gateway, SEED)
    for _ in range(3):
        assert await chaos.rest("POST", "", {}) == 201
    disturbing = asyncio.create_task(chaos.disturb())
    using = asyncio.gather(*[chaos.use() for _ in range(CLIENTS)])
    await asyncio.wait([disturbing, using], return_when=asyncio.FIRST_COMPLETED)
    if disturbing.done():
        await disturbing
    await using
    disturbing.cancel()
    return chaos.n_answers


def test_chaos(ipybox: str, place: harness.Place, python: str) -> None:
    with Gateway(ipybox, place, "--python", python) as gateway:
        assert asyncio.run(run(gateway)) > 0
