# SPDX-License-Identifier: Apache-2.0
"""A front end with one kernel, and what it sees of a cell. Runs where jupyter_client is."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from queue import Empty
from subprocess import DEVNULL
from typing import Any

from jupyter_client import BlockingKernelClient, KernelManager

TIMEOUT = 20.0
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Cell:
    """What came of a cell.

    Attributes:
        messages: All messages on iopub with the cell as parent, except status and execute_input.
        reply: The content of its reply; empty if none came, because the kernel died.
    """

    def __init__(self, messages: list[dict[str, Any]], reply: dict[str, Any]) -> None:
        self.messages = messages
        self.reply = reply

    def contents(self, kind: str) -> list[dict[str, Any]]:
        return [each["content"] for each in self.messages if each["msg_type"] == kind]

    def text(self, name: str = "stdout") -> str:
        return "".join(each["text"] for each in self.contents("stream") if each["name"] == name)

    @property
    def stdout(self) -> str:
        return self.text()

    @property
    def stderr(self) -> str:
        return self.text("stderr")

    @property
    def bundles(self) -> list[dict[str, Any]]:
        return [each["content"]["data"] for each in self.messages if "data" in each["content"]]

    @property
    def result(self) -> str | None:
        results = self.contents("execute_result")
        return results[0]["data"]["text/plain"] if results else None

    @property
    def error(self) -> str | None:
        """The name of the error that was published."""
        errors = self.contents("error")
        return errors[0]["ename"] if errors else None

    @property
    def traceback(self) -> str:
        return "\n".join(line for each in self.contents("error") for line in each["traceback"])

    def describe(self) -> str:
        """What the user sees, in order, and how it ended."""
        seen: list[tuple[str, str]] = []
        for message in self.messages:
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                kind, text = content["name"], content["text"]
                if seen and seen[-1][0] == kind:
                    text = seen.pop()[1] + text
            elif kind == "error":
                text = f"{content['ename']}: {content['evalue']}".removesuffix(": ")
            elif "data" in content:
                kind = {"execute_result": "result"}.get(kind, kind)
                text = content["data"].get("text/plain", "")
            else:
                text = ""
            seen.append((kind, text))
        parts = [f"{kind} {quote(text)}" if text else kind for kind, text in seen]
        status = self.reply.get("status", "no reply")
        if status != "ok" and not (status == "error" and self.error):
            parts.append(f"reply {status}" if self.reply else status)
        return ", ".join(parts) or "nothing"


def quote(text: str) -> str:
    """As code in Markdown, on one line."""
    text = COLOUR.sub("", text).replace("\r", "").rstrip("\n").replace("\n", "⏎").replace("\t", "⇥")
    return f"`{text}`"


class Front:
    def __init__(self, name: str) -> None:
        self.manager = KernelManager(kernel_name=name, transport="ipc")
        # What the kernel writes there is not output of cells.
        self.manager.start_kernel(stdout=DEVNULL, stderr=DEVNULL)
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def send(self, code: str, **options: Any) -> str:
        return self.client.execute(code, **{"allow_stdin": False, **options})

    def run(self, code: str, **options: Any) -> Cell:
        return self.take(self.send(code, **options))

    def take(
        self,
        msg_id: str,
        answers: tuple[str, ...] = (),
        on_message: Callable[[dict[str, Any]], None] = lambda message: None,
    ) -> Cell:
        """Waits for the end of a cell. `answers` are what the user types."""
        messages = []
        left = list(answers)
        deadline = time.monotonic() + TIMEOUT
        while True:
            if left and self.client.stdin_channel.msg_ready():
                messages.append(self.client.get_stdin_msg(timeout=1))
                self.client.input(left.pop(0))
            try:
                message = self.client.get_iopub_msg(timeout=0.05)
            except Empty:
                if not self.manager.is_alive():
                    break
                assert time.monotonic() < deadline, "the cell does not end"
                continue
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            on_message(message)
            kind = message["msg_type"]
            if kind == "status" and message["content"]["execution_state"] == "idle":
                break
            if kind not in ("status", "execute_input"):
                messages.append(message)
        return Cell(messages, self._reply(msg_id))

    def _reply(self, msg_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while True:
            assert time.monotonic() < deadline, "there is no reply"
            try:
                reply = self.client.get_shell_msg(timeout=1 if self.manager.is_alive() else 0.2)
            except Empty:
                if self.manager.is_alive():
                    continue
                return {}
            if reply["parent_header"].get("msg_id") == msg_id:
                return reply["content"]

    def interrupt_at_output(self, code: str) -> Cell:
        """Runs code, and interrupts it when it has printed something."""
        has_interrupted = False

        def on_message(message: dict[str, Any]) -> None:
            nonlocal has_interrupted
            if message["msg_type"] == "stream" and not has_interrupted:
                has_interrupted = True
                time.sleep(0.2)  # it printed, and is about to wait
                self.manager.interrupt_kernel()

        return self.take(self.send(code), on_message=on_message)

    def ask(self, method: str, *args: Any, **options: Any) -> dict[str, Any]:
        """The content of the reply to a request: complete, inspect, is_complete, history."""
        call = getattr(self.client, method)
        return call(*args, reply=True, timeout=TIMEOUT, **options)["content"]

    def ask_is_complete(self, code: str) -> dict[str, Any]:
        return self._reply(self.client.is_complete(code))

    def ends_soon(self) -> bool:
        """Whether the kernel's process ends within two seconds. A kernel that does not is used."""
        deadline = time.monotonic() + 2
        while self.manager.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.manager.is_alive()

    def wait_for_end(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while self.manager.is_alive():
            assert time.monotonic() < deadline, "the kernel does not end"
            time.sleep(0.02)

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
