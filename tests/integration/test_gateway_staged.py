# SPDX-License-Identifier: Apache-2.0
"""`ipybox gateway --staged` and staged kernelspecs: each kernel has a layer of its own."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from gateway_driver import Gateway, contents


@pytest.fixture
def start(ipybox: str, place: harness.Place, python: str) -> Callable[..., Gateway]:
    return lambda *args: Gateway(ipybox, place, "--python", python, "--staged", *args)


@pytest.fixture(autouse=True)
def layers(place: harness.Place) -> Iterator[Path]:
    path = Path(place.environ["XDG_STATE_HOME"]) / "ipybox/staged"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def left(run_ipybox: Any, *options: str) -> list[dict[str, Any]]:
    """What `ipybox changes` lists."""
    return json.loads(run_ipybox("changes", "list", "--json", *options).stdout)


def run(gateway: Gateway, kernel: str, code: str) -> str | None:
    """The value of the cell."""
    with gateway.channels(kernel) as client:
        messages = client.run(code)
    assert not contents(messages, "error"), messages
    results = contents(messages, "execute_result")
    return results[0]["data"]["text/plain"] if results else None


def end(gateway: Gateway, kernel: str) -> None:
    assert gateway.request("DELETE", f"/api/kernels/{kernel}")[0] == 204


def write(name: str, text: str) -> str:
    return f"open({name!r}, 'w').write({text!r})"


def test_review_after_the_end(
    start: Callable[..., Gateway], workspace: Path, run_ipybox: Any, capfd: Any
) -> None:
    """Kernels do not see each other's changes. They are committed after the kernel's end."""
    (workspace / "both").write_text("old")
    with start() as gateway:
        one, other, idle = (gateway.start_kernel() for _ in range(3))
        run(gateway, one, write("both", "of one"))
        run(gateway, one, write("new", "of one"))
        run(gateway, other, write("both", "of the other"))
        assert run(gateway, other, "import os\nos.path.exists('new')") == "False"
        assert run(gateway, idle, "open('both').read()") == "'old'"
        assert gateway.request("POST", f"/api/kernels/{one}/restart")[0] == 200
        assert run(gateway, one, "open('new').read()") == "'of one'"
        running = left(run_ipybox)
        assert len(running) == 3 and all(
            "a session that runs" in each["error"] for each in running
        ), running
        end(gateway, idle)
        end(gateway, one)
        (layer,) = (each for each in left(run_ipybox) if "error" not in each)
        assert (layer["workspace"], layer["changes"]) == (str(workspace.resolve()), 2)
        log = capfd.readouterr().err
        assert re.search(rf"kernel {one} has ended with changes .* commit {layer['name']}'", log)
        assert idle not in log
        assert run_ipybox("changes", "commit", "--yes", layer["name"]).returncode == 0
        assert (workspace / "new").read_text() == "of one"
        assert run(gateway, gateway.start_kernel(), "open('both').read()") == "'of one'"
    (layer,) = left(run_ipybox)
    done = run_ipybox("changes", "commit", "--yes", layer["name"])
    assert done.returncode == 1 and "was changed outside, too" in done.stderr, done.stderr
    assert (workspace / "both").read_text() == "of one"


def test_a_gateway_that_was_killed(
    start: Callable[..., Gateway], workspace: Path, run_ipybox: Any
) -> None:
    gateway = start()
    run(gateway, gateway.start_kernel(), write("made", "x"))
    gateway.process.kill()
    assert gateway.close() == -signal.SIGKILL
    (layer,) = left(run_ipybox)
    assert run_ipybox("changes", "commit", "--yes", layer["name"]).returncode == 0
    assert (workspace / "made").read_text() == "x"


def test_kernelspecs_of_a_staged_gateway(
    start: Callable[..., Gateway], workspace: Path, place: harness.Place, run_ipybox: Any
) -> None:
    """They are staged, too. One without a sandbox is not, and has to be allowed by its name."""
    for name, options in (("plain", []), ("free", ["--no-sandbox"])):
        done = run_ipybox("kernelspec", "install", "--name", name, *options)
        assert done.returncode == 0, done.stderr
    with start("--staging-dir", str(place.home / "layers"), "--allow-kernelspec=free") as gateway:
        for name in ("plain", "free"):
            run(gateway, gateway.start_kernel(name=name), write(name, "x"))
    assert not (workspace / "plain").exists() and (workspace / "free").exists()
    (layer,) = left(run_ipybox, "--staging-dir", str(place.home / "layers"))
    assert layer["changes"] == 1
    assert left(run_ipybox) == []
    shutil.rmtree(place.home / "layers")


def test_a_staged_kernelspec(
    ipybox: str, place: harness.Place, python: str, workspace: Path, run_ipybox: Any
) -> None:
    """Its kernels are staged in a gateway that is not."""
    done = run_ipybox("kernelspec", "install", "--staged", "--staging-dir", "layers")
    argv = json.loads(Path(done.stdout.strip()).read_text())["argv"]
    assert argv[4:] == ["--staged", "--staging-dir", str(workspace / "layers")]
    # The place must be outside of what the sandbox may write.
    run_ipybox("kernelspec", "install", "--staged", "--staging-dir", str(place.home / "layers"))
    with Gateway(ipybox, place, "--python", python) as gateway:
        run(gateway, gateway.start_kernel(name="ipybox"), write("aside", "x"))
        run(gateway, gateway.start_kernel(), write("live", "x"))
    assert not (workspace / "aside").exists() and (workspace / "live").exists()
    assert len(left(run_ipybox, "--staging-dir", str(place.home / "layers"))) == 1
    shutil.rmtree(place.home / "layers")


@pytest.mark.parametrize("verb", ["gateway", "kernel", "kernelspec"])
def test_wrong_options(run_ipybox: Any, verb: str) -> None:
    arguments = {"kernel": ["kernel", "-f", "c.json"], "kernelspec": ["kernelspec", "install"]}
    arguments.setdefault(verb, [verb, "--port=0"])
    done = run_ipybox(*arguments[verb], "--staging-dir=layers")
    assert done.returncode == 2 and "--staging-dir needs --staged" in done.stderr
    if verb != "gateway":
        done = run_ipybox(*arguments[verb], "--staged", "--no-sandbox")
        assert done.returncode == 2 and "--staged needs a sandbox" in done.stderr
