# SPDX-License-Identifier: Apache-2.0
"""The forkserver (python/ipybox/kernel_host): its start, its processes, and their ends."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from kernel_driver import SHUTDOWN, Forkserver

SITE_PACKAGES = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]


@pytest.fixture
def start():
    servers = []

    def start(**options):
        servers.append(Forkserver(**options))
        return servers[-1]

    yield start
    for server in servers:
        if server.control.fileno() >= 0:
            server.stop()


@pytest.fixture
def server(start):
    server = start()
    server.wait_for("ready")
    return server


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def status(pid, name):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.split()
    raise KeyError(name)


# Start


def test_ready_tells_versions(start):
    message, _ = start().wait_for("ready", "failed")
    assert message["version"] == 1 and message["executable"] == sys.executable
    assert (
        message["python"] == sys.version.split()[0] and int(message["ipython"].split(".")[0]) >= 8
    )


def test_missing_modules_are_named(start, tmp_path):
    server = start(flags=("-I", "-S"), site_packages=[str(tmp_path)])
    message, _ = server.wait_for("ready", "failed")
    assert message["op"] == "failed" and message["missing"] == ["IPython", "pydantic"]
    assert server.process.wait(60) == 0


def test_a_broken_ipython_is_told(start, tmp_path):
    (tmp_path / "IPython.py").write_text("raise RuntimeError('broken')")
    (tmp_path / "pydantic.py").write_text("")
    server = start(flags=("-I", "-S"), site_packages=[str(tmp_path)])
    message, _ = server.wait_for("ready", "failed")
    assert "broken" in message["error"] and message["missing"] == []


def test_without_site_nothing_of_site_packages_is_executed(start, tmp_path):
    evil, plain = tmp_path / "evil", tmp_path / "plain"
    evil.mkdir()
    plain.mkdir()
    (plain / "module_of_plain.py").write_text("x = 3")
    marker = tmp_path / "executed"
    (evil / "bad.pth").write_text(
        f"import os; open({str(marker)!r}, 'w')\n# a comment\n{plain}\n/does/not/exist\n"
    )
    (evil / "sitecustomize.py").write_text(f"open({str(marker)!r}, 'w')")
    server = start(flags=("-I", "-S"), site_packages=[*SITE_PACKAGES, str(evil)])
    server.wait_for("ready")
    kernel = server.kernel()
    assert kernel.run("import module_of_plain\nmodule_of_plain.x").result == "3"
    assert kernel.run("import sys\nsys.prefix").result == repr(sys.prefix)
    assert kernel.run("import sysconfig\nsysconfig.get_path('purelib')").result == repr(
        SITE_PACKAGES[0]
    )
    assert (
        kernel.run("'help' in dir(__builtins__), '/does/not/exist' in sys.path").result
        == "(True, False)"
    )
    cell = kernel.run(
        "import multiprocessing as m\n"
        "with m.get_context('spawn').Pool(1) as p: print(p.map(abs, [-1]))"
    )
    assert cell.stdout == "[1]\n"
    assert not marker.exists()


@pytest.mark.parametrize("flags", [("-I",), ("-I", "-S")])
def test_interpreters_that_libraries_start_find_what_any_would(start, tmp_path, flags):
    """They do not inherit the forkserver's flags.

    multiprocessing and joblib start such interpreters.
    """
    (tmp_path / "module_of_path.py").write_text("x = 3")
    server = start(flags=flags)
    server.wait_for("ready")
    kernel = server.kernel(env={"PYTHONPATH": str(tmp_path)})
    cell = kernel.run(
        "import subprocess, sys\n"
        "from multiprocessing.util import _args_from_interpreter_flags as flags\n"
        "subprocess.run([sys.executable, *flags(), '-c', 'import IPython, module_of_path as "
        "m; print(m.x)']);"
    )
    assert cell.order == ["3\n", "done"]


def test_without_site_the_interpreters_packages_are_found(start):
    server = start(flags=("-I", "-S"))
    server.wait_for("ready")
    kernel = server.kernel()
    assert kernel.run("import sys\nsys.path[-1]").result in {repr(path) for path in sys.path}
    assert kernel.run("sys.flags.no_site, sys.prefix").result == repr((1, sys.prefix))


def test_nothing_is_read_from_or_written_to_the_home(start, tmp_path):
    startup = tmp_path / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("from_startup = 1")
    (startup.parent / "ipython_config.py").write_text("c.InteractiveShell.separate_in = 'x'\n1/0")
    before = sorted(tmp_path.rglob("*"))
    server = start(env={"HOME": str(tmp_path)})
    server.wait_for("ready")
    server.wait_for("preloaded")
    kernel = server.kernel(env={"HOME": str(tmp_path)})
    assert kernel.run("'from_startup' in dir()").result == "False"
    kernel.run("1/0")
    kernel.run("%store x\n%history")
    assert sorted(tmp_path.rglob("*")) == before


def test_forks_asked_for_before_ready_wait(start):
    server = start()
    kernels = [server.fork() for _ in range(3)]
    for kernel in kernels:
        kernel.wait_for("hello")
    assert [message["op"] for message in server.other] == []
    for kernel in kernels:
        assert kernel.run("1").order[-2:] == ["result", "done"]


def test_preload(start):
    server = start(preload=("no_such_module", "json.tool", "wave"))
    server.wait_for("ready")
    message, _ = server.wait_for("preloaded")
    assert [failure["module"] for failure in message["failed"]] == ["no_such_module"]
    assert "ModuleNotFoundError" in message["failed"][0]["error"]
    kernel = server.kernel()
    assert kernel.run("import sys\n'wave' in sys.modules").result == "True"


def test_a_kernel_finds_what_was_installed_since(start, tmp_path):
    """Python lists a folder again when its modification time changed; the time may be too coarse
    for that.
    """
    server = start(
        flags=("-I", "-S"),
        site_packages=[*SITE_PACKAGES, str(tmp_path)],
        preload=("not_yet_there",),
    )
    server.wait_for("ready")
    server.wait_for("preloaded")  # the folder has been listed
    before = tmp_path.stat()
    (tmp_path / "not_yet_there.py").write_text("x = 3")
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert server.kernel().run("import not_yet_there\nnot_yet_there.x").result == "3"


def test_multiprocessing_forks_by_default(start, tmp_path):
    """Since 3.14 Python's own default is another one, whose children lack what cells define."""
    (tmp_path / "other_default.py").write_text(
        "from multiprocessing import context\ndefault = context._default_context\n"
        "default._default_context = default.get_context('forkserver')"
    )
    server = start(preload=("other_default",), site_packages=[str(tmp_path)])
    assert server.wait_for("preloaded")[0]["failed"] == []
    assert (
        server.kernel().run("import multiprocessing as mp\nmp.get_start_method()").result
        == "'fork'"
    )
    cell = server.kernel().run(
        "import multiprocessing as mp\nmp.set_start_method('spawn')\nmp.get_start_method()"
    )
    assert cell.result == "'spawn'"


