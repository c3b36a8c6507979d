# SPDX-License-Identifier: Apache-2.0
"""Attack suite C, Unix sockets: those of the host and of other sandboxes cannot be reached, even if
the address or the file changes while a connect() is checked. Names, addresses and protocols are
in test_network.py.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest
from box import Box, make_settings
from kernels import Kernels

# Only the listener's own last connection sends this.
END = b"the end"


@contextmanager
def host_listener(path: Path) -> Iterator[Callable[[], list[bytes]]]:
    """A service of the host. Calling the result ends it, and returns what was sent to it."""
    said: list[bytes] = []
    ends: Queue[None] = Queue()

    def heard() -> list[bytes]:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(f"/proc/self/fd/{itself}")
            last.send(END)
            ends.get(timeout=60)
        return said

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        # Whatever is done to the path.
        itself = os.open(path, os.O_PATH)
        listener.listen(64)

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    data = client.recv(100)
                if data == END:
                    ends.put(None)
                else:
                    said.append(data)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield heard
        finally:
            # Wakes the thread; close() alone would not.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            os.close(itself)
    path.unlink(missing_ok=True)


PRELUDE = """
import ctypes, errno, os, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
own = socket.socket(socket.AF_UNIX); own.bind("mine.sock"); own.listen(64)
def serve():
    while True: own.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
done = threading.Event()
"""

# Each tries a few thousand times to get a connection to host.sock past the check.
RACES = {
    "file": """
def swap():
    while not done.is_set(): libc.renameat2(-100, b"mine.sock", -100, b"host.sock", 2)
name = b"mine.sock"
""",
    "link": """
os.symlink("mine.sock", "a"); os.symlink("host.sock", "b")
def swap():
    while not done.is_set(): libc.renameat2(-100, b"a", -100, b"b", 2)
name = b"a"
""",
    "directory": """
os.mkdir("x"); os.mkdir("y"); os.link("host.sock", "y/sock"); os.link("mine.sock", "x/sock")
def swap():
    while not done.is_set(): libc.renameat2(-100, b"x", -100, b"y", 2)
name = b"x/sock"
""",
    "memory": """
def swap():
    while not done.is_set():
        ctypes.memmove(address[0], struct.pack("H", 1) + b"host.sock\\0", 12)
        ctypes.memmove(address[0], struct.pack("H", 1) + b"mine.sock\\0", 12)
name = b"mine.sock"
""",
}

CONNECT = """
address = [ctypes.create_string_buffer(struct.pack("H", 1) + name + b"\\0", 110)]
thread = threading.Thread(target=swap); thread.start()
n, n_tries, is_out, deadline = 0, 0, False, time.monotonic() + 60
# In a sandbox, as many times as given. Outside, until the host's socket is reached: the other
# thread may have to wait for its turn.
until_out = "until-out" in sys.argv
while n_tries < int(sys.argv[1]) or until_out and not is_out and time.monotonic() < deadline:
    n_tries += 1
    sock = socket.socket(socket.AF_UNIX)
    if libc.connect(sock.fileno(), address[0], 2 + len(name)) == 0:
        n += 1
        is_out |= sock.getpeername() != "mine.sock"
        try: sock.send(b"from inside")
        except OSError: pass
    sock.close()
done.set(); thread.join()
print(n, flush=True)
for name in ('mine.sock', 'host.sock', 'x/sock', 'y/sock'):
    try: os.unlink(name)
    except OSError: pass
os._exit(0)
"""


@pytest.mark.parametrize("race", RACES)
def test_races(box: Box, user: str, race: str) -> None:
    box.prepare(user)
    with host_listener(box.place.workspace / "host.sock") as heard:
        line = ["/usr/bin/python3", "-I", "-c", PRELUDE + RACES[race] + CONNECT, "1500"]
        done = box(line, make_settings(), user=user)
        assert done.returncode == 0, done.stderr
        # It reaches its own socket; otherwise nothing would be tried.
        assert int(done.stdout) > 0 and heard() == []


@pytest.mark.parametrize("race", RACES)
def test_races_without_a_sandbox(box: Box, race: str) -> None:
    """Positive control: both ends of the race can be reached."""
    with host_listener(box.place.workspace / "host.sock") as heard:
        box(
            ["/usr/bin/python3", "-I", "-c", PRELUDE + RACES[race] + CONNECT, "1500", "until-out"],
            sandbox=False,
        )
        assert b"from inside" in heard()


KINDS = {
    "stream": "socket.socket(socket.AF_UNIX)",
    "packets": "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)",
    "not blocking": "(lambda s: (s.setblocking(False), s)[1])(socket.socket(socket.AF_UNIX))",
}
NAMES = [
    "host.sock",
    "./host.sock",
    "../ws/host.sock",
    "/proc/self/cwd/host.sock",
    "link",
    "host.sock\\0more",
    "/proc/self/fd/{fd}",
]


def test_names_of_the_same_socket(box: Box, user: str) -> None:
    box.prepare(user)
    (box.place.workspace / "link").symlink_to("host.sock")
    with host_listener(box.place.workspace / "host.sock") as heard:
        script = f"""
