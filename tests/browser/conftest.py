# SPDX-License-Identifier: Apache-2.0
"""JupyterLab in a browser, with kernels of ipybox in sandboxes: by a kernelspec, by the gateway.

A class of tests shares one server, one browser and one notebook. If a test fails, a picture of the
page is in `screenshots` beside the binary, and the report names it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import harness
import lab
import pytest
from gateway_driver import Gateway

BINARY = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()


def pytest_configure(config: pytest.Config) -> None:
    harness.prepare_process()


@pytest.fixture(scope="class")
def place() -> Iterator[harness.Place]:
    """The directories and the environment of a class of tests.

    After them no process, no temporary file and no socket may be left.
    """
    before = harness.descendants()
    # Not below /tmp, because each sandbox has a /tmp of its own. A short path: sockets live there.
    place = harness.Place.make(Path(tempfile.mkdtemp(prefix="ipb-", dir="/var/tmp")) / "x")
    place.environ |= {
        "JUPYTER_CONFIG_DIR": str(place.home / "config"),
        "JUPYTER_DATA_DIR": str(place.home / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(place.home / "runtime"),
    }
    yield place
    processes = harness.processes_left(before)
    files = place.left_behind()
    place.root = place.root.parent
    place.remove()
    assert not processes, "processes left behind:\n" + "\n".join(processes)
    assert not files, "files left behind:\n" + "\n".join(files)


@pytest.fixture(scope="class")
def kernelspec(place: harness.Place) -> Iterator[lab.Lab]:
    """A notebook whose kernel JupyterLab has started with `ipybox kernelspec`."""
    command = [str(harness.existing(BINARY)), "kernelspec", "install", "--python", lab.python()]
    subprocess.run(command, env=place.environ, check=True, capture_output=True)
    with lab.notebook(place, "ipybox") as notebook:
        yield notebook


@pytest.fixture(scope="class")
def gateway(place: harness.Place) -> Iterator[lab.Lab]:
    """A notebook whose kernel is at `ipybox gateway`."""
    place.environ["IPYBOX_GATEWAY_TOKEN"] = place.environ["JUPYTER_GATEWAY_AUTH_TOKEN"] = "secret"
    options = ("--sandbox", "--python", lab.python())
    with Gateway(str(harness.existing(BINARY)), place, *options) as server:
        url = f"http://127.0.0.1:{server.port}"
        with lab.notebook(place, "python3", f"--gateway-url={url}") as notebook:
            yield notebook


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    report = yield
    notebook = getattr(item, "funcargs", {}).get("nb")
    if call.when == "call" and report.failed and notebook is not None:
        path = BINARY.parent / "screenshots" / f"{item.parent.name}-{item.name}.png"
        try:
            notebook.page.screenshot(path)
            report.sections.append(("screenshot", str(path)))
            notebook.recover()
        except Exception as error:  # the browser is gone: the test's own error says more
            report.sections.append(("browser", str(error)))
        report.sections.append(("the page's console", "\n".join(notebook.page.console[-20:])))
    return report
