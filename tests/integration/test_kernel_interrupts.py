# SPDX-License-Identifier: Apache-2.0
"""Interrupts of the kernel host: they end a cell at any point, and end nothing else.

See test_kernel_host.py.
"""

from __future__ import annotations

import os
import select
import signal

import pytest
from kernel_driver import only_error


def interrupted(kernel, code, wait_for=b"started"):
    kernel.execute(code)
    kernel.wait_for_text(wait_for)
    kernel.interrupt()
    cell = kernel.finish()
    assert cell.status == "interrupted", cell.events
    (error,) = cell.errors
    assert "ipybox_kernel" not in error["traceback"]
    return error


@pytest.mark.parametrize(
    "code",
    [
        "import time\nprint('started')\ntime.sleep(1000)",
        "print('started')\nwhile True: pass",
        "import subprocess\nprint('started')\nsubprocess.run(['sleep', '1000'])",
        "!echo started; sleep 1000",
        "print('started')\nx = !sleep 1000",
        "%%bash\necho started\nsleep 1000 & wait",
        "import threading\nprint('started')\nthreading.Event().wait()",
        "print('started')\nwhile True: print('y' * 1000)",
        "import asyncio\nawait asyncio.sleep(0)\nprint('started')\nwhile True: pass",
    ],
)
def test_interrupt_of_a_sync_cell(kernel, code):
    kernel.run("x = 5")
    assert interrupted(kernel, code)["ename"] == "KeyboardInterrupt"
    assert kernel.run("print('next')\nx").stdout == "next\n"


def test_interrupt_of_an_async_cell(kernel):
    error = interrupted(
        kernel,
        (
            "import asyncio\nasyncio.get_running_loop().call_later(0.01, print, 'started')\n"
            "await asyncio.sleep(1000)"
        ),
    )
    assert error["ename"] == "CancelledError" and "await asyncio.sleep(1000)" in error["traceback"]
    cell = kernel.run("try:\n    await asyncio.sleep(0)\nfinally: print('clean')")
    assert cell.stdout == "clean\n"


def test_interrupt_when_a_task_holds_the_loop(kernel):
    kernel.execute(
        "import asyncio\nasync def hog():\n    print('started')\n    while True: pass\n"
        "t = asyncio.create_task(hog())\nawait asyncio.sleep(1000)"
    )
    kernel.wait_for_text(b"started")
    kernel.interrupt()
    kernel.wait_until_taken(signal.SIGINT)  # a second pending signal would be lost
    kernel.interrupt()
    assert kernel.finish().status == "interrupted"
    assert kernel.run("1").result == "1"


@pytest.mark.parametrize(
    "cell",
    [
        "await asyncio.gather(asyncio.to_thread(id, 1), coroutine())",
        "asyncio.create_task(coroutine())\nawait asyncio.sleep(1000)",
        "asyncio.get_running_loop().call_soon(function)\nawait asyncio.sleep(1000)",
    ],
)
def test_interrupt_once_when_something_holds_the_loop(kernel, cell):
    """After a timeout there is no second request."""
    kernel.run(
        "import asyncio\ndef function():\n    print('started')\n    while True: pass\n"
        "async def coroutine(): function()"
    )
    error = interrupted(kernel, cell)
    assert error["ename"] in ("KeyboardInterrupt", "CancelledError")
    assert kernel.run("await asyncio.sleep(0)\n1").result == "1"


def test_interrupt_ends_what_a_command_started(kernel, tmp_path):
    interrupted(kernel, f"%%bash\nsleep 1000 &\necho $! >{tmp_path}/pid\necho started\nsleep 1000")
    try:
        end = os.pidfd_open(int((tmp_path / "pid").read_text()))
    except ProcessLookupError:
        return
    # It was killed, but it may get the CPU late.
    assert select.select([end], [], [], 60)[0], "what it started lives on"
    os.close(end)


def test_interrupt_of_a_command_that_ignores_it(kernel):
    interrupted(kernel, "!trap '' INT; echo started; sleep 1000; sleep 1000")


