# SPDX-License-Identifier: Apache-2.0
"""The kernel host (python/ipybox/kernel_host), driven as the core drives it."""

from __future__ import annotations

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from kernel_driver import Forkserver  # noqa: E402


@pytest.fixture(scope="module")
def forkserver():
    server = Forkserver()
    server.wait_for("ready")
    yield server
    assert server.stop() == 0


@pytest.fixture
def kernel(forkserver):
    kernel = forkserver.kernel()
    yield kernel
    forkserver.send({"op": "kill", "id": kernel.id})
    forkserver.wait_for_exit(kernel)
    kernel.close()


def test_result_output_and_error(kernel):
    assert kernel.run("x = 40\nx + 2").result == "42"
    assert kernel.run("print('a')\nx").order == ["a\n", "result", "done"]
    cell = kernel.run("1 / 0")
    assert cell.status == "error"
    assert cell.errors[0]["ename"] == "ZeroDivisionError"
    assert "----> 1 1 / 0" in cell.errors[0]["traceback"]
    assert kernel.run("x").result == "40"
