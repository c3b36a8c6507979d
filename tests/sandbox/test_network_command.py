# SPDX-License-Identifier: Apache-2.0
"""Attack suite C, reports: what `ipybox sandbox` reports of the network, and how what is allowed
can change.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import stat
import threading

import pytest
from box import Box, NetBox, make_settings

EVIL = ["curl", "-sS", "http://evil.test/"]
DENIED = (
    "operation not permitted: network-outbound evil.test:80: it is not in "
    'network.allowedDomains; to allow it, add "evil.test:80" there'
)
SETTINGS = make_settings(allowedDomains=["good.test"])


def test_denials_are_told_once_at_the_end(net: NetBox, user: str) -> None:
    script = (
        "curl -sS http://evil.test/ http://evil.test/ >/dev/null; "
        "curl -sS --noproxy '*' http://evil.test/ 2>/dev/null; echo last >&2"
    )
    done = net(["sh", "-c", script], SETTINGS, user=user)
    name = (
        "operation not permitted: dns evil.test: it is not in network.allowedDomains; "
        'to allow it, add "evil.test" there'
    )
    assert done.stderr.splitlines() == [
        "last",
        f"ipybox sandbox: {DENIED}",
        f"ipybox sandbox: {name}",
    ]
    assert net(["curl", "-sS", "http://good.test/"], SETTINGS, user=user).stderr == ""


def test_denials_are_told_at_once_with_debug(net: NetBox) -> None:
    # When the second one is answered, the denial of the first one has been reported.
    script = "for name in evil good; do curl -sS http://$name.test/ >/dev/null; done; echo last >&2"
    done = net(["sh", "-c", script], SETTINGS, flags=("--debug",))
    assert done.stderr.splitlines() == [
        "ipybox sandbox: the sandbox is ready",
        f"ipybox sandbox: {DENIED}",
        "last",
    ]


def test_violation_log(net: NetBox) -> None:
    log = net.place.home / "violations"
    for _ in range(2):
        net(EVIL, SETTINGS, flags=("--violation-log", str(log)))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["what"], line["target"]) for line in lines] == [
        ("network-outbound", "evil.test:80")
    ] * 2
    assert lines[0].keys() == {"time", "what", "target", "reason"} and lines[0]["reason"] in DENIED
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    done = net(["touch", "ran"], SETTINGS, flags=("--violation-log", "/dev/null"))
    assert (
        done.returncode == 2
        and "not a regular file" in done.stderr
        and not (net.place.workspace / "ran").exists()
    )


def test_a_flood_of_denials_is_counted(net: NetBox) -> None:
    script = (
        "import urllib.request\n"
        "for n in range(200):\n"
        "    try: urllib.request.urlopen(f'http://n{n}.evil.test/')\n"
        "    except OSError: pass"
    )
    done = net(["/usr/bin/python3", "-c", script], SETTINGS)
    lines = done.stderr.splitlines()
    assert 16 < len(lines) < 40 and "more denials" in done.stderr


def test_ignored_violations(net: NetBox) -> None:
    assert "evil.test" in net(EVIL, SETTINGS).stderr
    for pattern, is_told in {"*": False, "curl": False, "wget": True}.items():
        done = net(EVIL, SETTINGS | {"ignoreViolations": {pattern: ["evil.test"]}})
        assert ("evil.test" in done.stderr) == is_told and "blocked" in done.stdout


def test_the_reason_of_the_configuration_is_told(net: NetBox) -> None:
    settings = make_settings(
        allowedDomains=["good.test"],
        deniedDomains=["evil.test", "good.test:22"],
        deniedDomainReasons={"evil.test": "ask Eve", "good.test:22": "use an https:// remote"},
    )
    done = net(EVIL, settings)
    assert "ask Eve" in done.stdout and "ask Eve" in done.stderr
    (said,) = net.attempts([["socks_text", "good.test", 22]], settings)
    assert said.startswith("SSH-2.0-") and "use an https:// remote" in said


def test_websockets(net: NetBox) -> None:
    rows = [
        ["websocket", "direct", "good.test"],
        ["websocket", "tunnel", "good.test"],
        ["websocket", "direct", "www.wild.test"],
    ]
    assert net.attempts(rows, SETTINGS) == ["hello", "hello", "unknown name"]


def test_sockets_of_the_host(box: Box) -> None:
    path = box.place.workspace / "host.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()

        def accept() -> None:
            for _ in range(2):
                with listener.accept()[0] as client:
                    client.sendall(b"host\n")

        thread = threading.Thread(target=accept)
        thread.start()
        connect = [
            "/usr/bin/python3",
            "-c",
            "import socket; s = socket.socket(socket.AF_UNIX); s.connect('host.sock'); "
            "print(s.recv(9))",
        ]
        denied = box(connect, make_settings())
        assert denied.returncode != 0 and "host" not in denied.stdout
        assert (
            " may not connect to the socket host.sock: " in denied.stderr
            and "network.allowUnixSockets" in denied.stderr
        )
        assert box(connect, make_settings(allowUnixSockets=[str(path)])).stdout == "b'host\\n'\n"
        assert box(connect, sandbox=False).stdout == "b'host\\n'\n"
        thread.join()
    path.unlink()


@pytest.mark.needs_root
def test_services_of_the_host(box: Box, user: str) -> None:
    """Docker's, for example: their sockets are where a sandbox has a directory of its own."""
    path = f"/run/ipybox-test-{os.getpid()}.sock"
    connect = [
        "/usr/bin/python3",
        "-c",
        f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({path!r}); "
        "print('connected')",
    ]
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(path)
            os.chmod(path, 0o777)
            listener.listen()
            denied = box(connect, make_settings(), user=user)
            assert "FileNotFoundError" in denied.stderr and denied.stdout == ""
            assert (
                box(connect, make_settings(allowAllUnixSockets=True), user=user).stdout
                == "connected\n"
            )
            assert box(connect, user=user, sandbox=False).stdout == "connected\n"
        finally:
            os.unlink(path)


