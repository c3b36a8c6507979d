# SPDX-License-Identifier: Apache-2.0
"""Branches of kernels (branching.py of the kernel host): what is equal, mended, refused, warned of.

Packages that the environment of tests lacks are represented by modules of the same shape.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_driver import SHUTDOWN, BranchRefused, Forkserver, Kernel
from meeting import wait_until_reaped

STATE = """
import asyncio, concurrent.futures, os, random, re, sqlite3, sys, tempfile, threading
import numpy
values = {"list": [1, [2]], "re": re.compile("a+")}
values["self"] = values
class Point:
    x = 3
    def twice(self): return self.x * 2
point = Point()
def numbers():
    n = 0
    while True:
        n += 1
        yield n
counter = numbers(); next(counter)
database = sqlite3.connect(":memory:")
database.execute("create table t (x)"); database.execute("insert into t values (7)")
random.seed(5); numpy.random.seed(6); generator = numpy.random.default_rng(7)
array = numpy.arange(1000).reshape(10, 100)
os.environ["OWN"] = "variable"
os.chdir("/")
"""
LOOK = """
(values["list"], values["self"] is values, values["re"].pattern, point.twice(), next(counter),
 database.execute("select x from t").fetchone(), random.random(), float(numpy.random.random()),
 float(generator.random()), float((array @ array.T).sum()), os.environ["OWN"], os.getcwd(),
 len(In), sorted(name for name in sys.modules if name.startswith("numpy."))[:5])
