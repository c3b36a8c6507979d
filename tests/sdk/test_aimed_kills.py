# SPDX-License-Identifier: Apache-2.0
"""The core is killed within each step of a fork, a checkpoint, a restore, an undo, and a commit.

No process may be left, and of a staged session only a layer that can be listed: with the files
before the step, or those after it. tests/unit/test-sandbox-linux-layer.c kills the thread that
works on the layer before each of its system calls; these tests do it to the main thread.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import harness
import pytest
from core_kills import kill_core_in_steps

# `make verify-long` does more.
N_POINTS = int(os.environ.get("IPYBOX_TEST_KILLS", "2"))

PROGRAM = """
import asyncio, sys
from ipybox import CodeExecutor
from ipybox.core import acquire_core

async def main():
    executor = CodeExecutor(OPTIONS)
    await executor.start()
    checkpoint = None
    PREPARE
    print(acquire_core().pid, flush=True)
    while sys.stdin.readline():
        STEP
        print("done", flush=True)

asyncio.run(main())
"""
# A step leaves what it needs to be done again.
PLAIN_STEPS = {
    "fork": "(branch,) = await executor.fork(); await branch.stop()",
    "checkpoint": "checkpoint = await executor.checkpoint(); await checkpoint.drop()",
    "restore": "await kept.restore()",
    "undo": "await executor.execute('x = 2'); await executor.undo()",
    "undo_on_error": "await executor.execute('1 / 0', undo_on_error=True)",
}
PLAIN_PREPARE = "await executor.execute('x = 1'); kept = await executor.checkpoint()"
WRITE = "for n in range(40): open(f'f{n}', 'w').write(str(VALUE))"
# Each begins with the files "2", and the files of the checkpoint are "1".
STAGED_STEPS = {
    "checkpoint": "checkpoint = await executor.checkpoint(); await checkpoint.drop()",
    "restore": "await kept.restore(); await new.restore()",
    "commit": "await executor.commit(); await executor.execute(WRITE.replace('VALUE', '3'))",
    "fork": "(branch,) = await executor.fork(); await branch.execute('1'); await branch.stop()",
    "fresh": "(branch,) = await kept.branch(); await branch.reset(); await branch.execute('1'); "
    "await branch.stop()",
}
STAGED_PREPARE = f"""WRITE = {WRITE!r}
    await executor.execute(WRITE.replace('VALUE', '1')); kept = await executor.checkpoint()
    await executor.execute(WRITE.replace('VALUE', '2')); new = await executor.checkpoint()"""

points = pytest.mark.parametrize("point", range(N_POINTS))


def make_program(options: str, prepare: str, step: str) -> str:
    if step.startswith("await executor.execute('1 / 0'"):
        step = f"try: {step}\n        except Exception: pass"
    return PROGRAM.replace("OPTIONS", options).replace("PREPARE", prepare).replace("STEP", step)


@pytest.mark.parametrize("sandbox", [False, True], ids=["plain", "sandbox"])
@pytest.mark.parametrize("step", PLAIN_STEPS)
@points
def test_kill(sandbox: bool, step: str, point: int) -> None:
    program = make_program(f"sandbox={sandbox}, undo=2", PLAIN_PREPARE, PLAIN_STEPS[step])
    kill_core_in_steps(program, N_POINTS, point)


def layers(home: harness.Place) -> set[Path]:
    place = Path(home.environ["XDG_STATE_HOME"]) / "ipybox/staged"
    return set(place.iterdir()) if place.exists() else set()


def run_changes(home: harness.Place, *arguments: str) -> str:
    done = subprocess.run(
        [home.environ["IPYBOX_BIN"], "changes", *arguments],
        env=home.environ,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("step", STAGED_STEPS)
@points
def test_kill_of_a_staged_session(
    step: str, point: int, home: harness.Place, workspace: Path
) -> None:
    before = layers(home)
    options = "sandbox=True, workspace_mode='staged'"
    kill_core_in_steps(make_program(options, STAGED_PREPARE, STAGED_STEPS[step]), N_POINTS, point)
    (layer,) = layers(home) - before
    (listed,) = [
        each
        for each in json.loads(run_changes(home, "list", "--json"))
        if each["name"] == layer.name
    ]
    assert "error" not in listed
    assert not (layer / "copies").exists()
    assert not (layer / "restoring").exists()
    names = [f"f{n}" for n in range(40)]
    if step == "commit":
        run_changes(home, "commit", layer.name, "--yes")
        seen = {(workspace / name).read_text() for name in names}
        assert seen <= {"2", "3"}  # a cell may have been writing
    else:
        seen = {(layer / "upper" / name).read_text() for name in names}
        assert len(seen) == 1 and seen <= {"1", "2"}
        run_changes(home, "discard", layer.name)
    assert not os.listdir(workspace) or step == "commit"
