# SPDX-License-Identifier: Apache-2.0
"""`ipybox kernel` and `ipybox kernelspec`: kernels that Jupyter's front ends start, over ZeroMQ."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
import scripted_server
from server_process import jupyter_python

PROGRAM = str(Path(__file__).with_name("zmq_program.py"))


@pytest.fixture
def spec(run_ipybox, place, python) -> str:
    """A kernelspec whose kernels run in sandboxes; its name."""
    place.environ["JUPYTER_DATA_DIR"] = str(place.workspace / "jupyter")
    place.environ["JUPYTER_RUNTIME_DIR"] = str(place.workspace / "runtime")
    done = run_ipybox("kernelspec", "install", "--python", python)
    assert done.returncode == 0, done.stderr
    return "ipybox"


@pytest.fixture
def scenario(place, spec) -> Callable[[str], Any]:
    def run(name: str) -> Any:
        done = harness.run([str(jupyter_python()), PROGRAM, name, spec], place, timeout=240)
        assert done.returncode == 0, done.stderr
        run.stderr = done.stderr  # type: ignore[attr-defined]
        return json.loads(done.stdout)

    return run


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def contents(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [message for message in messages if message["type"] == kind]


def test_cells(scenario) -> None:
    outcome = scenario("cells")
    assert outcome["info"]["status"] == "ok" and outcome["info"]["implementation"] == "ipybox"
    plain = outcome["plain"]
    assert [(m["name"], m["text"]) for m in contents(plain, "stream")] == [
        ("stdout", "one\n"),
        ("stderr", "two\n"),
    ]
    assert contents(plain, "execute_result")[0]["data"] == {"text/plain": "42"}
    assert contents(plain, "status")[-1]["execution_state"] == "idle"
    assert contents(plain, "reply")[0]["execution_count"] == 1
    assert contents(outcome["input"], "stream")[0]["text"] == "hello Ann\n"
    assert contents(outcome["error"], "error")[0]["ename"] == "ZeroDivisionError"
    assert contents(outcome["outside"], "error")[0]["ename"] == "OSError"
    assert not os.path.exists("/etc/made-by-a-cell")
    assert outcome["beats"] and "print" in outcome["completion"]["matches"]


def test_interrupt(scenario) -> None:
    outcome = scenario("interrupt")
    assert outcome["reply"]["ename"] == "KeyboardInterrupt"
    assert contents(outcome["after"], "execute_result")[0]["data"] == {"text/plain": "1"}


def test_restart(scenario) -> None:
    outcome = scenario("restart")
    assert outcome["is_new"]
    # JupyterLab gives up a kernel that says that it is dead, though another process follows.
    assert "dead" not in outcome["states"]
    assert contents(outcome["x"], "execute_result")[0]["data"] == {"text/plain": "False"}


def test_the_death_of_python_ends_the_process(scenario) -> None:
    assert scenario("death") == [1, 1]
    assert "exit status 3" in scenario.stderr and "SIGKILL" in scenario.stderr


def test_nothing_is_lost_by_a_front_end_that_reads_late(scenario) -> None:
    assert scenario("flood") is True


def test_hostile_messages(scenario) -> None:
    outcome = scenario("hostile")
    assert outcome["first"] == "ok"
    assert contents(outcome["x"], "execute_result")[0]["data"] == {"text/plain": "1"}
    assert "signature is wrong or was used before" in scenario.stderr
    assert "dropped what is no message" in scenario.stderr


def test_staged(scenario, run_ipybox, place, python) -> None:
    """What cells have written is kept when the front end shuts the kernel down."""
    assert run_ipybox("kernelspec", "install", "--python", python, "--staged").returncode == 0
    assert contents(scenario("staged"), "error") == []
    assert not (place.workspace / "aside").exists()
    (layer,) = json.loads(run_ipybox("changes", "--json").stdout)
    assert f"ipybox changes commit {layer['name']}" in scenario.stderr
    assert run_ipybox("changes", "commit", "--yes", layer["name"]).returncode == 0
    assert (place.workspace / "aside").read_text() == "x"


def test_calls_of_tools_are_asked_about(scenario, run_ipybox) -> None:
    params = json.dumps(scripted_server.params("results"))
    done = run_ipybox("apigen", "--server-name", "fake", "--server-params", params)
    assert done.returncode == 0, done.stderr
    outcome = scenario("tools")
    assert '"a":1' in outcome["yes"]
    assert "ApprovalRejectedError" in outcome["no"]
    refused = "".join(message["text"] for message in contents(outcome["not asked"], "stream"))
    assert "ApprovalRejectedError" in refused
    first, second, third, fourth = outcome["prompts"]
    assert "Tool call: fake.echo_json" in first and first.endswith("[y]es, [n]o: ")
    assert second == first
    # An answer to the question that was withdrawn is not taken for this one.
    assert "to allow this call, anything else to refuse it" in third
    assert "ApprovalRejectedError" in outcome["stale"]
    assert third != fourth and '"a":1' in outcome["code"]


def test_the_end_of_the_front_end(place, spec) -> None:
    done = harness.run([str(jupyter_python()), PROGRAM, "parent", spec], place, timeout=240)
    pid = int(done.stdout)
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline, f"kernel {pid} is still there"
        time.sleep(0.01)


def test_sockets_in_files(scenario) -> None:
    outcome = scenario("ipc")
    assert contents(outcome["cell"], "execute_result")[0]["data"] == {"text/plain": "42"}
    assert outcome["modes"] == ["0o600"] * 5


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"key": ""}, "has no key"),
        ({"key": None}, "has no key"),
        ({"signature_scheme": "hmac-md5"}, "not hmac-sha256"),
        ({"transport": "udp"}, "neither tcp nor ipc"),
        ({"ip": ""}, 'has no "ip"'),
        ({"hb_port": 0}, 'has no port "hb_port"'),
        ({"shell_port": "1"}, 'has no port "shell_port"'),
        ({"ip": "256.1.1.1"}, "cannot listen on tcp://256.1.1.1:"),
    ],
)
def test_connection_files(run_ipybox, place, change: dict, why: str) -> None:
    path = write_connection(place, **change)
    done = run_ipybox("kernel", "-f", str(path))
    assert done.returncode != 0 and why in done.stderr


def write_connection(place, **change: Any) -> Path:
    content = {
        "ip": "127.0.0.1",
        "transport": "tcp",
        "key": "k",
        "signature_scheme": "hmac-sha256",
        **{f"{name}_port": 1 for name in ("shell", "iopub", "stdin", "control", "hb")},
        **change,
    }
    path = place.workspace / "connection.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("has_library", [False, True])
def test_without_libzmq(run_ipybox, place, has_library: bool) -> None:
    """It cannot be loaded, or is another library. The kernel says what to install."""
    library = place.workspace / "libzmq.so.5"
    if has_library:
        command = ["cc", "-shared", "-o", str(library), "-x", "c", "/dev/null"]
        subprocess.run(command, check=True)
        why = "libzmq.so.5 has no zmq_"
    else:
        library.write_text("no library")
        why = "Install it: apt install libzmq5"
    place.environ["LD_LIBRARY_PATH"] = str(place.workspace)
    done = run_ipybox("kernel", "-f", str(write_connection(place)))
    assert done.returncode != 0 and why in done.stderr and "libzmq.so.5" in done.stderr
    checks = json.loads(run_ipybox("doctor", "--json").stdout)
    (check,) = [check for check in checks if check["name"] == "libzmq"]
    assert check["state"] == "optional" and why in check["detail"] and "libzmq5" in check["hint"]
    # Everything else works.
    done = run_ipybox("run", "-c", "6 * 7")
    assert done.stdout == "42\n", done.stderr


def test_files_that_are_no_connection_files(run_ipybox, place) -> None:
    path = place.workspace / "connection.json"
    for text in ("", "[]", "{", "x" * 100_000):
        path.write_text(text)
        assert run_ipybox("kernel", "-f", str(path)).returncode != 0
    path.unlink()
    os.mkfifo(path)
    done = run_ipybox("kernel", "-f", str(path), timeout=20)
    assert done.returncode != 0 and "regular file" in done.stderr
    assert "kernelspec install" in run_ipybox("kernel").stderr


def test_the_option_that_nbclient_gives_to_python3(run_ipybox, place) -> None:
    """It is accepted, since the history is in memory: the error is about the missing file."""
    missing = str(place.workspace / "missing.json")
    done = run_ipybox("kernel", "-f", missing, "--HistoryManager.hist_file=:memory:")
    assert "missing.json" in done.stderr and "HistoryManager" not in done.stderr
    done = run_ipybox("kernel", "-f", missing, "--HistoryManager.hist_file=history.sqlite")
    assert done.returncode == 2 and "can only be :memory:" in done.stderr


def test_kernelspecs(run_ipybox, place) -> None:
    prefix = place.workspace / "prefix"
    config = place.workspace / "sandbox.json"
    config.write_text("{}")
    options = ["--prefix", str(prefix), "--name", "mine"]
    done = run_ipybox(
        *["kernelspec", "install", *options, "--display-name", "Mine", "--python", "python3"],
        *["--sandbox-config", "sandbox.json", "--approve", "allow", "--preload", "json"],
    )
    path = Path(done.stdout.strip())
    assert path == prefix / "share/jupyter/kernels/mine/kernel.json", done.stderr
    spec = json.loads(path.read_text())
    assert spec["argv"][1:4] == ["kernel", "-f", "{connection_file}"]
    assert spec["argv"][4:] == [
        *["--sandbox-config", str(config), "--python", "python3"],
        *["--preload", "json", "--approve", "allow"],
    ]
    assert spec["display_name"] == "Mine" and spec["interrupt_mode"] == "message"
    assert run_ipybox("kernelspec", "install", *options, "--no-sandbox").returncode == 0
    spec = json.loads(path.read_text())
    assert spec["argv"][4:] == ["--no-sandbox"] and spec["display_name"] == "Python 3 (ipybox)"
    listed = json.loads(run_ipybox("kernelspec", "list", "--json", *options).stdout)
    assert [each["name"] for each in listed] == ["mine"]
    assert "mine: Python 3 (ipybox), in " in run_ipybox("kernelspec", "list", *options).stdout
    assert run_ipybox("kernelspec", "remove", *options).returncode == 0
    assert not path.parent.exists()
    assert run_ipybox("kernelspec", "remove", *options).returncode != 0
    assert json.loads(run_ipybox("kernelspec", "list", "--json", *options).stdout) == []


def test_kernelspecs_of_others_are_not_touched(run_ipybox, place) -> None:
    folder = place.workspace / "share/jupyter/kernels/python3"
    folder.mkdir(parents=True)
    text = json.dumps({"argv": ["python", "-m", "ipykernel_launcher"], "display_name": "P"})
    (folder / "kernel.json").write_text(text)
    options = ["--prefix", str(place.workspace), "--name", "python3"]
    for action in ("install", "remove"):
        done = run_ipybox("kernelspec", action, *options)
        assert done.returncode != 0 and "choose another --name" in done.stderr
    assert (folder / "kernel.json").read_text() == text
    for name in ("", "..", "a/b", "a b", "x" * 101):
        done = run_ipybox("kernelspec", "install", "--prefix", str(place.workspace), "--name", name)
        assert done.returncode != 0 and "a name has at most" in done.stderr
    assert "give one of" in run_ipybox("kernelspec").stderr
