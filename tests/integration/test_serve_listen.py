# SPDX-License-Identifier: Apache-2.0
"""Where `ipybox serve` listens: Unix sockets, behind proxies, and sockets of a service manager."""

from __future__ import annotations

import grp
import os
import re
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest
from serve_driver import TIMEOUT, Certificate, Serve, activated, send_raw


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path: the name of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ipb-", dir="/var/tmp") as name:
        yield Path(name)


# --- Unix sockets ---------------------------------------------------------------------------------


def test_unix_socket(ipybox, place, directory):
    path = directory / "socket"
    with Serve(ipybox, place, f"--unix-socket={path}", unix=path) as server:
        assert server.line == {"unix_socket": str(path), "token": server.token}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        client = server.client()
        assert client.cell("6 * 7") == "42"
        assert server.request("GET", "/readyz", Host="evil.example").status == 403
        assert server.request("POST", body={}, Authorization=None).status == 401
        done = harness.run(
            ["curl", "-sS", "--unix-socket", str(path), "http://localhost/healthz"],
            place,
            timeout=TIMEOUT,
        )
        assert done.stdout == '{"status":"ok"}', done
    assert not path.exists()


def test_names_of_a_unix_socket(ipybox, place, directory):
    """A proxy passes on the name that its clients use."""
    path = directory / "socket"
    options = [f"--unix-socket={path}", "--allow-host=box.example.org"]
    with Serve(ipybox, place, *options, unix=path) as server:
        assert server.request("GET", "/healthz", Host="box.example.org").status == 200
        assert server.request("GET", "/healthz", Host="other.example.org").status == 403


def test_old_socket_is_replaced(ipybox, place, directory):
    path = directory / "socket"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with Serve(ipybox, place, f"--unix-socket={path}", unix=path) as server:
        assert server.client().cell("1") == "1"
        # A file that was put there later is not removed.
        path.unlink()
        path.write_text("mine")
    assert path.read_text() == "mine"


def test_paths_that_cannot_be_used(run_ipybox, ipybox, place, directory):
    path = directory / "socket"
    with Serve(ipybox, place, f"--unix-socket={path}", unix=path) as server:
        done = run_ipybox("serve", f"--unix-socket={path}")
        assert done.returncode == 1 and "another program listens" in done.stderr
        assert server.client().cell("1") == "1"
    path.write_text("x")
    open_to_all = directory / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for bad, words in {
        str(path): "is no socket",
        str(directory / "nosuch/socket"): "cannot open the directory",
        str(directory / ("x" * 100)): "1 to 107 bytes",
        str(open_to_all / "socket"): "all users can replace files",
    }.items():
        done = run_ipybox("serve", f"--unix-socket={bad}")
        assert done.returncode != 0 and words in done.stderr, done
    group = run_ipybox("serve", f"--unix-socket={directory / 'new'}", "--unix-socket-group=nosuch")
    assert group.returncode == 1 and "no group nosuch" in group.stderr
    assert path.read_text() == "x" and not (directory / "new").exists()


