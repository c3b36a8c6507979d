#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures ipybox without and with its sandbox, and beside it the original (ipybox 0.9.2 from PyPI), in one interleaved run.

All are driven as MCP servers, by raw JSON-RPC over stdio, and by one program that uses the Python SDK. Every round measures each row for the one and at once for
the others, so that a machine that gets slower or faster does it to all. Medians count, and their ratios.
benchmarks/README.md says what each row means.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TOOL_SERVER = HERE / "tool_server.py"
SDK_PROGRAM = HERE / "sdk_program.py"
ORIGINAL_VENV = ROOT / ".cache" / "bench" / "original"
ORIGINAL_PINS = HERE / "requirements-original.txt"

REPLY_TIMEOUT_S = 120.0
EXIT_TIMEOUT_S = 60.0
LOST_AFTER_S = 5
MAX_LOST_RESULTS = 20
MAX_REPLY_BYTES = 256 << 20
READ_BYTES = 1 << 20


# The contenders, as the table heads their columns.
ORIGINAL = "original"
OURS = "ipybox"
SANDBOXED = "sandboxed"


class BenchmarkError(Exception):
    """What was measured did not answer as it should have."""


# --- processes -------------------------------------------------------------------------------------------------------


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


# --- MCP over stdio --------------------------------------------------------------------------------------------------


class McpProcess:
    """An MCP server as a child process, and requests to it, one at a time."""

    def __init__(self, command: list[str], directory: Path, environment: dict[str, str], log: Path | None) -> None:
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
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
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
        """End of input is how an MCP server is told to end."""
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
                raise BenchmarkError(f"{self._name} sent a line of more than {MAX_REPLY_BYTES} bytes")
            if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise BenchmarkError(f"{self._name} did not answer within {REPLY_TIMEOUT_S:.0f} s")
            data = os.read(fd, READ_BYTES)
            if not data:
                raise BenchmarkError(f"{self._name} closed its output")
            self._pending += data
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return line


# --- what is compared ------------------------------------------------------------------------------------------------

# One cell of the original without an MCP host, as `ipybox run -c` does it.
ORIGINAL_ONE_CELL = """
import asyncio
from ipybox import CodeExecutor

async def main():
    async with CodeExecutor(log_level="ERROR") as session:
        print((await session.execute("1")).text)

asyncio.run(main())
"""


@dataclass
class Contender:
    """One of the two programs: how to start it."""

    name: str
    server: list[str]
    sessions: list[str]
    sdk: list[str]
    one_cell: list[str]
    environment: dict[str, str]
    log: Path | None = None

    def start(self, workspace: Path) -> McpProcess:
        return McpProcess([*self.server, "--workspace", str(workspace)], workspace, self.environment, self.log)


def environment_with(python: Path) -> dict[str, str]:
    """Ours, with the programs of a Python's environment first on PATH."""
    environment = dict(os.environ)
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    environment.pop("VIRTUAL_ENV", None)
    return environment


def our_contender(build: Path, python: Path | None, state: Path, log: Path | None, *, is_sandboxed: bool) -> Contender:
    """The sandbox is that of kernels: the servers of tools, which are timed too, run outside for both."""
    binary = build / "ipybox"
    if not os.access(binary, os.X_OK):
        raise BenchmarkError(f"{binary} is not there; build it first: make")
    server = [str(binary)]
    environment = dict(os.environ)
    if python:
        server += ["--python", str(python)]
        environment = environment_with(python)
    # What is registered here is not the user's.
    environment["XDG_STATE_HOME"] = str(state)
    # The SDK takes the program from here, and the kernels' Python is its own.
    environment["IPYBOX_BIN"] = str(binary)
    environment["PYTHONPATH"] = str(ROOT / "python")
    sessions = build / "bench-sessions"
    python_flags = server[1:]
    return Contender(
        SANDBOXED if is_sandboxed else OURS,
        [*server, "--sandbox", "--unsandboxed-servers"] if is_sandboxed else server,
        [str(sessions), *(["--sandbox"] if is_sandboxed else []), *python_flags] if os.access(sessions, os.X_OK) else [],
        [str(python or sys.executable), str(SDK_PROGRAM), *(["--sandbox"] if is_sandboxed else [])],
        [str(binary), "run", *([] if is_sandboxed else ["--no-sandbox"]), *python_flags, "-c", "1"],
        environment,
        log,
    )


