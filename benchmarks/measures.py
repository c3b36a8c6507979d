# SPDX-License-Identifier: Apache-2.0
"""The rows of compare.py's table, and how each is measured."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from contenders import HERE, ORIGINAL, Contender
from processes import REPLY_TIMEOUT_S, BenchmarkError, LineProgram, McpProcess, memory_mb

TOOL_SERVER = HERE / "tool_server.py"
LOST_AFTER_S = 5
MAX_LOST_RESULTS = 20


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
    Row("start_cold", "first result, nothing running", "ms", "450"),
    Row("start_warm", "first result, new session", "ms", "12", "15"),
    Row("one_cell", "one cell as a command", "ms", ""),
    Row("cell", "a cell (1) over MCP", "ms", "0.7"),
    Row("cell_p99", "… 99th percentile", "ms", ""),
    Row("reset", "reset to first result", "ms", "15"),
    Row("tool_call", "tool call, beyond a bare call", "ms", "0.3", is_difference=True),
    Row(
        "apigen",
        "API of 100 tools, after start",
        "ms",
        "20",
        is_difference=True,
    ),
    Row("memory_one", "memory, one session", "MB", "50"),
    Row("memory_further", "memory, further session", "MB", "6"),
    Row("memory_server", "memory, further MCP server", "MB", ""),
    Row("stdout_small", "stdout, prints of 100 bytes", "MB/s", "25", more_is_better=True),
    Row("stdout_big", "stdout, 64 KiB writes to fd 1", "MB/s", "200", more_is_better=True),
    Row("sdk_import", "SDK: import ipybox", "ms", "30"),
    Row("sdk_start", "SDK: first executor", "ms", "450"),
    Row("sdk_new", "SDK: further executor", "ms", "12", "15"),
    Row("sdk_cell", "SDK: a cell (1)", "ms", "1"),
    Row("sdk_cell_p99", "SDK: … 99th percentile", "ms", ""),
    Row("sdk_reset", "SDK: reset to first result", "ms", "15"),
    Row("sdk_memory", "SDK: memory, further executor", "MB", "6"),
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
        """The best sample: the time if the machine does nothing else. A difference has none."""
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
    bare_ms = statistics.median(
        elapsed_ms(lambda: bare.call("echo", text="hello")) for _ in range(plan.tool_calls)
    )
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
        register = partial(
            server.call, "register_mcp_server", server_name="many", server_params=params
        )
        samples.add("apigen", elapsed_ms(register) - bare_ms)


def measure_stdout(server: McpProcess, samples: Samples, plan: Plan) -> None:
    line = "x" * 99
    small = f"for _ in range({plan.small_prints}): print({line!r})"
    megabytes = plan.small_prints * 100 / 1e6
    took_ms = elapsed_ms(lambda: server.cell(small, max_output_chars=1000))
    samples.add("stdout_small", megabytes / (took_ms / 1000))

    blocks = plan.big_write_mb * 1_000_000 // 65536
    big = "import os\nblock = b'y' * 65535 + b'\\n'\n"
    big += f"for _ in range({blocks}): n = os.write(1, block)"
    took_ms = elapsed_ms(lambda: server.cell(big, max_output_chars=1000))
    samples.add("stdout_big", blocks * 65536 / 1e6 / (took_ms / 1000))


def measure_lost(server: McpProcess, samples: Samples, plan: Plan) -> None:
    samples.add(
        "lost", sum(loses_output(server, number) for number in range(plan.lost_cells_a_round))
    )


def loses_output(server: McpProcess, number: int) -> bool:
    """Whether an answer differs from what its cell printed. An error or a timeout also differs."""
    try:
        return server.cell(f"print('output', {number})", timeout=LOST_AFTER_S) != f"output {number}"
    except BenchmarkError:
        return True


def open_sessions(
    program: LineProgram, samples: Samples, plan: Plan, key: str, memory_key: str
) -> None:
    """Further sessions in a program that has one already, which has made it warm."""
    before_mb = program.memory_mb()
    for _ in range(plan.sessions):
        samples.add(key, *program.ask_ms("new"))
    samples.add(memory_key, (program.memory_mb() - before_mb) / plan.sessions)


def measure_sessions(contender: Contender, samples: Samples, plan: Plan) -> None:
    if contender.sessions:
        with contender.start_program(contender.sessions) as program:
            program.ask_ms("new")
            open_sessions(program, samples, plan, "start_warm", "memory_further")


def measure_sdk(contender: Contender, samples: Samples, plan: Plan) -> None:
    with contender.start_program(contender.sdk) as program:
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