def test_group_of_a_unix_socket(ipybox, place, directory):
    path = directory / "socket"
    group = grp.getgrgid(os.getegid()).gr_name
    options = [f"--unix-socket={path}", f"--unix-socket-group={group}"]
    with Serve(ipybox, place, *options, unix=path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert path.stat().st_gid == os.getegid()


@pytest.mark.needs_root
def test_only_the_group_can_connect(ipybox, place, directory):
    directory.chmod(0o755)
    path = directory / "socket"
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    with Serve(ipybox, place, f"--unix-socket={path}", "--unix-socket-group=34567", unix=path):
        for groups, status in (([34567], 0), ([34568], 1)):
            done = subprocess.run(
                ["/usr/bin/python3", "-c", code],
                user=65534,
                group=65534,
                extra_groups=groups,
                cwd="/",
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
            assert done.returncode == status, done
            assert status == 0 or "PermissionError" in done.stderr


# --- behind a proxy -------------------------------------------------------------------------------


def test_named_proxies(ipybox, place):
    """Connections from other addresses are closed before a byte is read."""
    options = ["--host=0.0.0.0", "--behind-proxy=127.0.0.2", "--behind-proxy=127.1.0.0/16"]
    place.environ["IPYBOX_SERVE_TOKEN"] = "t" * 32
    with Serve(ipybox, place, *options, stderr=subprocess.PIPE) as server:
        server.token = "t" * 32
        for source in ("127.0.0.2", "127.1.2.3"):
            server.source = (source, 0)
            assert server.client().cell("1") == "1"
        health = f"GET /healthz HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode()
        for _ in range(3):
            try:
                assert send_raw(server.port, health) == b""
            except ConnectionError:
                pass
        # What a proxy says about its clients counts for nothing.
        server.source = ("127.0.0.2", 0)
        forwarded = {"X_Forwarded_Host": "localhost", "Forwarded": "host=localhost;for=127.0.0.1"}
        refused = server.request("GET", "/healthz", Host="evil.example", **forwarded)
        assert refused.status == 403
        assert server.request("GET", "/healthz", Host="127.0.0.1").status == 200
        server.process.send_signal(signal.SIGTERM)
        lines = server.process.stderr.read().decode()
    assert lines.count("from 127.0.0.1 was closed: --behind-proxy") == 1, lines


@pytest.mark.parametrize("own", [True, False])
def test_the_health_check_of_the_image_needs_its_own_address(ipybox, place, own):
    """With the arguments of docker/kubernetes.yaml: without the second address, the container would
    be unhealthy for ever."""
    manifest = (harness.ROOT / "docker/kubernetes.yaml").read_text()
    options = re.findall(r"^ +- (--(?:host|behind-proxy)=\S+)$", manifest, re.MULTILINE)
    assert options == ["--host=0.0.0.0", "--behind-proxy=10.0.0.0/8", "--behind-proxy=127.0.0.1"]
    place.environ["IPYBOX_SERVE_TOKEN"] = "t" * 32
    with Serve(ipybox, place, *options[: None if own else -1]) as server:
        script = [harness.ROOT / "docker/healthy", str(server.port)]
        done = subprocess.run(["bash", *script], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is own, done


# --- a service manager ----------------------------------------------------------------------------


def listen(address: tuple[str, int] = ("127.0.0.1", 0)) -> socket.socket:
    listener = socket.socket()
    listener.bind(address)
    listener.listen()
    return listener


def test_activation(ipybox, place, directory):
    """Clients may connect before the program runs. The variables go no further."""
    path = directory / "socket"
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(path))
    unix.listen()
    tcp = listen()
    early = socket.create_connection(tcp.getsockname(), timeout=TIMEOUT)
    early.sendall(
        f"GET /healthz HTTP/1.1\r\nHost: localhost:{tcp.getsockname()[1]}\r\n\r\n".encode()
    )
    with unix, tcp, Serve(ipybox, place, "--unsandboxed-kernels", sockets=[tcp, unix]) as server:
        assert server.port == tcp.getsockname()[1]
        assert early.recv(65536).startswith(b"HTTP/1.1 200 ")
        early.close()
        client = server.client()
        code = "import os; [n for n in os.environ if n.startswith(('LISTEN', 'NOTIFY'))]"
        assert client.cell(code) == "[]"
        server.unix = path
        assert server.request("GET", "/readyz").status == 200
    assert path.exists()  # it is the manager's


def test_variables_for_another_program(ipybox, place):
    """A program that a service starts is not meant."""
    place.environ |= {"LISTEN_PID": "1", "LISTEN_FDS": "1"}
    with Serve(ipybox, place) as server:
        assert server.client().cell("1") == "1"


def test_faulty_activation(ipybox, place, certificate_options):
    def start(sockets: list[socket.socket], *options: str) -> subprocess.CompletedProcess:
        command = activated(sockets, [ipybox, "serve", *options])
        return subprocess.run(
            command,
            pass_fds=[one.fileno() for one in sockets],
            env=place.environ,
            cwd=place.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    with listen(("0.0.0.0", 0)) as public, socket.socket() as silent, listen() as good:
        done = start([public])
        assert done.returncode == 2 and "--behind-proxy" in done.stderr, done
        for other in (silent, socket.socket(type=socket.SOCK_DGRAM)):
            with other:
                done = start([good, other])
            assert done.returncode == 2 and "descriptor 4 is no stream socket" in done.stderr, done
        done = start([good] * 5)
        assert done.returncode == 2 and "LISTEN_FDS" in done.stderr, done
    context, options = certificate_options
    with listen(("0.0.0.0", 0)) as public:
        with Serve(ipybox, place, *options, sockets=[public], tls=context) as server:
            assert server.client().cell("1") == "1"


@pytest.fixture
def certificate_options(place):
    certificate = Certificate(place.home)
    return certificate.context(), certificate.options


@pytest.mark.parametrize("is_abstract", [False, True])
def test_reports(ipybox, place, directory, is_abstract):
    """READY when clients can connect, RELOADING and READY with SIGHUP, STOPPING at the end."""
    name = f"@ipb-test-{os.getpid()}" if is_abstract else str(directory / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0") if is_abstract else name)
        manager.settimeout(TIMEOUT)
        place.environ["NOTIFY_SOCKET"] = name
        with Serve(ipybox, place) as server:
            assert manager.recv(4096) == b"READY=1"
            assert server.request("GET", "/readyz").status == 200
            server.process.send_signal(signal.SIGHUP)
            state, time = manager.recv(4096).split(b"\n")
            assert state == b"RELOADING=1"
            assert time.startswith(b"MONOTONIC_USEC=") and time.partition(b"=")[2].isdigit()
            assert manager.recv(4096) == b"READY=1"
            assert server.client().cell("1") == "1"
        assert manager.recv(4096) == b"STOPPING=1"


def test_no_manager(run_ipybox, ipybox, place, directory):
    place.environ["NOTIFY_SOCKET"] = str(directory / "nosuch")
    with Serve(ipybox, place) as server:
        assert server.client().cell("1") == "1"
    place.environ["NOTIFY_SOCKET"] = "nonsense"
    done = run_ipybox("serve", "--port=0")
    assert done.returncode == 2 and "NOTIFY_SOCKET" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--unix-socket=x", "--host=localhost"], "instead of --host"),
        (["--unix-socket=x", "--behind-proxy=10.0.0.1"], "instead of --host"),
        (["--unix-socket-group=x"], "needs --unix-socket"),
        (["--behind-proxy=proxy.example"], "is no address"),
        (["--behind-proxy=10.0.0.1/8"], "bits after its prefix"),
        (["--tools=nosuch"], "--tools: "),
        (["--images=nosuch"], "--images nosuch"),
    ],
)
def test_usage(run_ipybox, options, words):
    done = run_ipybox("serve", "--port=0", *options)
    assert done.returncode == 2 and words in done.stderr, done


def test_tool_options(ipybox, place):
    """As those of `ipybox mcp`."""
    options = ["--tools=execute_ipython_cell,reset", "--structured", "--images=path"]
    with Serve(ipybox, place, *options) as server:
        client = server.client()
        tools = client.post("tools/list").json()["result"]["tools"]
        assert {tool["name"] for tool in tools} == {"execute_ipython_cell", "reset"}
        answer = client.start_cell("6 * 7").messages()[-1]["result"]
        assert "42" in str(answer["structuredContent"])