def test_preload_of_numpy_leaves_no_thread_in_the_forkserver(start):
    pytest.importorskip("numpy")
    server = start(preload=("numpy", "numpy.random", "matplotlib.pyplot"))
    server.wait_for("ready")
    assert server.wait_for("preloaded")[0]["failed"] == []
    assert len(os.listdir(f"/proc/{server.process.pid}/task")) == 1
    first, second = server.kernel(), server.kernel()
    drawn = [
        kernel.run("import numpy\nfloat(numpy.random.rand())").result for kernel in (first, second)
    ]
    assert drawn[0] != drawn[1]
    # BLAS has as many threads again as it would have without a fork.
    expected = subprocess.run(
        [sys.executable, "-c", "import numpy, os; print(len(os.listdir('/proc/self/task')))"],
        capture_output=True, text=True, env={"HOME": "/nonexistent"},
    ).stdout  # fmt: skip
    assert first.run("import os\nprint(len(os.listdir('/proc/self/task')))").stdout == expected
    cell = first.run("import matplotlib.pyplot as plt\nplt.plot([1]);")
    assert cell.displays[0]["data"].keys() == {"text/plain", "image/png"}
    agg = server.kernel(env={"MPLBACKEND": "agg"})
    cell = agg.run("import matplotlib.pyplot as plt\nplt.plot([1]); print(plt.get_backend())")
    assert cell.stdout.lower() == "agg\n" and cell.displays == []