def test_repetition_of_an_interrupt(kernel):
    """A repetition counts if the interrupt had no effect.

    It does not disturb a cell that is cleaning up.
    """
    kernel.execute("print('started')\nwhile True: pass")
    kernel.wait_for_text(b"started")
    kernel.repeat_interrupt()
    assert kernel.finish().status == "interrupted"
    kernel.execute(
        "import os, time\ntry:\n    print('started')\n    time.sleep(1000)\n"
        "finally:\n    print('cleaning')\n    time.sleep(0.2)\n    print('clean')"
    )
    kernel.wait_for_text(b"started")
    kernel.interrupt()
    kernel.wait_for_text(b"cleaning")
    for _ in range(5):
        kernel.repeat_interrupt()
    cell = kernel.finish()
    assert cell.status == "interrupted" and cell.stdout == "started\ncleaning\nclean\n"


def test_interrupt_of_an_idle_kernel_does_nothing(kernel):
    kernel.run("x = 1")
    for _ in range(5):
        kernel.interrupt()
    assert kernel.run("x").result == "1"


# IPython prints this if an assertion of its own fails while it formats a traceback. That happens
# seldom, for an interrupt between two lines of a cell.
NO_DETAILS = "Unexpected exception formatting exception. Falling back to standard exception\n"


def test_interrupts_at_any_moment_lose_no_cell(kernel):
    """Every second cell ends only by its interrupt; the others race with it and may end first."""
    kernel.forked()
    for number in range(200):
        is_endless = number % 2 == 1
        loop = "while True" if is_endless else f"for _ in range({number * 20})"
        kernel.execute(f"print({number}, 'a' * 100)\ndisplay({number})\n{loop}: pass")
        if is_endless:
            kernel.wait_for_text(f"{number} ".encode())
        kernel.interrupt()
        if number % 3 == 0:
            kernel.interrupt()
        cell = kernel.finish()
        text = f"{number} {'a' * 100}\n"
        values = [display["data"]["text/plain"] for display in cell.displays]
        if cell.status == "ok":
            assert not is_endless
            assert (cell.stdout, values, cell.errors) == (text, [str(number)], []), number
        else:
            assert cell.status == "interrupted", (number, cell.events)
            assert [error["ename"] for error in cell.errors] == ["KeyboardInterrupt"], number
            printed = cell.stdout.removesuffix(NO_DETAILS)
            assert text.startswith(printed), (number, cell.stdout, cell.stderr)
            assert values in ([], [str(number)]), number
    assert kernel.run("'fine'").result == "'fine'"


INTERRUPT_AT = """
import signal, sys
def interrupt_at(number, event_of):
    count = 0
    def on_event(frame, event, arg):
        nonlocal count
        if event in ("call", "c_return") and event_of(frame, event):
            count += 1
            if count == number:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)
    sys.setprofile(on_event)
class Begun:  # the cell after this one has
    def __init__(self): self.n = 0
    def __call__(self, frame, event):
        code = frame.f_code
        self.n += code.co_name == "enter" and code.co_filename.endswith("interrupts.py")
        return self.n == 1
"""


def test_an_interrupt_while_a_magic_is_loaded(kernel):
    """IPython loads its magics when a cell first seems to use one. It must complete that."""
    kernel.run(
        INTERRUPT_AT + "interrupt_at(1, lambda frame, event: frame.f_code.co_name == 'load_lazy')"
    )
    kernel.run("time.sleep(0)")  # %time exists
    kernel.run(
        "import sys, time; sys.setprofile(None)"
    )  # for an IPython that loads them at its start
    cell = kernel.run("time.sleep(0)")
    assert cell.status == "ok", cell.events


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "while True: x = [1, (2, 'a')]; display(x)",
        "import asyncio\nwhile True: await asyncio.sleep(0.0001)",
    ],
)
def test_an_interrupt_at_any_call_ends_the_cell(kernel, code):
    kernel.run(INTERRUPT_AT)
    kernel.forked()
    for number in range(1, 500, 7):
        kernel.run(f"interrupt_at({number}, Begun())")
        kernel.execute(code)
        kernel.expect_interrupt()
        cell = kernel.finish()
        assert cell.status == "interrupted" and len(cell.errors) == 1, (number, cell.events)
    assert kernel.run("1").result == "1"


