# SPDX-License-Identifier: Apache-2.0
"""Attack suite F, the command: what `ipybox sandbox` is to whoever calls it: exit status, signals, standard streams, srt's command line."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from box import Box, make_settings


def test_output_and_input_pass_through(box: Box, user: str) -> None:
    done = box(["sh", "-c", "cat; echo error >&2"], user=user, stdin="hello\n")
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n", "error\n", 0)


@pytest.mark.parametrize(("command", "status"), [("exit 0", 0), ("exit 77", 77), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_exit_status(box: Box, user: str, command: str, status: int) -> None:
    assert box(["sh", "-c", command], user=user).returncode == status


def test_what_cannot_be_executed(box: Box, user: str) -> None:
    missing = box(["no-such-program"], user=user)
    assert missing.returncode == 127 and "no-such-program" in missing.stderr
    (box.place.workspace / "plain").write_text("text")
    assert box(["./plain"], user=user).returncode == 126


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_passed_on(box: Box, user: str, number: signal.Signals) -> None:
    script = f"trap 'echo caught; exit 5' {number.name[3:]}; echo ready; while :; do sleep 60 & wait $!; done"
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
    [["-c", "echo a; echo b"], ["echo a; echo b"], ["--", "sh", "-c", "echo a; echo b"], ["-d", "sh", "-c", "echo a; echo b"]],
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
    assert done.returncode == 2 and "filesystem.denyReed" in done.stderr and "denyRead" in done.stderr
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(box: Box, closed: str) -> None:
    """Nothing of ipybox's own stands in for them, such as what it waits on, by which a command could reach into it."""
    script = "import json, os; json.dump([os.readlink(f'/proc/self/fd/{n}') for n in range(3)], open('streams', 'w'))"
    line = box.command(["/usr/bin/python3", "-I", "-c", script])
    assert box(["sh", "-c", f'"$@" {closed}', "sh", *line], sandbox=False).returncode == 0
    streams = json.loads((box.place.workspace / "streams").read_text())
    assert not any("anon_inode" in stream or "socket" in stream for stream in streams), streams
    assert all(streams[n] == "/dev/null" for n, sign in enumerate(["<&-", ">&-", "2>&-"]) if sign in closed.split()), streams


@pytest.mark.parametrize("home", ["", "here"])
def test_a_home_directory_that_is_none(box: Box, home: str) -> None:
    box.place.environ["HOME"] = home
    done = box(["touch", "ran"])
    assert done.returncode == 2 and f'HOME) is no absolute path: "{home}"' in done.stderr
    assert not (box.place.workspace / "ran").exists()


def test_a_current_directory_that_is_gone(box: Box) -> None:
    """It has no name: nothing is written in what stands for it otherwise, which is "/"."""
    for line in box.command(["touch", "/var/tmp/made"]), [str(box.binary), "run", "-c", "print(1)"]:
        done = box(["sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh", *line], sandbox=False)
        assert (done.returncode, done.stdout) == (1, "") and "the current directory has no name" in done.stderr
    assert not Path("/var/tmp/made").exists()


def test_without_settings_nothing_is_writable(box: Box, workspace, user: str) -> None:
    box.prepare(user)
    line = [*box.become(user), box.program(user), "sandbox", "--", "sh", "-c", "echo x > here || echo denied; cat there"]
    (workspace / "there").write_text("seen")
    done = box(line, sandbox=False)
    assert "denied" in done.stdout and not (workspace / "here").exists()
    assert "seen" in done.stdout


def test_what_ipybox_knows_of_servers_is_hidden(box: Box, user: str) -> None:
    """The registry and tokens: a command is not asked for them, and they open other doors."""
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