# What a kernel is


def test_environment_path_and_directory(start, tmp_path):
    stub, extra = tmp_path / "stub", tmp_path / "extra"
    (stub / "ipybox").mkdir(parents=True)
    (stub / "ipybox" / "__init__.py").write_text("is_stub = True")
    extra.mkdir()
    (tmp_path / "in_cwd.py").write_text("x = 1")
    server = start(stub_dir=str(stub))
    server.wait_for("ready")
    kernel = server.kernel(
        env={"OWN": "ä=1", "TERM": "xterm"}, cwd=str(tmp_path), path=(str(extra),)
    )
    kernel.run("import os, sys, subprocess")
    assert kernel.run("print(*sorted(set(os.environ) - {'PATH', 'HOME'}))").stdout == (
        "GIT_PAGER IPYBOX_KERNEL_ID MPLBACKEND NO_COLOR OWN PAGER TERM\n"
    )
    assert kernel.run(
        "os.environ['OWN'], os.environ['TERM'], os.environ['IPYBOX_KERNEL_ID']"
    ).result == (f"('ä=1', 'xterm', '{kernel.id}')")
    assert kernel.run("!echo $OWN").stdout == "ä=1\n"
    assert kernel.run("sys.path[:3] == " + repr([str(stub), str(extra), ""])).result == "True"
    assert kernel.run("os.getcwd()").result == repr(str(tmp_path))
    assert kernel.run("import ipybox, in_cwd\nipybox.is_stub, in_cwd.x").result == "(True, 1)"
    assert (
        kernel.run("sys.argv, sys.modules['__main__'].__dict__ is globals()").result
        == "([''], True)"
    )
    assert "ipybox_kernel" not in kernel.run("print(sys.path)").stdout


def test_process_of_a_kernel(server):
    kernel = server.kernel()
    kernel.forked()
    pid = kernel.pid
    assert os.getsid(pid) == os.getpgid(pid) == pid
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
    assert status(pid, "Threads") == ["1"]
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    fds = sorted(int(fd) for fd in os.listdir(f"/proc/{pid}/fd"))
    low = [fd for fd in fds if fd < 900]
    # Besides 0, 1 and 2 only those of the event loop.
    assert low[:3] == [0, 1, 2] and len(low) <= 6 and len(fds) - len(low) == 3
    shown = kernel.run(
        "import os, subprocess\nsubprocess.run(['ls', '/proc/self/fd'], stdout=1, close_fds=False);"
    ).stdout
    assert shown.split() == ["0", "1", "2", "3"]  # 3: ls itself
    ignored = int(status(pid, "SigIgn")[0], 16)
    assert not ignored & (1 << signal.SIGINT - 1) and not ignored & (1 << signal.SIGTERM - 1)


def test_seed(server):
    pytest.importorskip("numpy")
    code = "import random, numpy\nrandom.random(), float(numpy.random.rand())"
    results = [server.kernel(seed=seed).run(code).result for seed in (7, 7, 8, None, None)]
    assert results[0] == results[1] and len(set(results)) == 4


def test_a_directory_that_does_not_exist_ends_the_kernel(server):
    kernel = server.fork(cwd="/does/not/exist")
    text = b"".join(data for name, data in kernel.read_to_end() if name == "stderr").decode()
    assert "/does/not/exist" in text and text.startswith("ipybox kernel: the working directory")
    assert os.waitstatus_to_exitcode(server.wait_for_exit(kernel)["status"]) == 1


