# SPDX-License-Identifier: Apache-2.0
"""Attack suite F, the command: what a caller of `ipybox sandbox` sees: exit status, signals,
standard streams, srt's command line.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from box import Box, make_settings


def test_output_and_input_pass_through(box: Box, user: str) -> None:
    done = box(["sh", "-c", "cat; echo error >&2"], user=user, stdin="hello\n")
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n", "error\n", 0)


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 0", 0), ("exit 77", 77), ("kill -9 $$", 137), ("kill -TERM $$", 143)],
)
def test_exit_status(box: Box, user: str, command: str, status: int) -> None:
    assert box(["sh", "-c", command], user=user).returncode == status


def test_what_cannot_be_executed(box: Box, user: str) -> None:
    missing = box(["no-such-program"], user=user)
    assert missing.returncode == 127 and "no-such-program" in missing.stderr
    (box.place.workspace / "plain").write_text("text")
    assert box(["./plain"], user=user).returncode == 126


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_passed_on(box: Box, user: str, number: signal.Signals) -> None:
    script = (
        f"trap 'echo caught; exit 5' {number.name[3:]}; echo ready; "
        "while :; do sleep 60 & wait $!; done"
    )
    with subprocess.Popen(
        box.command(["bash", "-c", script], user=user),
        cwd=box.place.workspace,
        env=box.place.environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "caught\n"
        assert process.wait(60) == 5


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "echo a; echo b"],
        ["echo a; echo b"],
        ["--", "sh", "-c", "echo a; echo b"],
        ["-d", "sh", "-c", "echo a; echo b"],
    ],
)
def test_command_lines_of_srt(box: Box, words: list[str]) -> None:
    path = box.write_settings(make_settings())
    for flag in (["-s", path], ["--settings", path]):
        done = box([box.program("root"), "sandbox", *flag, *words], sandbox=False)
        assert (done.stdout, done.returncode) == ("a\nb\n", 0), done.stderr


def test_bad_settings_run_nothing(box: Box, workspace) -> None:
    settings = make_settings()
    settings["filesystem"]["denyReed"] = []
    done = box(["touch", "ran"], settings)
    assert (
        done.returncode == 2 and "filesystem.denyReed" in done.stderr and "denyRead" in done.stderr
    )
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(box: Box, closed: str) -> None:
    """The command gets no descriptor of ipybox's own in place of a closed stream, through which it
    could reach ipybox.
    """
    script = (
        "import json, os; json.dump([os.readlink(f'/proc/self/fd/{n}') for n in range(3)], "
        "open('streams', 'w'))"
    )
    line = box.command(["/usr/bin/python3", "-I", "-c", script])
    assert box(["sh", "-c", f'"$@" {closed}', "sh", *line], sandbox=False).returncode == 0
    streams = json.loads((box.place.workspace / "streams").read_text())
    assert not any("anon_inode" in stream or "socket" in stream for stream in streams), streams
    assert all(
        streams[n] == "/dev/null"
        for n, sign in enumerate(["<&-", ">&-", "2>&-"])
        if sign in closed.split()
    ), streams


@pytest.mark.parametrize("home", ["", "here"])
def test_a_home_directory_that_is_none(box: Box, home: str) -> None:
    box.place.environ["HOME"] = home
    done = box(["touch", "ran"])
    assert done.returncode == 2 and f'HOME) is not an absolute path: "{home}"' in done.stderr
    assert not (box.place.workspace / "ran").exists()


def test_a_current_directory_that_is_gone(box: Box) -> None:
    """A deleted directory has no name.

    Nothing is written to the path that is used otherwise, which is "/".
    """
    for line in box.command(["touch", "/var/tmp/made"]), [str(box.binary), "run", "-c", "print(1)"]:
        done = box(
            ["sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh", *line],
            sandbox=False,
        )
        assert (done.returncode, done.stdout) == (
            1,
            "",
        ) and "the current directory was removed" in done.stderr
    assert not Path("/var/tmp/made").exists()


def test_without_settings_nothing_is_writable(box: Box, workspace, user: str) -> None:
    box.prepare(user)
    line = [
        *box.become(user),
        box.program(user),
        "sandbox",
        "--",
        "sh",
        "-c",
        "echo x > here || echo denied; cat there",
    ]
    (workspace / "there").write_text("seen")
    done = box(line, sandbox=False)
    assert "denied" in done.stdout and not (workspace / "here").exists()
    assert "seen" in done.stdout


def test_what_ipybox_knows_of_servers_is_hidden(box: Box, user: str) -> None:
    """The registry and the tokens: a command needs no permission for them, but they give access to
    other systems.
    """
    token = box.place.state / "ipybox/oauth/token"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("secret")
    for path in (token, token.parent, token.parent.parent, box.place.state):
        path.chmod(0o755 if path.is_dir() else 0o644)
    command = ["cat", str(token)]
    assert box(command, user=user, sandbox=False).stdout == "secret"
    settings = make_settings(allowRead=[str(box.place.state)])
    done = box(command, settings, user=user)
    assert done.returncode != 0 and "secret" not in done.stdout


@pytest.mark.parametrize("fd", [0, 1])
def test_a_directory_as_a_standard_stream(box: Box, fd: int) -> None:
    """With a descriptor of the host's tree, names lead past all mounts, to hidden and to protected
    files.
    """
    redirect = f'exec "$@" {fd}<{box.place.state}'
    secret = box.place.state / "ipybox/servers.json"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("secret")
    command = ["sh", "-c", f"exec cat /proc/self/fd/5/ipybox/servers.json 5<&{fd} >&2"]
    control = box(["sh", "-c", redirect, "sh", *command], sandbox=False)
    assert control.stderr == "secret"
    done = box(["sh", "-c", redirect, "sh", *box.command(command)], sandbox=False)
    assert (
        done.returncode == 2
        and f"descriptor {fd} is a directory" in done.stderr
        and "secret" not in done.stderr
    )


CHANGE_LOG = """
echo forged >> logs/log; echo forged > logs/log; rm logs/log; mv logs/log other
ln -sf other logs/log
mv logs aside; mkdir logs
cat logs/log
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_violation_log_in_the_workspace(box: Box, user: str, is_there: bool) -> None:
    """Only ipybox reports what was denied. Without the option, the file is like any other."""
    logs = box.place.workspace / "logs"
    logs.mkdir()
    if is_there:
        (logs / "log").write_text("before\n")
        (logs / "log").chmod(0o644)
    box(["sh", "-c", CHANGE_LOG], user=user, flags=("--violation-log", "logs/log"))
    before = "before\n" if is_there else ""
    assert (logs / "log").read_text() == before and sorted(
        path.name for path in logs.parent.iterdir()
    ) == ["logs"]
    box(["sh", "-c", CHANGE_LOG], user=user)
    assert not (logs / "log").exists()


