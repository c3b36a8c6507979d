# SPDX-License-Identifier: Apache-2.0
"""Programs that benchmarks drive: an MCP server, and one that answers lines."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EXIT_TIMEOUT_S = 60.0
REPLY_TIMEOUT_S = 120.0
MAX_REPLY_BYTES = 256 << 20
READ_BYTES = 1 << 20


class BenchmarkError(Exception):
    """What was measured did not answer as it should have."""


def process_tree(root: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    tree = {root}
    while found := {pid for pid, parent in parents.items() if parent in tree and pid not in tree}:
        tree |= found
    return tree


def wait_for_end(process: subprocess.Popen[Any]) -> None:
    """Waits for a program whose input has ended. What does not end is killed with all below it."""
    try:
        process.wait(EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        print(f"compare: process {process.pid} did not end with its input: killed", file=sys.stderr)
        for pid in process_tree(process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()


def memory_mb(root: int) -> float:
    """Proportional set sizes of a process and all below it: what they share is counted once."""
    total_kb = 0
    for pid in process_tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total_kb += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total_kb / 1024


class McpProcess:
    """An MCP server as a child process, and requests to it, one at a time."""

    def __init__(
        self, command: list[str], directory: Path, environment: dict[str, str], log: Path | None
    ) -> None:
        self._errors = open(log, "ab") if log else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
        )
        self._name = Path(command[0]).name
        self._pending = bytearray()
        self._last_id = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, method: str, params: dict[str, Any] | None = None, *, reply: bool = True) -> int:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if reply:
            self._last_id += 1
            message["id"] = self._last_id
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        return self._last_id

    def receive(self, request_id: int) -> dict[str, Any]:
        """The result of one request; notifications that come before it are dropped."""
        deadline = time.monotonic() + REPLY_TIMEOUT_S
        while True:
            message = json.loads(self._read_line(deadline))
            if message.get("id") != request_id or "method" in message:
                continue
            if "error" in message:
                raise BenchmarkError(f"{self._name} answered with an error: {message['error']}")
            return message["result"]

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.receive(self.send(method, params))

    def initialize(self) -> None:
        client = {"name": "compare", "version": "1"}
        self.request(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client},
        )
        self.send("notifications/initialized", reply=False)

    def call(self, tool: str, **arguments: Any) -> str:
        """The texts of a tool's result, one after the other."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(block.get("text", "") for block in result["content"])
        if result.get("isError"):
            raise BenchmarkError(f"{self._name}: {tool} failed: {text}")
        return text

    def cell(self, code: str, **arguments: Any) -> str:
        return self.call("execute_ipython_cell", code=code, **arguments)

    def close(self) -> None:
        """Closes the input, which ends an MCP server."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        wait_for_end(self._process)
        self._process.stdout.close()
        if not isinstance(self._errors, int):
            self._errors.close()

    def _read_line(self, deadline: float) -> bytes:
        assert self._process.stdout
        fd = self._process.stdout.fileno()
        searched = 0
        while (end := self._pending.find(b"\n", searched)) < 0:
            searched = len(self._pending)
            if searched > MAX_REPLY_BYTES:
                raise BenchmarkError(
                    f"{self._name} sent a line of more than {MAX_REPLY_BYTES} bytes"
                )
            if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise BenchmarkError(f"{self._name} did not answer within {REPLY_TIMEOUT_S:.0f} s")
            data = os.read(fd, READ_BYTES)
            if not data:
                raise BenchmarkError(f"{self._name} closed its output")
            self._pending += data
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return line


class LineProgram:
    """A program that answers each line of its input with a line of seconds."""

    def __init__(
        self, name: str, command: list[str], environment: dict[str, str], log: Path | None
    ) -> None:
        self._name = name
        self._directory = tempfile.TemporaryDirectory(prefix="ipybox-bench-")
        self._errors = open(log, "ab") if log else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command,
            cwd=self._directory.name,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
        )

    def read_ms(self) -> list[float]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError(f"{self._name}: the program with several sessions ended")
        return [float(word) * 1000 for word in line.split()]

    def ask_ms(self, command: str) -> list[float]:
        assert self._process.stdin
        self._process.stdin.write(f"{command}\n")
        return self.read_ms()

    def memory_mb(self) -> float:
        return memory_mb(self._process.pid)

    def __enter__(self) -> LineProgram:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        wait_for_end(self._process)
        self._process.stdout.close()
        if not isinstance(self._errors, int):
            self._errors.close()
        self._directory.cleanup()
