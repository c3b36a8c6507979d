# SPDX-License-Identifier: Apache-2.0
"""`ipybox serve` reads its files again with SIGHUP. A bad file changes nothing."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from meeting import Meeting
from serve_driver import (
    TIMEOUT,
    Background,
    Certificate,
    Serve,
    Stateless,
    session_of,
    text_of,
    write_tokens,
)

ALICE, BOB, CAROL, NEW = ("a" * 32, "b" * 32, "c" * 32, "n" * 32)


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ipb-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


class Reloading(Serve):
    """Its log says when the files were read."""

    def __init__(self, ipybox, place, *options: str, **more):
        options = (*options, "--log-level=INFO")
        super().__init__(ipybox, place, *options, stderr=subprocess.PIPE, **more)

    def reload(self) -> str:
        self.process.send_signal(signal.SIGHUP)
        while line := self.process.stderr.readline().decode():
            if "read again" in line or "SIGHUP" in line:
                return line
        raise AssertionError("the server has ended")


def is_refusal(message: dict) -> bool:
    return "error" in message or message["result"]["isError"]


def test_principals(ipybox, place, directory):
    """One is removed, one is new, one has another token and keeps its session."""
    path = directory / "tokens"
    tokens = write_tokens(path, alice=ALICE, bob=BOB)
    (directory / "work/bob").mkdir(parents=True)
    begun = Meeting(directory / "work/bob/begun")
    with Reloading(ipybox, place, tokens, f"--workspace={directory / 'work'}") as server:
        alice, bob = server.client(ALICE), server.client(BOB)
        alice.cell("x = 5")
        cell = Background(lambda: bob.start_cell(f"{begun.code}\nwhile True: pass").messages())
        begun.wait()
        write_tokens(path, carol=CAROL, alice=NEW)
        assert "read again" in server.reload()
        assert all(is_refusal(message) for message in cell.result())
        assert bob.post("ping").status == 401
        assert alice.post("ping").status == 401
        alice.token = NEW
        assert alice.cell("x") == "5"
        carol = server.client(CAROL)
        assert carol.cell("import os; os.getcwd()") == repr(str(directory / "work/carol"))
        # Back again: a new session, in the same directory.
        write_tokens(path, bob=BOB, alice=NEW)
        assert "read again" in server.reload()
        assert bob.post("ping").status == 404
        assert server.client(BOB).cell("1") == "1"
        assert carol.post("ping").status == 401


def test_removed_principal_with_a_stateless_request(ipybox, place, directory):
    """Revision 2026-07-28: its request ends, and so do its sessions."""
    path = directory / "tokens"
    tokens = write_tokens(path, alice=ALICE, bob=BOB)
    (directory / "work/bob").mkdir(parents=True)
    begun = Meeting(directory / "work/bob/begun")
    with Reloading(ipybox, place, tokens, f"--workspace={directory / 'work'}") as server:
        alice, bob = Stateless(server, ALICE), Stateless(server, BOB)
        kept = session_of(alice.cell("x = 5"))
        lost = session_of(bob.cell("x = 6"))
        arguments = {"code": f"{begun.code}\nwhile True: pass", "session_id": lost}
        cell = Background(lambda: bob.call("execute_ipython_cell", arguments).messages())
        begun.wait()
        write_tokens(path, alice=ALICE)
        assert "read again" in server.reload()
        assert all(is_refusal(message) for message in cell.result())
        assert bob.call("execute_ipython_cell", {"code": "1"}).status == 401
        assert text_of({"result": alice.cell("x", session=kept)}) == "5"
        write_tokens(path, alice=ALICE, bob=BOB)
        assert "read again" in server.reload()
        gone = bob.cell("x", session=lost)
        assert gone["isError"] and "session" in gone["content"][0]["text"]


def test_bad_files_change_nothing(ipybox, place, directory):
    path, config, rules = (directory / name for name in ("tokens", "config", "rules"))
    tokens = write_tokens(path, alice=ALICE)
    good = {"filesystem": {"allowWrite": ["."], "denyWrite": [], "denyRead": []}, "network": {}}
    good["network"] = {"allowedDomains": [], "deniedDomains": []}
    config.write_text(json.dumps(good))
    rules.write_text('{"default": "deny"}')
    certificate, other = Certificate(directory), Certificate(directory, "other")
    options = [tokens, f"--sandbox-config={config}", f"--approve={rules}", *certificate.options]
    with Reloading(ipybox, place, *options, tls=certificate.context()) as server:
        alice = server.client(ALICE)
        alice.cell("x = 5")
        for file in (path, config, rules, certificate.path, certificate.key):
            kept = file.read_bytes()
            for content in (b"{", other.key.read_bytes()):
                file.write_bytes(content)
                line = server.reload()
                assert "nothing was changed" in line and str(file) in line, line
            # New sessions do not see the file that is there now.
            assert server.client(ALICE).cell("1") == "1"
            file.write_bytes(kept)
        path.chmod(0o644)
        assert "chmod 600" in server.reload()
        path.chmod(0o600)
        path.unlink()
        assert "nothing was changed" in server.reload()
        write_tokens(path, alice=ALICE)
        assert "read again" in server.reload()
        assert alice.cell("x") == "5"


def test_rules(ipybox, place, servers):
    """Sessions that begin later have the new rules."""
    rules = place.workspace / "rules.json"
    rules.write_text('{"default": "allow"}')
    call = (
        "from mcptools.time import get_current_time as g\n"
        "try:\n    print(g.run(g.Params(timezone='UTC')).timezone)\n"
        "except Exception as e:\n    print(e)"
    )
    with Reloading(ipybox, place, f"--approve={rules}", "--unsandboxed-kernels") as server:
        client = server.client()
        answer = client.call(
            "register_mcp_server", {"server_name": "time", "server_params": servers.time()}
        )
        assert not answer.messages()[-1]["result"].get("isError")
        assert client.cell(call) == "UTC"
        rules.write_text('{"default": "deny"}')
        assert server.client().cell(call) == "UTC"  # not read yet
        assert "read again" in server.reload()
        assert "UTC" not in server.client().cell(call)
        assert client.cell(call) == "UTC"


def test_sandbox_configuration(ipybox, place, directory):
    config = directory / "config"

    def write(*writable: str) -> None:
        config.write_text(
            json.dumps(
                {
                    "filesystem": {"allowWrite": [".", *writable], "denyWrite": [], "denyRead": []},
                    "network": {"allowedDomains": [], "deniedDomains": []},
                }
            )
        )

    target = directory / "target"
    target.mkdir()
    code = f"open({str(target / 'file')!r}, 'w').close()"
    write()
    with Reloading(ipybox, place, f"--sandbox-config={config}") as server:
        before = server.client()
        assert "Error" in before.cell(code)
        write(str(target))
        assert "Error" in server.client().cell(code)  # not read yet
        assert "read again" in server.reload()
        server.client().cell(code)
        assert (target / "file").exists()
        # Cells cannot change what is read next.
        write(str(directory))
        assert "read again" in server.reload()
        answer = server.client().cell(f"open({str(config)!r}, 'a').close()")
        assert "Error" in answer


def peer_certificate(server: Serve) -> str:
    return ssl.get_server_certificate(("127.0.0.1", server.port), timeout=TIMEOUT)


def test_certificate(ipybox, place):
    certificate, other = Certificate(place.home), Certificate(place.home, "other")
    first = certificate.path.read_text()
    with Reloading(ipybox, place, *certificate.options, tls=certificate.context()) as server:
        old = server.connection()
        old.request("GET", "/healthz")
        assert old.getresponse().read()
        assert peer_certificate(server) == first
        certificate.path.write_text(other.path.read_text())
        certificate.key.write_text(other.key.read_text())
        assert "read again" in server.reload()
        assert peer_certificate(server) == other.path.read_text()
        old.request("GET", "/healthz")  # on the connection that there is
        assert old.getresponse().status == 200
        old.close()
        server.tls = other.context()
        assert server.client().cell("1") == "1"


def test_lost_terminal(ipybox, place):
    """Without its terminal a server that was started there ends, as other programs do."""
    parent, child = pty.openpty()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [ipybox, "serve", f"--port={port}"],
        cwd=place.workspace,
        env=place.environ,
        stdin=child,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(child)
    assert json.loads(process.stdout.readline())["port"] == port
    process.send_signal(signal.SIGHUP)  # the terminal is there: it reads its files
    assert process.poll() is None
    os.close(parent)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0
    process.stdout.close()
    process.stderr.close()