"""


@pytest.fixture
def server(ipybox: str) -> Iterator[Forkserver]:
    server = Forkserver(branching=Path(ipybox).with_name("ipybox-enter.so"))
    server.wait_for("ready")
    yield server
    if server.control.fileno() >= 0:
        server.stop()


@pytest.fixture
def kernel(server: Forkserver) -> Kernel:
    kernel = server.kernel()
    kernel.forked()
    return kernel


def value(kernel: Kernel, code: str) -> str | None:
    cell = kernel.run(code)
    assert cell.status == "ok", cell.events
    return cell.result


def reasons(server: Forkserver, kernel: Kernel) -> str:
    with pytest.raises(BranchRefused) as caught:
        server.branch(kernel)
    return "; ".join(caught.value.reasons)


def files_of(pid: int) -> dict[str, str]:
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[name] = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
    return found


# What is equal


def test_state(server: Forkserver, kernel: Kernel) -> None:
    value(kernel, STATE)
    first = server.branch(kernel)
    second = server.branch(first)
    looks = [value(each, LOOK) for each in (kernel, first, second)]
    assert looks[0] == looks[1] == looks[2]
    value(first, "values['list'].append('first'); point.x = 4; del array")
    assert value(kernel, "values['list'], point.x, array.shape") == "([1, [2]], 3, (10, 100))"
    assert value(second, "values['list'], point.x, array.shape") == "([1, [2]], 3, (10, 100))"


def test_identity(server: Forkserver, kernel: Kernel) -> None:
    code = "import os; (os.getpid(), os.getppid(), os.getsid(0), os.environ['IPYBOX_KERNEL_ID'])"
    value(kernel, code)
    branch = server.branch(kernel, env={"TOKEN": "of the branch"})
    pid = server.process.pid
    assert value(kernel, code) == f"({kernel.pid}, {pid}, {kernel.pid}, '{kernel.id}')"
    assert value(branch, code) == f"({branch.pid}, {pid}, {branch.pid}, '{branch.id}')"
    assert value(branch, "os.environ['TOKEN']") == "'of the branch'"
    entry = f"IPYBOX_KERNEL_ID={branch.id}".encode()
    assert entry in Path(f"/proc/{branch.pid}/environ").read_bytes().split(b"\0")


def test_seed(server: Forkserver, kernel: Kernel) -> None:
    code = "import random, numpy; (random.random(), float(numpy.random.random()))"
    value(kernel, code)
    numbers = [value(server.branch(kernel, seed=seed), code) for seed in (None, 1, 1, 2)]
    assert value(kernel, code) == numbers[0]
    assert numbers[1] == numbers[2]
    assert len(set(numbers)) == 3


def test_history(server: Forkserver, kernel: Kernel) -> None:
    value(kernel, "'first'")
    value(kernel, "'second'")
    branch = server.branch(kernel)
    assert value(branch, "Out[1], _, In[1]") == "('first', 'second', \"'first'\")"
    assert branch.run("1").done["execution_count"] == 4
    assert kernel.run("1").done["execution_count"] == 3


def test_output(server: Forkserver, kernel: Kernel) -> None:
    """Text and frames of each go to its own pipes, in order, also what user code has kept."""
    kernel.run("import logging, os, sys; kept = sys.stdout; copy = os.dup(1); print('begin')")
    branch = server.branch(kernel)
    code = (
        "print('a'); display('b'); print('c', file=sys.stderr); print('d', file=kept)\n"
        "os.write(copy, b'e\\n')\n!echo f"
    )
    for each in (branch, kernel):
        cell = each.run(code)
        assert (cell.stdout, cell.stderr) == ("a\nd\ne\nf\n", "c\n")
        assert len(cell.displays) == 1


# Ends


def test_forerunner_ends_first(server: Forkserver, kernel: Kernel) -> None:
    value(kernel, "import subprocess; child = subprocess.Popen(['sleep', '1000']); x = 1")
    child = int(value(kernel, "child.pid") or 0)
    branch = server.branch(kernel)
    server.end(kernel)
    assert not Path(f"/proc/{child}").exists()
    assert value(branch, "x") == "1"
    branch.send_frame(SHUTDOWN, {})
    assert server.wait_for_exit(branch)["status"] == 0


def test_death_with_forkserver(server: Forkserver, kernel: Kernel) -> None:
    value(kernel, "1")
    branch = server.branch(kernel)
    server.process.send_signal(signal.SIGKILL)
    branch.read_to_end()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{branch.pid}").exists():
        state = Path(f"/proc/{branch.pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        assert time.monotonic() < deadline


def test_processes_of_a_branch_end_with_it(server: Forkserver, kernel: Kernel) -> None:
    value(kernel, "1")
    branch = server.branch(kernel)
    code = "import os, subprocess; subprocess.Popen(['setsid', 'sleep', '1000']).pid"
    child = int(value(branch, code) or 0)
    server.end(branch)
    assert not Path(f"/proc/{child}").exists()
    assert value(kernel, "2") == "2"


def test_unadopted_branch_ends_with_its_wire(server: Forkserver, kernel: Kernel) -> None:
    value(kernel, "1")
    orphan = Kernel(server, 1000, kernel)
    pid = kernel.wait_for("branched")["pid"]
    orphan.wire.close()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    server.send({"op": "adopt", "id": 1000, "pid": pid, "inodes": [1, 2]})
    answer, _ = server.wait_for("fork_failed", id=1000)
    assert "ChildProcessError" in answer["error"]
    orphan.wire = socket.socketpair()[0]
    orphan.close()


@pytest.mark.parametrize("step", range(6))
def test_end_of_the_core_at_each_step(server: Forkserver, kernel: Kernel, step: int) -> None:
    """A core that is killed closes all descriptors. Then no process is left."""
    value(kernel, "x = bytearray(10_000_000)")
    branch = Kernel(server, 1000, kernel)
    server.kernels.append(branch)
    pids = {server.process.pid, kernel.pid}
    for number, action in enumerate(
        [
            lambda: pids.add(kernel.wait_for("branched")["pid"]),
            lambda: server.send(
                {
                    "op": "adopt",
                    "id": branch.id,
                    "pid": max(pids - {server.process.pid, kernel.pid}),
                    "inodes": [os.fstat(pipe).st_ino for pipe in branch.pipes],
                }
            ),
            branch.forked,
            branch.send_start,
            lambda: branch.wait_for("hello"),
        ]
    ):
        if number < step:
            action()
    for each in (kernel, branch):
        each.close()
    assert server.stop() == 0
    # One of which the pid is not known yet is found by the fixture `place`.
    for pid in pids:
        wait_until_reaped(pid)


@pytest.mark.parametrize("pid", [1, 0, -1])
def test_adoption_of_others_is_refused(server: Forkserver, kernel: Kernel, pid: int) -> None:
    server.send({"op": "adopt", "id": 77, "pid": pid, "inodes": [1, 2]})
    server.wait_for("fork_failed", id=77)
    server.send({"op": "adopt", "id": 78, "pid": kernel.pid, "inodes": [1, 2]})
    answer, _ = server.wait_for("fork_failed", id=78)
    assert "is a kernel already" in answer["error"]
    assert value(kernel, "1") == "1"


def test_many(server: Forkserver, kernel: Kernel) -> None:
    """100 branches come and go: descriptors and threads stay as they were."""
    value(kernel, "import numpy; numpy.ones(10) @ numpy.ones(10); x = 1")
    server.end(server.branch(kernel))
    before = files_of(kernel.pid), files_of(server.process.pid).keys()
    for _ in range(100):
        server.end(server.branch(kernel))
    assert (files_of(kernel.pid), files_of(server.process.pid).keys()) == before
    branch = server.branch(kernel)
    kinds = sorted(target.split(":")[0] for target in files_of(branch.pid).values())
    assert kinds == sorted(target.split(":")[0] for target in files_of(kernel.pid).values())
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    assert sorted(map(int, children.split())) == sorted([kernel.pid, branch.pid])


def test_user_code_sees_no_child(server: Forkserver, kernel: Kernel) -> None:
    value(
        kernel,
        "import os, signal\nends = []\nsignal.signal(signal.SIGCHLD, lambda *_: ends.append(1))",
    )
    server.end(server.branch(kernel))
    assert value(kernel, "ends") == "[]"
    assert kernel.run("os.waitpid(-1, os.WNOHANG)").errors[0]["ename"] == "ChildProcessError"


def test_handlers_of_libraries(server: Forkserver, kernel: Kernel) -> None:
    """What runs after a fork in the parent runs in the kernel: threads that it starts live on."""
    value(
        kernel,
        "import ctypes, os\nparents, children = [], []\nNOTE = ctypes.CFUNCTYPE(None)\n"
        "notes = [NOTE(lambda: parents.append(os.getpid())),\n"
        "         NOTE(lambda: children.append(os.getpid()))]\n"
        "ctypes.CDLL(None).__register_atfork(None, notes[0], notes[1], None)",
    )
    branch = server.branch(kernel)
    assert value(branch, "parents, children") == f"([], [{branch.pid}])"
    assert value(kernel, "parents, children") == f"([{kernel.pid}], [])"
    deep = server.branch(branch)
    assert value(deep, "parents, children") == f"([], [{branch.pid}, {deep.pid}])"
    fork = "pid = os.fork()\nif pid == 0: os._exit(7)\nos.waitpid(pid, 0)[1] >> 8, len(parents)"
    assert value(kernel, fork) == "(7, 2)"


def test_positions_of_files(server: Forkserver, kernel: Kernel, tmp_path: Path) -> None:
    """A file that is open for reading only has a position in each, also if it was removed."""
    value(
        kernel,
        f"import os; path = {str(tmp_path / 'data')!r}; _ = open(path, 'w').write('abcdef')\n"
        "fd = os.open(path, os.O_RDONLY); os.unlink(path); os.read(fd, 2)",
    )
    branch = server.branch(kernel)
    assert branch.warnings == []
    for each in (branch, kernel):
        assert value(each, "os.read(fd, 2), os.get_inheritable(fd)") == "(b'cd', False)"


# What is mended


def test_tasks(server: Forkserver, kernel: Kernel) -> None:
    value(
        kernel,
        "import asyncio, threading\nn = 0\n"
        "async def count():\n    global n\n    while True:\n"
        "        await asyncio.sleep(0.01)\n        n += 1\n"
        "task = asyncio.ensure_future(count())",
    )
    branch = server.branch(kernel)
    assert any("asyncio tasks run on" in warning for warning in branch.warnings)
    rises = "m = n\nwhile n < m + 3: await asyncio.sleep(0.01)\n'rises'"
    for each in (branch, kernel, branch):
        assert value(each, rises) == "'rises'"
    # Calls from threads wake the loop by its own self-pipe.
    wake = (
        "loop = asyncio.get_running_loop(); done = asyncio.Event()\n"
        "t = threading.Thread(target=loop.call_soon_threadsafe, args=(done.set,)); t.start()\n"
        "await done.wait(); t.join(); await asyncio.to_thread(lambda: 5)"
    )
    assert value(branch, wake) == value(kernel, wake) == "5"


def test_signal_handler_of_the_loop(server: Forkserver, kernel: Kernel) -> None:
    value(
        kernel,
        "import asyncio, os, signal\ngot = asyncio.Event()\n"
        "asyncio.get_event_loop().add_signal_handler(signal.SIGUSR1, got.set)",
    )
    branch = server.branch(kernel)
    code = "os.kill(os.getpid(), signal.SIGUSR1)\nawait got.wait()\ngot.clear()\n'got'"
    for each in (branch, kernel):
        assert value(each, code) == "'got'"


def test_idle_thread_pool(server: Forkserver, kernel: Kernel) -> None:
    value(
        kernel,
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\n"
        "sum(pool.map(abs, range(10)))",
    )
    branch = server.branch(kernel)
    for each in (branch, kernel, server.branch(branch)):
        assert value(each, "sum(pool.map(abs, range(10)))") == "45"
    assert value(branch, "pool.shutdown(); 'shut down'") == "'shut down'"
    assert value(kernel, "pool.submit(abs, -1).result()") == "1"


def test_exit_handlers(server: Forkserver, kernel: Kernel, tmp_path: Path) -> None:
    """A branch does not run those of its forerunner, which may remove its files."""
    value(
        kernel,
        "import atexit, os, tempfile, pathlib\n"
        f"place = pathlib.Path({str(tmp_path)!r})\n"
        "temporary = tempfile.TemporaryDirectory(dir=place)\n"
        "atexit.register(lambda: (place / f'end-{os.getpid()}').touch())",
    )
    branch = server.branch(kernel)
    value(
        branch,
        "own = tempfile.TemporaryDirectory(dir=place, prefix='own')\n"
        "atexit.register(lambda: (place / 'branch-end').touch())",
    )
    branch.send_frame(SHUTDOWN, {})
    server.wait_for_exit(branch)
    assert value(kernel, "os.path.isdir(temporary.name)") == "True"
    kernel.send_frame(SHUTDOWN, {})
    server.wait_for_exit(kernel)
    assert {path.name for path in tmp_path.iterdir()} == {"branch-end", f"end-{kernel.pid}"}


def test_processes_of_user_code(server: Forkserver, kernel: Kernel) -> None:
    value(kernel, "import multiprocessing as mp, subprocess, os\nchild = subprocess.Popen('true')")
    branch = server.branch(kernel)
    assert any("child processes" in warning for warning in branch.warnings)
    assert value(branch, "subprocess.run(['echo', 'x'], capture_output=True).stdout") == "b'x\\n'"
    assert value(branch, "with mp.Pool(2) as pool: x = pool.map(abs, [-1])\nx") == "[1]"
    assert value(branch, "mp.active_children()") == "[]"
    fork = "pid = os.fork()\nif pid == 0: os._exit(7)\nos.waitpid(pid, 0)[1] >> 8"
    assert value(branch, fork) == value(kernel, fork) == "7"
    assert value(kernel, "child.wait()") == "0"


def test_tables_and_plots(server: Forkserver, kernel: Kernel) -> None:
    value(
        kernel,
        "import numpy, pandas, matplotlib.pyplot as plt\n"
        "table = pandas.DataFrame({'x': numpy.arange(1000.0)})\n"
        "fig, ax = plt.subplots(); _ = ax.plot(table.x)",
    )
    branch = server.branch(kernel)
    code = "float(table.x.rolling(3).mean().sum()), float(numpy.linalg.inv(numpy.eye(300))[0, 0])"
    for each in (branch, kernel):
        assert value(each, code) == "(498501.0, 1.0)"
        cell = each.run("fig")
        assert any("image/png" in shown["data"] for shown in [*cell.displays, *cell.results])


# What is refused, and warned of


def test_thread(server: Forkserver, kernel: Kernel) -> None:
    value(
        kernel,
        "import threading\nend = threading.Event()\n"
        "thread = threading.Thread(target=end.wait, name='worker')\nthread.start()",
    )
    assert reasons(server, kernel) == "the thread worker runs: join it first, or end it"
    value(kernel, "end.set(); thread.join()")
    assert value(server.branch(kernel), "thread.is_alive()") == "False"


def test_busy_thread_pool(server: Forkserver, kernel: Kernel) -> None:
    value(
        kernel,
        "import threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "end = threading.Event(); pool = ThreadPoolExecutor(1); future = pool.submit(end.wait)",
    )
    assert "of a ThreadPoolExecutor has work" in reasons(server, kernel)
    # The pool's own count of idle threads is too high then, in Python 3.11.
    value(kernel, "end.set(); sum(pool.map(abs, range(5))); end.clear(); f = pool.submit(end.wait)")
    assert "of a ThreadPoolExecutor has work" in reasons(server, kernel)
    value(kernel, "end.set(); f.result(); future.result()")
    assert value(server.branch(kernel), "pool.submit(abs, -3).result()") == "3"


@pytest.mark.parametrize(
    ("make", "reason", "close"),
    [
        (
            "import multiprocessing as mp; pool = mp.Pool(1)",
            "a multiprocessing pool is open",
            "pool.close(); pool.join()",
        ),
        (
            "from concurrent.futures import ProcessPoolExecutor\n"
            "pool = ProcessPoolExecutor(1); pool.submit(abs, -1).result()",
            "a ProcessPoolExecutor is open",
            "pool.shutdown()",
        ),
    ],
)
def test_process_pools(
    server: Forkserver, kernel: Kernel, make: str, reason: str, close: str
) -> None:
    value(kernel, make)
    assert reason in reasons(server, kernel)
    value(kernel, close)
    assert value(server.branch(kernel), "1") == "1"


def test_native_threads_that_hang(server: Forkserver, kernel: Kernel) -> None:
    """The threads of polars after a parallel query, known by their names."""
    value(
        kernel,
        "import ctypes, _thread, threading\nready, end = threading.Event(), threading.Event()\n"
        "def run():\n    ctypes.CDLL(None).prctl(15, b'polars-0', 0, 0, 0)\n"
        "    ready.set(); end.wait()\n"
        "_thread.start_new_thread(run, ()); ready.wait()",
    )
    assert "polars has run a parallel query" in reasons(server, kernel)
    value(kernel, "end.set()")


def test_running_cell(server: Forkserver, kernel: Kernel) -> None:
    kernel.execute("import asyncio; await asyncio.sleep(0.5); 5")
    assert reasons(server, kernel) == "a cell runs"
    kernel.finish()


def test_missing_library() -> None:
    server = Forkserver()
    server.wait_for("ready")
    kernel = server.kernel()
    assert "lacks the library" in reasons(server, kernel)
    assert value(kernel, "1") == "1"
    server.stop()


def test_warnings(server: Forkserver, kernel: Kernel, tmp_path: Path) -> None:
    assert server.branch(kernel).warnings == []
    path = tmp_path / "data.txt"
    value(
        kernel,
        "import signal, socket\n"
        f"file = open({str(path)!r}, 'w'); pair = socket.socketpair()\n"
        "signal.signal(signal.SIGALRM, signal.SIG_IGN); signal.setitimer(signal.ITIMER_REAL, 1000)",
    )
    branch = server.branch(kernel)
    text = "\n".join(branch.warnings)
    assert "2 open sockets are shared" in text
    assert str(path) in text
    assert "ITIMER_REAL" in text
    assert value(branch, "signal.getitimer(signal.ITIMER_REAL)") == "(0.0, 0.0)"


def test_broken_state_is_refused(server: Forkserver, kernel: Kernel) -> None:
    """User code may have replaced what the checks use."""
    value(kernel, "import threading; kept = threading.enumerate; threading.enumerate = None")
    assert "not callable" in reasons(server, kernel)
    value(kernel, "threading.enumerate = kept")
    assert value(server.branch(kernel), "1") == "1"
