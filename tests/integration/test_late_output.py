# SPDX-License-Identifier: Apache-2.0
"""Late output: what code writes and shows whose cell has ended. It belongs to that cell."""

from __future__ import annotations

from typing import Any

import pytest

# Each starts something in cell 1 that calls `work` when `go` is set.
STARTS = {
    "a thread": "threading.Thread(target=run).start()",
    "a subclass": (
        "class T(threading.Thread):\n    def run(self): run()\n"
        "    def start(self): super().start()\n"
        "T().start()"
    ),
    "a thread of a thread": (
        "threading.Thread(target=lambda: threading.Thread(target=run).start()).start()"
    ),
    "a timer": "threading.Timer(0, run).start()",
    "an executor": (
        "import concurrent.futures as f\npool = f.ThreadPoolExecutor(1)\npool.submit(run)"
    ),
    "to_thread": "import asyncio\ntask = asyncio.ensure_future(asyncio.to_thread(run))",
    "a task": (
        "import asyncio\nasync def wait():\n    while not go.is_set(): await asyncio.sleep(0.01)\n"
        "    work()\n    done.set()\ntask = asyncio.ensure_future(wait())"
    ),
    "a callback": (
        "import asyncio\nloop = asyncio.get_event_loop()\n"
        "def wait():\n    if not go.is_set(): return loop.call_later(0.01, wait)\n"
        "    work()\n    done.set()\nloop.call_later(0.01, wait)"
    ),
}
HEAD = (
    "import threading, sys\ngo, done = threading.Event(), threading.Event()\n"
    "def run():\n    go.wait(); work(); done.set()\n"
)
# The loop runs while the cell waits, and other threads do, too.
WAIT = "import asyncio\nprint('mine')\nwhile not done.is_set(): await asyncio.sleep(0.01)"


def texts(cell: Any) -> list[tuple[int, str, str]]:
    """The late text, joined for each cell and stream in a row."""
    joined: list[tuple[int, str, str]] = []
    for kind, frame in cell.events:
        if kind != "stream":
            continue
        key = frame["cell"], frame["name"]
        if joined and joined[-1][:2] == key:
            joined[-1] = (*key, joined[-1][2] + frame["text"])
        else:
            joined.append((*key, frame["text"]))
    return joined


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_it_belongs_to_the_cell_that_started_the_code(kernel, start):
    work = (
        "def work():\n    print('a', end=''); print('b')\n    print('c', file=sys.stderr)\n"
        "    sys.stdout.buffer.write('dé\\n'.encode())\n    display('e')\n"
        "    clear_output(wait=True)\n"
    )
    assert (
        kernel.run(f"from IPython.display import clear_output\n{HEAD}{work}{start}").status == "ok"
    )
    second = kernel.run(f"go.set()\n{WAIT}")
    assert second.stdout == "mine\n" and second.stderr == ""
    assert texts(second) == [(1, "stdout", "ab\n"), (1, "stderr", "c\n"), (1, "stdout", "dé\n")]
    shown = [frame for kind, frame in second.events if kind == "display"]
    assert [(frame["cell"], frame["data"]["text/plain"]) for frame in shown] == [(1, "'e'")]
    cleared = [frame for kind, frame in second.events if kind == "clear_output"]
    assert cleared == [{"cell": 1, "wait": True}]


def test_work_of_an_executor_belongs_to_the_cell_that_submits_it(kernel):
    kernel.run(f"import concurrent.futures as f\npool = f.ThreadPoolExecutor(1)\n{HEAD}")
    kernel.run("pool.submit(print, 'two').result()")
    third = kernel.run("pool.submit(print, 'three').result(); print('end')")
    assert third.stdout == "three\nend\n" and texts(third) == []


def test_a_thread_that_writes_during_its_own_cell_and_later(kernel):
    first = kernel.run(
        f"{HEAD}def work(): print('late')\n"
        "def both():\n    print('early'); early.set(); run()\n"
        "early = threading.Event()\nthreading.Thread(target=both).start()\nearly.wait()"
    )
    assert first.stdout == "early\n"
    second = kernel.run(f"go.set()\n{WAIT}")
    assert second.stdout == "mine\n"
    assert texts(second) == [(1, "stdout", "late\n")]


def test_threads_of_several_cells(kernel):
    for number in range(1, 4):
        kernel.run(
            f"import threading\nif {number} == 1: go, ends = threading.Event(), []\n"
            "def write(n):\n    go.wait()\n    for i in range(300): print(n, i)\n"
            f"t = threading.Thread(target=write, args=({number},)); t.start(); ends.append(t)"
        )
    fourth = kernel.run("go.set()\nfor t in ends: t.join()\nprint('end')")
    assert fourth.stdout == "end\n"
    for number in range(1, 4):
        text = "".join(text for cell, _, text in texts(fourth) if cell == number)
        assert text == "".join(f"{number} {i}\n" for i in range(300))


def test_an_update_of_a_display(kernel):
    kernel.run(
        f"{HEAD}h = display('a', display_id='x')\ndef work(): h.update('b')\n" + STARTS["a thread"]
    )
    second = kernel.run(f"go.set()\n{WAIT}")
    updates = [frame for kind, frame in second.events if kind == "update_display"]
    assert [(frame["cell"], frame["data"]["text/plain"]) for frame in updates] == [(1, "'b'")]


def test_an_exception_in_a_thread(kernel):
    kernel.run(f"{HEAD}def work(): done.set(); 1 / 0\n" + STARTS["a thread"])
    second = kernel.run(
        f"go.set()\n{WAIT}\nfor t in threading.enumerate():\n"
        "    if t is not threading.main_thread(): t.join()"
    )
    assert second.status == "ok" and second.stderr == ""
    ((cell, name, text),) = texts(second)
    assert (cell, name) == (1, "stderr") and "ZeroDivisionError" in text


def test_errors_of_a_write(kernel):
    kernel.run(
        f"{HEAD}failures = []\ndef work():\n    try: sys.stdout.write(1)\n"
        "    except TypeError as e: failures.append(str(e))\n    sys.stdout.write('\\ud800\\n')\n"
        + STARTS["a thread"]
    )
    second = kernel.run(f"go.set()\n{WAIT}\nprint(failures)")
    assert "must be str, not int" in second.stdout
    assert texts(second) == [(1, "stdout", "\\ud800\n")]


def test_a_large_text(kernel):
    kernel.run(f"{HEAD}def work(): print('x' * 5_000_000)\n" + STARTS["a thread"])
    second = kernel.run(f"go.set()\n{WAIT}")
    assert texts(second) == [(1, "stdout", "x" * 5_000_000 + "\n")]


def test_input_is_refused(kernel):
    kernel.run(
        f"{HEAD}def work():\n    try: input()\n    except Exception as e: print(e)\n"
        + STARTS["a task"]
    )
    second = kernel.run(f"go.set()\n{WAIT}", allow_stdin=True)
    ((cell, _, text),) = texts(second)
    assert cell == 1 and "its cell has ended" in text


def test_a_thread_that_c_code_started_belongs_to_the_cell_that_runs(kernel):
    kernel.run(
        "import _thread, threading\ngo, done = threading.Event(), threading.Event()\n"
        "def run():\n    go.wait(); print('c'); done.set()\n_thread.start_new_thread(run, ())"
    )
    assert kernel.run("go.set()\ndone.wait()").stdout == "c\n"