REGISTER = """
mkdir -p $XDG_STATE_HOME/ipybox $HOME/.local/share/ipybox/venv/bin
echo '{}' > $XDG_STATE_HOME/ipybox/servers.json
cp /bin/true $HOME/.local/share/ipybox/venv/bin/python3
echo '{}' > $HOME/.srt-settings.json
touch $XDG_STATE_HOME/plain $HOME/plain
"""


def test_what_ipybox_would_find_by_itself(box: Box, user: str) -> None:
    """Files that do not exist yet, where the command may write: the registry, the Python of
    kernels, the settings of the next command.
    """
    planted = [
        box.place.state / "ipybox/servers.json",
        box.place.home / ".local/share/ipybox",
        box.place.home / ".srt-settings.json",
    ]
    box(["sh", "-c", REGISTER], user=user, sandbox=False)
    assert all(path.exists() for path in planted)
    for path in (box.place.state / "ipybox", box.place.home / ".local"):
        shutil.rmtree(path)
    planted[-1].unlink()
    plain = [box.place.state / "plain", box.place.home / "plain"]
    for path in plain:
        path.unlink()
    box(
        ["sh", "-c", REGISTER],
        make_settings(allowWrite=[".", "~", str(box.place.state)]),
        user=user,
    )
    assert all(path.exists() for path in plain)
    assert not any(path.exists() for path in planted)


REOPEN = "exec 3<>/proc/self/fd/0 && echo more >&3; cat /proc/self/fd/0"


def test_a_file_that_is_handed_in_is_not_opened_for_more(box: Box, user: str) -> None:
    """Standard input is a file in the host's /tmp, which is not the sandbox's own /tmp."""
    box.prepare(user)
    with tempfile.NamedTemporaryFile("w+", dir="/tmp") as file:
        os.chmod(file.name, 0o666)
        file.write("contents")
        file.flush()
        # A shell, since the harness gives commands no file as standard input.
        line = ["/bin/bash", "-c", f'exec 0<{file.name}; exec "$@"', "-"]
        done = box.run([*line, *box.command(["bash", "-c", REOPEN], user=user)], timeout=60)
        assert done.stdout == "contents" and "Permission denied" in done.stderr
        assert Path(file.name).read_text() == "contents"
        # Positive control.
        box.run([*line, *box.become(user, False), "bash", "-c", REOPEN], timeout=60)
        assert Path(file.name).read_text() == "more\nnts"