def original_contender(python: Path, log: Path | None) -> Contender:
    command = shutil.which("ipybox", path=str(python.parent))
    if not command:
        raise BenchmarkError(f"there is no ipybox beside {python}")
    return Contender(
        ORIGINAL,
        [command],
        [],
        [str(python), str(SDK_PROGRAM)],
        [str(python), "-c", ORIGINAL_ONE_CELL],
        environment_with(python),
        log,
    )


def install_original() -> Path:
    """The original in an environment of its own, made once."""
    setup = [str(ROOT / "scripts" / "venv"), str(ORIGINAL_VENV), str(ORIGINAL_PINS)]
    subprocess.run(setup, check=True, stdout=sys.stderr, env=os.environ | {"PYTHON": sys.executable})
    return ORIGINAL_VENV / "bin" / "python"


# --- memory ----------------------------------------------------------------------------------------------------------


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


# --- the rows --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int
    cells: int
    resets: int
    tool_calls: int
    tools: int
    registrations: int
    lost_cells: int
    small_prints: int
    big_write_mb: int
    sessions: int

    @property
    def lost_cells_a_round(self) -> int:
        return max(1, self.lost_cells // self.rounds)


QUICK = Plan(
    rounds=2,
    cells=30,
    resets=2,
    tool_calls=50,
    tools=100,
    registrations=2,
    lost_cells=100,
    small_prints=20_000,
    big_write_mb=8,
    sessions=3,
)
FULL = Plan(
    rounds=5,
    cells=100,
    resets=5,
    tool_calls=200,
    tools=100,
    registrations=3,
    lost_cells=2_000,
    small_prints=100_000,
    big_write_mb=64,
    sessions=5,
)


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    unit: str
    target: str
    sandboxed_target: str = ""  # where it is another one
    more_is_better: bool = False
    is_count: bool = False
    is_difference: bool = False


ROWS = [
    Row("initialize", "MCP initialize answered", "ms", "15"),
    Row("start_cold", "start, nothing running, to first result", "ms", "450"),
    Row("start_warm", "new session in a running program, to first result", "ms", "12", "15"),
    Row("one_cell", "one cell as a command, start to exit", "ms", ""),
    Row("cell", "a cell (1) over MCP", "ms", "0.7"),
    Row("cell_p99", "a cell (1) over MCP, 99th percentile", "ms", ""),
    Row("reset", "reset to first result", "ms", "15"),
    Row("tool_call", "tool call, added to a bare MCP call", "ms", "0.3", is_difference=True),
    Row("apigen", "API generation, 100 tools, beyond the server's start", "ms", "20", is_difference=True),
    Row("memory_one", "memory, one session in all", "MB", "50"),
    Row("memory_further", "memory, each further session in one program", "MB", "6"),
    Row("memory_server", "memory, each further MCP server", "MB", ""),
    Row("stdout_small", "stdout, prints of 100 bytes", "MB/s", "25", more_is_better=True),
    Row("stdout_big", "stdout, writes of 64 KiB to fd 1", "MB/s", "200", more_is_better=True),
    Row("sdk_import", "SDK: import ipybox", "ms", "30"),
    Row("sdk_start", "SDK: first executor, to first result", "ms", "450"),
    Row("sdk_new", "SDK: further executor, to first result", "ms", "12", "15"),
    Row("sdk_cell", "SDK: a cell (1)", "ms", "1"),
    Row("sdk_cell_p99", "SDK: a cell (1), 99th percentile", "ms", ""),
    Row("sdk_reset", "SDK: reset to first result", "ms", "15"),
    Row("sdk_memory", "SDK: memory, each further executor", "MB", "6"),
    Row("lost", "outputs lost", "", "0", is_count=True),
]


@dataclass
class Samples:
    """What was measured of one contender, by row."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, key: str, *values: float) -> None:
        self.values.setdefault(key, []).extend(values)

    def result(self, row: Row) -> float | None:
        values = self.values.get(row.key)
        if not values:
            return None
        return sum(values) if row.is_count else statistics.median(values)

    def best(self, row: Row) -> float | None:
        """The best sample: what the machine lets through when it does nothing else. A difference has none."""
        values = self.values.get(row.key)
        if not values or row.is_count or row.is_difference:
            return None
        return max(values) if row.more_is_better else min(values)


def elapsed_ms(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def wait_for_result(run_cell: Callable[[], str]) -> None:
    """Runs the cell `1` until its result comes: the original loses some."""
    for _ in range(MAX_LOST_RESULTS):
        text = run_cell()
        if text == "1":
            return
    raise BenchmarkError(f"the cell 1 gave {text[:200]!r}")


def start_cold(contender: Contender, directory: Path, samples: Samples, plan: Plan) -> McpProcess:
    """Starts a server; a host sends its first call as soon as it has the answer to initialize."""
    workspace = directory / contender.name
    workspace.mkdir()
    start = time.perf_counter()
    server = contender.start(workspace)
    server.initialize()
    initialized = time.perf_counter()
    wait_for_result(lambda: server.cell("1"))
    samples.add("initialize", (initialized - start) * 1000)
    samples.add("start_cold", (time.perf_counter() - start) * 1000)
    return server


def add_cells(samples: Samples, key: str, times: list[float]) -> None:
    samples.add(key, *times)
    samples.add(f"{key}_p99", sorted(times)[min(len(times) - 1, int(len(times) * 0.99))])


def measure_cells(server: McpProcess, samples: Samples, plan: Plan) -> None:
    server.cell("1")
    add_cells(samples, "cell", [elapsed_ms(lambda: server.cell("1")) for _ in range(plan.cells)])


def measure_resets(server: McpProcess, samples: Samples, plan: Plan) -> None:
    def reset_and_run() -> None:
        server.call("reset")
        server.cell("1")

    for _ in range(plan.resets):
        samples.add("reset", elapsed_ms(reset_and_run))


TOOL_CALL_CELL = """
import time
from mcptools.calls import echo
params = echo.Params(text="hello")
echo.run(params)
times = []
for _ in range({count}):
    start = time.perf_counter()
    echo.run(params)
    times.append(time.perf_counter() - start)
print(sorted(times)[len(times) // 2])
"""


def tool_server_command(tools: int) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(TOOL_SERVER), "--tools", str(tools)]}


def start_tool_server(tools: int) -> McpProcess:
    command = tool_server_command(tools)
    return McpProcess([command["command"], *command["args"]], HERE, dict(os.environ), None)


def measure_tool_calls(server: McpProcess, samples: Samples, plan: Plan) -> None:
    bare = start_tool_server(1)
    bare.initialize()
    bare.call("echo", text="hello")
    bare_ms = statistics.median(elapsed_ms(lambda: bare.call("echo", text="hello")) for _ in range(plan.tool_calls))
    bare.close()

    server.call("register_mcp_server", server_name="calls", server_params=tool_server_command(1))
    median_s = float(server.cell(TOOL_CALL_CELL.format(count=plan.tool_calls)))
    samples.add("tool_call", median_s * 1000 - bare_ms)


def measure_generation(server: McpProcess, samples: Samples, plan: Plan) -> None:
    """What is subtracted is what any client waits for: the server's start and its list of tools."""
    params = tool_server_command(plan.tools)
    for _ in range(plan.registrations):
        start = time.perf_counter()
        bare = start_tool_server(plan.tools)
        bare.initialize()
        bare.request("tools/list")
        bare_ms = (time.perf_counter() - start) * 1000
        bare.close()
        register = partial(server.call, "register_mcp_server", server_name="many", server_params=params)
        samples.add("apigen", elapsed_ms(register) - bare_ms)


def measure_stdout(server: McpProcess, samples: Samples, plan: Plan) -> None:
    line = "x" * 99
    small = f"for _ in range({plan.small_prints}): print({line!r})"
    megabytes = plan.small_prints * 100 / 1e6
    took_ms = elapsed_ms(lambda: server.cell(small, max_output_chars=1000))
    samples.add("stdout_small", megabytes / (took_ms / 1000))

    blocks = plan.big_write_mb * 1_000_000 // 65536
    big = f"import os\nblock = b'y' * 65535 + b'\\n'\nfor _ in range({blocks}): n = os.write(1, block)"
    took_ms = elapsed_ms(lambda: server.cell(big, max_output_chars=1000))
    samples.add("stdout_big", blocks * 65536 / 1e6 / (took_ms / 1000))


def measure_lost(server: McpProcess, samples: Samples, plan: Plan) -> None:
    samples.add("lost", sum(loses_output(server, number) for number in range(plan.lost_cells_a_round)))


def loses_output(server: McpProcess, number: int) -> bool:
    """Whether a cell's answer is anything but what it printed, an error or no answer in time included."""
    try:
        return server.cell(f"print('output', {number})", timeout=LOST_AFTER_S) != f"output {number}"
    except BenchmarkError:
        return True


class LineProgram:
    """A program that answers each line of its input with a line of seconds."""

    def __init__(self, contender: Contender, command: list[str]) -> None:
        self._name = contender.name
        self._directory = tempfile.TemporaryDirectory(prefix="ipybox-bench-")
        self._errors = open(contender.log, "ab") if contender.log else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command,
            cwd=self._directory.name,
            env=contender.environment,
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


def open_sessions(program: LineProgram, samples: Samples, plan: Plan, key: str, memory_key: str) -> None:
    """Further sessions in a program that has one already, which has made it warm."""
    before_mb = program.memory_mb()
    for _ in range(plan.sessions):
        samples.add(key, *program.ask_ms("new"))
    samples.add(memory_key, (program.memory_mb() - before_mb) / plan.sessions)


def measure_sessions(contender: Contender, samples: Samples, plan: Plan) -> None:
    if contender.sessions:
        with LineProgram(contender, contender.sessions) as program:
            program.ask_ms("new")
            open_sessions(program, samples, plan, "start_warm", "memory_further")


def measure_sdk(contender: Contender, samples: Samples, plan: Plan) -> None:
    with LineProgram(contender, contender.sdk) as program:
        samples.add("sdk_import", *program.read_ms())
        samples.add("sdk_start", *program.ask_ms("new"))
        add_cells(samples, "sdk_cell", program.ask_ms(f"cells {plan.cells}"))
        samples.add("sdk_reset", *program.ask_ms(f"resets {plan.resets}"))
        open_sessions(program, samples, plan, "sdk_new", "sdk_memory")
    if contender.name == ORIGINAL:
        # It has no other interface for several sessions in one program.
        for key, same in (("start_warm", "sdk_new"), ("memory_further", "sdk_memory")):
            samples.values[key] = samples.values[same]


def measure_servers_memory(contender: Contender, samples: Samples, plan: Plan) -> None:
    """One MCP server, then a second one: as two hosts on one machine have them."""
    with tempfile.TemporaryDirectory(prefix="ipybox-bench-") as directory:
        servers: list[McpProcess] = []
        try:
            used_mb = 0.0
            for key in ("memory_one", "memory_server"):
                workspace = Path(directory, key)
                workspace.mkdir()
                servers.append(contender.start(workspace))
                servers[-1].initialize()
                wait_for_result(lambda: servers[-1].cell("1"))
                total_mb = sum(memory_mb(server.pid) for server in servers)
                samples.add(key, total_mb - used_mb)
                used_mb = total_mb
        finally:
            for server in servers:
                server.close()


def measure_one_cell(contender: Contender, samples: Samples, plan: Plan) -> None:
    with tempfile.TemporaryDirectory(prefix="ipybox-bench-") as directory:

        def run() -> str:
            done = subprocess.run(
                contender.one_cell,
                cwd=directory,
                env=contender.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                timeout=REPLY_TIMEOUT_S,
            )
            return done.stdout.strip()

        samples.add("one_cell", elapsed_ms(lambda: wait_for_result(run)))


SERVER_MEASURES: list[tuple[str, Callable[[McpProcess, Samples, Plan], None]]] = [
    ("cells", measure_cells),
    ("resets", measure_resets),
    ("tool calls", measure_tool_calls),
    ("API generation", measure_generation),
    ("stdout", measure_stdout),
    ("lost outputs", measure_lost),
]

ALONE_MEASURES: list[tuple[str, Callable[[Contender, Samples, Plan], None]]] = [
    ("sessions", measure_sessions),
    ("SDK", measure_sdk),
    ("memory", measure_servers_memory),
    ("one cell", measure_one_cell),
]


# --- the run ---------------------------------------------------------------------------------------------------------


class Run:
    """All rounds, for all contenders, and what went wrong."""

    def __init__(self, contenders: list[Contender], plan: Plan) -> None:
        self.contenders = contenders
        self.plan = plan
        self.samples = {contender.name: Samples() for contender in contenders}
        self.problems: list[str] = []

    def measure(self) -> None:
        for number in range(self.plan.rounds):
            # Whoever was second is first the next time.
            order = self.contenders if number % 2 == 0 else self.contenders[::-1]
            self._round(number, order)
        self._say_done()

    def _round(self, number: int, order: list[Contender]) -> None:
        with tempfile.TemporaryDirectory(prefix="ipybox-bench-") as directory:
            servers: dict[str, McpProcess] = {}
            try:
                self._say(number, "start")
                for contender in order:
                    server = self._try(contender, "start", start_cold, contender, Path(directory))
                    if server:
                        servers[contender.name] = server
                for title, measure in SERVER_MEASURES:
                    self._say(number, title)
                    for contender in order:
                        if server := servers.get(contender.name):
                            self._try(contender, title, measure, server)
            finally:
                for server in servers.values():
                    server.close()
        for title, measure_alone in ALONE_MEASURES:
            self._say(number, title)
            for contender in order:
                self._try(contender, title, measure_alone, contender)

    def _try(self, contender: Contender, title: str, measure: Callable[..., Any], *arguments: Any) -> Any:
        """A row that fails is missing; the others are measured."""
        try:
            return measure(*arguments, self.samples[contender.name], self.plan)
        except (BenchmarkError, OSError, ValueError, subprocess.SubprocessError) as problem:
            self.problems.append(f"{contender.name}, {title}: {problem}")
            return None

    def _say(self, number: int, title: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[Kround {number + 1} of {self.plan.rounds}: {title}", end="", file=sys.stderr, flush=True)

    def _say_done(self) -> None:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


# --- the table -------------------------------------------------------------------------------------------------------


def number_text(value: float | None, row: Row) -> str:
    if value is None:
        return "–"
    if row.is_count:
        return f"{value:.0f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio_text(ours: float | None, original: float | None, row: Row) -> str:
    """How many times better ours is; below 1 it is worse."""
    if ours is None or original is None or row.is_count:
        return ""
    better, worse = (ours, original) if row.more_is_better else (original, ours)
    if better <= 0 or worse <= 0:
        return ""
    ratio = better / worse
    return f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.1f} ×"


def is_reached(value: float | None, target: str, row: Row) -> bool:
    return value is not None and (value >= float(target) if row.more_is_better else value <= float(target))


def target_text(values: dict[str, float | None], row: Row) -> str:
    """The target, and which of our columns missed it."""
    if not row.target:
        return ""
    targets = {OURS: row.target, SANDBOXED: row.sandboxed_target or row.target}
    sign = "=" if row.is_count else "≥" if row.more_is_better else "≤"
    numbers = " / ".join(dict.fromkeys(targets.values()))
    missed = [name for name, target in targets.items() if not is_reached(values[name], target, row)]
    return f"{sign} {numbers} {'MISSED: ' + ', '.join(missed) if missed else 'reached'}"


def table(run: Run) -> list[list[str]]:
    with_original = ORIGINAL in run.samples
    head = ["", "unit", ORIGINAL, OURS, "best", SANDBOXED, "better", "target"]
    lines = [head if with_original else [title for title in head if title not in (ORIGINAL, "better")]]
    for row in ROWS:
        values = {name: samples.result(row) for name, samples in run.samples.items()}
        title = row.title
        if row.is_count:
            title += f" in {run.plan.lost_cells_a_round * run.plan.rounds:,} cells"
        best = run.samples[OURS].best(row)
        line = [title, row.unit, number_text(values[OURS], row), "" if best is None else number_text(best, row)]
        line.append(number_text(values[SANDBOXED], row))
        if with_original:
            line.insert(2, number_text(values[ORIGINAL], row))
            line.append(ratio_text(values[OURS], values[ORIGINAL], row))
        line.append(target_text(values, row))
        lines.append(line)
    return lines


def print_table(lines: list[list[str]], markdown: bool) -> None:
    left = {0, 1, len(lines[0]) - 1}
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip())
        if markdown and number == 0:
            rules = ["-" * (width + 1) + ("-" if column in left else ":") for column, width in enumerate(widths)]
            print("|" + "|".join(rules) + "|")


def machine() -> str:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cpus} CPUs, {platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}"


def as_json(run: Run) -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "plan": vars(run.plan),
        "problems": run.problems,
        "rows": [
            {
                "key": row.key,
                "title": row.title,
                "unit": row.unit,
                "target": row.target,
                **{name: samples.result(row) for name, samples in run.samples.items()},
                "best": {name: samples.best(row) for name, samples in run.samples.items()},
                "samples": {name: samples.values.get(row.key, []) for name, samples in run.samples.items()},
            }
            for row in ROWS
        ],
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short run: about a minute with the original")
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument("--cells", type=int, help="how many cells, in all, to look for lost outputs")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder (default: build)")
    parser.add_argument("--python", type=Path, help="the Python for our kernels (default: .venv, else what ipybox finds)")
    parser.add_argument("--original", metavar="PYTHON", type=Path, help="a Python that has ipybox 0.9.2")
    parser.add_argument("--with-original", action="store_true", help="install the original into .cache/bench if needed")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write every sample to FILE")
    parser.add_argument("--log", metavar="FILE", type=Path, help="append what the programs write to stderr to FILE")
    return parser.parse_args()


def find_contenders(options: argparse.Namespace, state: Path) -> list[Contender]:
    """The original first, where there is one. Paths are not resolved: a virtual environment's Python is a link."""
    python = options.python
    if not python and (ROOT / ".venv/bin/python").exists():
        python = ROOT / ".venv/bin/python"
    contenders = [
        our_contender(
            options.build.absolute(), python.absolute() if python else None, state, options.log, is_sandboxed=is_sandboxed
        )
        for is_sandboxed in (False, True)
    ]
    original = options.original
    if options.with_original and not original:
        original = install_original()
    if original:
        contenders.insert(0, original_contender(original.absolute(), options.log))
    else:
        print("Without the original: --with-original installs it, --original PYTHON uses one that is there.")
    return contenders


def main() -> int:
    options = parse_options()
    plan = QUICK if options.quick else FULL
    plan = replace(plan, rounds=options.rounds or plan.rounds, lost_cells=options.cells or plan.lost_cells)
    try:
        with tempfile.TemporaryDirectory(prefix="ipybox-bench-") as state:
            run = Run(find_contenders(options, Path(state)), plan)
            run.measure()
    except (BenchmarkError, subprocess.CalledProcessError) as problem:
        print(f"compare: {problem}", file=sys.stderr)
        return 1
    print(f"{machine()}; medians of {plan.rounds} rounds")
    print_table(table(run), options.markdown)
    for problem in run.problems:
        print(f"not measured: {problem}", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(as_json(run), indent=1) + "\n")
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