import errno, json, os, socket
fd = os.open("host.sock", os.O_PATH)
def connect(kind, name):
    sock = eval(kind)
    try:
        sock.connect(name.format(fd=fd)); sock.send(b"x"); return "connected"
    except OSError as error:
        return errno.errorcode[error.errno]
print(json.dumps({{f"{{kind}} {{name!r}}": connect(kind, name)
                  for kind in {list(KINDS.values())!r} for name in {[*NAMES]!r}}}))
"""
        line = ["/usr/bin/python3", "-I", "-c", script.replace("\\\\0more", "\\0more")]
        inside = json.loads(box(line, user=user).stdout)
        assert set(inside.values()) <= {
            "EPERM",
            "EACCES",
            "EPROTOTYPE",
            "ENOENT",
            "ECONNREFUSED",
        }, inside
        assert heard() == []
        outside = json.loads(box(line, sandbox=False).stdout)
        assert list(outside.values()).count("connected") >= 10, outside
        assert b"x" in heard()


REPLACE = """
import os, socket, sys
for name in ("app.sock", "later.sock"):
    for replace in (lambda: os.symlink(sys.argv[1], "link"), lambda: os.rename("link", name)):
        try: replace()
        except OSError: pass
for name in ("app.sock", "later.sock", sys.argv[1]):
    sock = socket.socket(socket.AF_UNIX)
    try: sock.connect(name); sock.send(b"from inside"); print("connected")
    except OSError as error: print(error.strerror)
"""


@pytest.mark.parametrize("sandbox", [True, False])
def test_a_socket_that_is_allowed_stays_what_it_is(box: Box, user: str, sandbox: bool) -> None:
    """The socket, or its name while nothing exists there, must not be replaced by another one."""
    (box.place.root / "outside").mkdir()
    box.prepare(user)
    other = box.place.root / "outside/host.sock"
    with (
        host_listener(box.place.workspace / "app.sock") as heard_there,
        host_listener(other) as heard,
    ):
        settings = make_settings(allowUnixSockets=["./app.sock", "later.sock"])
        done = box(
            ["/usr/bin/python3", "-I", "-c", REPLACE, str(other)],
            settings,
            user=user,
            sandbox=sandbox,
        )
        if sandbox:
            assert done.stdout.splitlines() == [
                "connected",
                "Permission denied",
                "Permission denied",
            ], done.stderr
            assert (heard_there(), heard()) == ([b"from inside"], [])
        else:
            assert heard() == [b"from inside"] * 3


PUT_ASIDE = """
import os, socket
try: os.rename("above", "aside"); os.makedirs("above/hidden"); print("put aside")
except OSError as error: print(error.strerror)
sock = socket.socket(socket.AF_UNIX)
try: sock.connect("host.sock"); print("connected")
except OSError as error: print(error.strerror)
"""


@pytest.mark.parametrize("allow_write", [["."], ["/"]])
def test_a_file_system_of_its_own_that_is_put_aside(box: Box, allow_write: list[str]) -> None:
    """Sockets on a file system of the sandbox are its own.

    So what is above such a file system cannot be moved, to put a directory in its place.
    """
    (box.place.workspace / "above/hidden").mkdir(parents=True)
    box.prepare("user")
    with host_listener(box.place.workspace / "host.sock") as heard:
        settings = make_settings(allowWrite=allow_write, denyRead=["above/hidden"])
        done = box(["/usr/bin/python3", "-I", "-c", PUT_ASIDE], settings, user="user")
        assert done.stdout.splitlines() == ["Device or resource busy", "Permission denied"], (
            done.stderr
        )
        assert heard() == []
        assert box(
            ["/usr/bin/python3", "-I", "-c", PUT_ASIDE], user="user", sandbox=False
        ).stdout.endswith("connected\n")


def test_sockets_of_another_sandbox(box: Box, user: str) -> None:
    """Two sandboxes share a workspace, but not their sockets."""
    listen = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('a.sock'); s.listen(); "
        "print('ready', flush=True); s.accept()[0].send(b'hello')"
    )
    connect = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('a.sock'); "
        "print(s.recv(9).decode())"
    )
    command = box.command(["/usr/bin/python3", "-I", "-c", listen], user=user)
    options = {
        "cwd": box.place.workspace,
        "env": box.place.environ,
        "stdout": subprocess.PIPE,
        "text": True,
    }
    with subprocess.Popen(command, **options) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        denied = box(["/usr/bin/python3", "-I", "-c", connect], user=user)
        assert denied.returncode != 0 and "hello" not in denied.stdout
        # The control: without a sandbox it exists.
        assert box(["/usr/bin/python3", "-I", "-c", connect], sandbox=False).stdout == "hello\n"
        process.wait(60)
    (box.place.workspace / "a.sock").unlink()


RIGHTS = """
import array, os, socket
left, right = socket.socketpair()
if os.fork() == 0:
    socket.send_fds(left, [b"x"], [os.open("/tmp", os.O_PATH), os.open(".", os.O_RDONLY)])
    os._exit(0)