def test_an_interrupt_at_any_call_loses_no_end(kernel):
    """The calls are those from the start of a cell that ends at once to long after its end."""
    kernel.run(INTERRUPT_AT + "import asyncio")
    statuses = set()
    for number in range(200, 800, 5):
        kernel.run(f"interrupt_at({number}, Begun())")
        cell = kernel.run("await asyncio.sleep(0)")
        names = [error["ename"] for error in cell.errors]
        expected = [[]] if cell.status == "ok" else [["KeyboardInterrupt"], ["CancelledError"]]
        assert names in expected, (number, cell.events)
        statuses.add(cell.status)
        kernel.run("sys.setprofile(None)")
    assert statuses == {"ok", "interrupted"}


def test_an_interrupt_in_a_finalizer_is_repeated(kernel):
    kernel.execute(
        "import signal\nclass Thing:\n    def __del__(self): signal.raise_signal(signal.SIGINT)\n"
        "thing = Thing()\ndel thing\nprint('going')\nwhile True: pass"
    )
    kernel.forked()
    kernel.wait_for_text(b"going")
    kernel.repeat_interrupt()
    assert kernel.finish().status == "interrupted"


def test_an_error_in_a_callback_is_not_the_cells(kernel):
    kernel.run("get_ipython().events.register('pre_execute', lambda: 1 / 0)")
    cell = kernel.run("print('on')\nx = 5")
    assert cell.status == "ok" and not cell.errors and "ZeroDivisionError" in cell.stderr
    cell = kernel.run("[][1]")
    assert cell.status == "error" and cell.errors[0]["ename"] == "IndexError"


def test_interrupt_while_nobody_reads_the_output(kernel):
    """A kernel that waits for a slow core can be interrupted. No byte is lost or doubled."""
    kernel.execute("import sys\nfor i in range(10**9): print(i)")
    kernel.wait_for_bytes(kernel.pipes[0], 1 << 15)
    kernel.interrupt()
    cell = kernel.finish()
    assert cell.status == "interrupted"
    numbers = cell.stdout.split()
    assert numbers == [str(i) for i in range(len(numbers))] and len(numbers) > 1000
    kernel.execute("for i in range(10**9): display('x' * 10000)")
    kernel.wait_for_bytes(kernel.wire.fileno(), 1 << 15)
    kernel.interrupt()
    cell = kernel.finish()
    assert cell.status == "interrupted"
    assert {len(display["data"]["text/plain"]) for display in cell.displays} == {10002}


def test_a_replaced_handler_lasts_one_cell(kernel):
    kernel.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    interrupted(kernel, "import time\nprint('started')\ntime.sleep(1000)")


def test_caught_interrupts_leave_the_cell_to_go_on(kernel):
    kernel.execute(
        "import time\ntry:\n    print('started')\n    time.sleep(1000)\n"
        "except KeyboardInterrupt: print('caught')"
    )
    kernel.wait_for_text(b"started")
    kernel.interrupt()
    cell = kernel.finish()
    assert cell.status == "ok" and cell.stdout == "started\ncaught\n"


def test_what_a_signal_handler_raises_between_cells_ends_nothing(kernel):
    """The alarm comes after the cell that set it."""
    kernel.run(
        "import os, signal, time\ndef expire(*_): raise TimeoutError('too late')\n"
        "signal.signal(signal.SIGALRM, expire)\nx = 1"
    )
    for _ in range(20):
        kernel.signal(signal.SIGALRM)
        kernel.wait_for_text(b"TimeoutError: too late\n")
        kernel.take_events()
    assert kernel.run("x").result == "1"
    assert only_error(kernel.run("os.kill(os.getpid(), signal.SIGALRM)"))["ename"] == "TimeoutError"