def test_a_kernel_is_independent_of_another(server):
    first, second = server.kernel(), server.kernel()
    first.run("x = 1\nimport os; os.environ['A'] = 'b'")
    cell = second.run("import os\n'x' in dir(), 'A' in os.environ")
    assert cell.result == "(False, False)"
    assert first.run("x").result == "1"


# Ends


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os; os._exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import ctypes; ctypes.string_at(1)", -signal.SIGSEGV),
        ("import os; os.abort()", -signal.SIGABRT),
    ],
)
def test_deaths_are_told(server, code, expected):
    kernel = server.kernel()
    kernel.execute(f"print('before')\n{code}")
    events = kernel.read_to_end()
    assert ("stdout", b"before\n") in events
    message = server.wait_for_exit(kernel)
    assert os.waitstatus_to_exitcode(message["status"]) == expected and message["oom_kill"] is False
    if expected == -signal.SIGSEGV:
        text = b"".join(data for name, data in events if name == "stderr").decode()
        assert "Segmentation fault" in text and "ipython-input" in text


def test_shutdown_runs_atexit_handlers(server):
    kernel = server.kernel()
    kernel.run("import atexit\natexit.register(print, 'bye')\nprint('x', end='');")
    kernel.send_frame(SHUTDOWN, {})
    assert ("stdout", b"bye\n") in kernel.read_to_end()
    assert server.wait_for_exit(kernel)["status"] == 0


def test_the_end_of_the_wire_ends_the_kernel(server):
    for prepare in ("1", "import asyncio\nt = asyncio.create_task(asyncio.sleep(1000))"):
        kernel = server.kernel()
        kernel.run(prepare)
        kernel.wire.close()
        assert os.WIFEXITED(server.wait_for_exit(kernel)["status"])


LEFTOVERS = {
    "background": "!sleep 1000 & echo $!",
    "own session": (
        "import subprocess\nprint(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid)"
    ),
    "forked": "import os, time\npid = os.fork()\nif not pid: time.sleep(1000)\nprint(pid)",
    "forked daemon": (
        "import os, time\nr, w = os.pipe()\n"
        "if not os.fork():\n    os.setsid()\n    pid = os.fork()\n"
        "    if pid: os.write(w, b'%d' % pid); os._exit(0)\n"
        "    os.closerange(0, 2000)\n    time.sleep(1000)\nprint(int(os.read(r, 100)))"
    ),
    "no environment": (
        "import subprocess\n"
        "print(subprocess.Popen(['setsid', 'env', '-i', 'sleep', '1000'], env={}).pid)"
    ),
    "deaf": (
        "import subprocess\ncommand = 'trap \"\" TERM INT HUP; sleep 1000 & echo $!; sleep 1000'\n"
        "p = subprocess.Popen(['sh', '-c', command], stdout=subprocess.PIPE, "
        "start_new_session=True)\n"
        "print(int(p.stdout.readline()))"
    ),
    "pool": (
        "import multiprocessing as mp\npool = mp.get_context('forkserver').Pool(1)\n"
        "pool.map(abs, [1])\n"
        "print(pool._pool[0].pid)"
    ),
}


@pytest.mark.parametrize("kind", LEFTOVERS)
def test_nothing_is_left_of_a_killed_kernel(server, kind):
    other = server.kernel()  # so that a process remains that the killed kernel did not start
    kernel = server.kernel()
    other_pid = int(other.run("!sleep 1000 & echo $!").stdout)
    pid = int(kernel.run(LEFTOVERS[kind]).stdout.split()[0])
    assert alive(pid)
    message = server.end(kernel)
    assert os.WTERMSIG(message["status"]) == signal.SIGKILL and message["oom_kill"] is False
    assert not alive(pid) and not alive(message.get("pid", 0))
    assert alive(other_pid) and other.run("1").result == "1"