data, fds, _, _ = socket.recv_fds(right, 10, 10)
os.wait()
outside = []
for fd in fds:
    for name in ("../outside", "../../outside"):
        try: os.close(os.open(name, os.O_WRONLY, dir_fd=fd)); outside.append(name)
        except OSError: pass
print(len(fds), outside)
"""


def test_descriptors_that_are_handed_on(box: Box, user: str) -> None:
    """Such paths work inside, and lead no further than the process that uses them can go."""
    (box.place.root / "outside").write_text("x")
    (box.place.root / "outside").chmod(0o666)
    assert box(["/usr/bin/python3", "-I", "-c", RIGHTS], user=user).stdout == "2 []\n"
    assert (
        box(["/usr/bin/python3", "-I", "-c", RIGHTS], sandbox=False).stdout == "2 ['../outside']\n"
    )


# Disconnects the socket that is its standard input, and connects it to another service of the
# host's network.
AGAIN = """
import ctypes, socket, sys
stream = socket.socket(fileno=0)
failed = ctypes.CDLL(None).connect(0, (ctypes.c_char * 16)(), 16)
try:
    stream.connect(("127.0.0.1", int(sys.argv[1]))); print("connected")
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("sandbox", [True, False])
def test_a_connection_that_is_handed_in(box: Box, user: str, sandbox: bool) -> None:
    """As inetd and systemd do it: the socket belongs to the host's network, and stays connected as
    it is.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as asked,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        with socket.create_connection(asked.getsockname()), asked.accept()[0] as stream:
            command = ["/usr/bin/python3", "-I", "-c", AGAIN, str(other.getsockname()[1])]
            line = box.command(command, user=user) if sandbox else [*box.become(user), *command]
            done = subprocess.run(
                line,
                cwd=box.place.workspace,
                env=box.place.environ,
                stdin=stream,
                capture_output=True,
                text=True,
            )
    assert done.stdout == ("Permission denied\n" if sandbox else "connected\n"), done.stderr


@pytest.mark.parametrize("name", ["host.sock", "@abstract"])
def test_from_a_kernel(box: Box, user: str, name: str) -> None:
    kernel = Kernels(box, user)
    path = box.place.workspace / name
    address = f"\0{path}" if name == "@abstract" else str(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        if name != "@abstract":
            Path(address).chmod(0o777)
        listener.listen()
        code = (
            "import socket\n"
            "try:\n"
            f"    socket.socket(socket.AF_UNIX).connect({address!r}); print('connected')\n"
            "except OSError as error: print('denied')"
        )
        assert kernel.run(code).stdout == "denied\n"
        assert kernel.run(code, "--no-sandbox").stdout == "connected\n"
    if name != "@abstract":
        Path(address).unlink()