def test_a_denial_in_the_words_of_srt(net: NetBox) -> None:
    done = net(["curl", "-sSi", "http://evil.test/"], SETTINGS)
    assert " 403 " in done.stdout and "X-Proxy-Error: blocked-by-sandbox-runtime" in done.stdout
    assert "Connection blocked by network allowlist" in done.stdout


def test_configurations_of_control_fd(net: NetBox) -> None:
    """A domain becomes allowed, and denied again, while the command runs."""
    good = shlex.quote(json.dumps(SETTINGS))
    closed = shlex.quote(json.dumps(make_settings()))
    inside = """until curl -sf http://good.test/ >/dev/null; do :; done; echo allowed
        echo allowed >step; while curl -sf http://good.test/ >/dev/null; do :; done; echo denied"""
    line = shlex.join(
        net.command(["sh", "-c", inside], make_settings(), flags=("--control-fd", "3"))
    )
    script = (
        f"mkfifo step; {{ echo nonsense; echo {good}; cat step; echo {closed}; }} "
        f"| {line} 3<&0 </dev/null; rm step"
    )
    done = net(["sh", "-c", script], sandbox=False)
    assert done.stdout == "allowed\ndenied\n", done.stderr
    assert "a line was dropped" in done.stderr


def test_a_control_fd_that_cannot_be(net: NetBox) -> None:
    for redirection, words in {
        "3</dev/null": "neither a pipe nor a socket",
        "3<&-": "not an open, readable descriptor",
    }.items():
        line = shlex.join(net.command(["touch", "ran"], flags=("--control-fd", "3")))
        done = net(["sh", "-c", f"{line} {redirection}"], sandbox=False)
        assert done.returncode == 2 and words in done.stderr
    assert not (net.place.workspace / "ran").exists()


def test_the_end_in_the_middle_of_a_transfer(net: NetBox) -> None:
    """The command ends while connections are open: nothing hangs, and nothing remains."""
    script = (
        "for n in 1 2 3; do (exec 3<>/dev/tcp/good.test/80; echo GET >&3; cat <&3) & done; "
        "(curl -sS http://good.test/ >/dev/null); exit 7"
    )
    assert net(["bash", "-c", script], SETTINGS).returncode == 7
    assert (
        net(
            ["bash", "-c", "curl -sS http://good.test/ >/dev/null & kill -9 $$"], SETTINGS
        ).returncode
        == 137
    )