def test_what_hides_completely_goes_with_the_last_kernel(server):
    kernel = server.kernel()
    pid = int(
        kernel.run(
            "import subprocess\n"
            "p = subprocess.Popen(['sh', '-c', 'echo $$; exec env -i sleep 1000 >&- 2>&-'],"
            "stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, start_new_session=True)\n"
            "print(int(p.stdout.readline()))"
        ).stdout
    )
    assert alive(pid)
    server.end(kernel)
    assert not alive(pid)


def test_leftovers_of_a_kernel_that_died_by_itself(server):
    kernel = server.kernel()
    pid = int(kernel.run("!sleep 1000 & echo $!").stdout)
    kernel.execute("import os; os._exit(0)")
    kernel.keep_pipes()  # it asks for new ones, because the program holds the old ones
    server.wait_for_exit(kernel)
    assert not alive(pid)


def test_a_kill_of_an_unknown_kernel_does_nothing(server):
    server.send({"op": "kill", "id": 99})
    assert server.kernel().run("1").result == "1"


def test_a_fork_without_descriptors_fails_and_that_is_all(server):
    server.send({"op": "fork", "id": 50})
    message, _ = server.wait_for("fork_failed")
    assert message["id"] == 50 and message["error"]
    assert server.kernel().run("1").result == "1"


@pytest.mark.parametrize("how", ["close", "SIGTERM"])
def test_the_end_of_the_forkserver_leaves_nothing(server, how):
    kernels = [server.kernel() for _ in range(3)]
    pids = [int(kernel.run("!setsid sleep 1000 & echo $!").stdout) for kernel in kernels]
    for kernel in kernels:
        kernel.forked()
        pids.append(kernel.pid)
    if how == "close":
        server.control.close()
    else:
        server.process.terminate()
    assert server.process.wait(60) == 0
    assert not any(alive(pid) for pid in pids)


def test_a_killed_forkserver_takes_its_kernels_along(server):
    kernel = server.kernel()
    kernel.forked()
    server.process.kill()
    server.process.wait()
    dead, _, _ = select.select([kernel.pidfd], [], [], 60)
    assert dead


def test_the_forkserver_ignores_sigint(server):
    kernel = server.kernel()
    server.process.send_signal(signal.SIGINT)
    assert kernel.run("1").result == "1" and server.kernel().run("2").result == "2"


def test_many_kernels(server):
    server.wait_for("preloaded")
    fds = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    kernels = [server.fork() for _ in range(30)]
    for kernel in kernels:
        kernel.wait_for("hello")
        kernel.take_events()
    for number, kernel in enumerate(kernels):
        kernel.execute(f"{number}")
    for number, kernel in enumerate(kernels):
        assert kernel.finish().result == str(number)
    for kernel in kernels:
        server.end(kernel)
    pid = server.process.pid
    assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""
    # It may have been reading one of its modules at the first count.
    assert len(os.listdir(f"/proc/{pid}/fd")) <= fds


def test_a_kernel_that_runs_out_of_memory(server):
    kernel = server.kernel()
    cell = kernel.run(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "x = bytearray(1 << 40)"
    )
    assert cell.errors[0]["ename"] == "MemoryError"
    assert kernel.run("1").result == "1"


# Descriptors in flight


def test_too_many_descriptors_in_flight(start):
    """Programs of the user may reach the system's limit for a while. The fork is reported later."""
    flags = ("--bounding-set", "-sys_resource,-sys_admin", sys.executable, "-I")
    # Root gives up what exempts it from the limit.
    server = start(python="setpriv", flags=flags) if os.geteuid() == 0 else start()
    server.wait_for("ready")
    pid = server.process.pid
    limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, limit[1]))
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        for _ in range(20):
            socket.send_fds(left, [b"x"], [0] * 8)
        kernel = server.fork()
        children = Path(f"/proc/{pid}/task/{pid}/children")
        while not children.read_text() and server.process.poll() is None:
            select.select([], [], [], 0.001)
    kernel.wait_for("hello")
