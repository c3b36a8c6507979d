# SPDX-License-Identifier: Apache-2.0
"""What code sees of a rich client, a front end of Jupyter; and that other clients get text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import harness
import pytest
from gateway_driver import Gateway, contents
from kernel_driver import Kernel, only_error

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
SHOW_ENVIRONMENT = "import os\n[os.environ.get(n) for n in ('TERM', 'NO_COLOR', 'FORCE_COLOR')]"


@pytest.fixture
def rich(make_kernel: Callable[..., Kernel]) -> Kernel:
    return make_kernel(rich=True)


@pytest.fixture
def gateway(ipybox: str, place: harness.Place, python: str) -> Iterator[Gateway]:
    with Gateway(ipybox, place, "--python", python) as gateway:
        yield gateway


def error_of(messages: list[dict[str, Any]]) -> str:
    (error,) = contents(messages, "error")
    (reply,) = contents(messages, "execute_reply")
    assert reply["traceback"] == error["traceback"]
    return "\n".join(error["traceback"])


def value_of(messages: list[dict[str, Any]]) -> str:
    (result,) = contents(messages, "execute_result")
    return result["data"]["text/plain"]


# Colour


def test_colour_at_the_gateway(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel()) as client:
        traceback = error_of(client.run("def f():\n    return 1 / 0\nf()"))
        assert ESCAPE.search(traceback)
        assert "return 1 / 0" in ESCAPE.sub("", traceback)
        assert "\x1b" not in ESCAPE.sub("", traceback)
        data = client.ask("inspect_request", {"code": "print", "cursor_pos": 5})["data"]
        assert ESCAPE.search(data["text/plain"])
        assert "Signature" in ESCAPE.sub("", data["text/plain"])
        assert value_of(client.run(SHOW_ENVIRONMENT)) == "['xterm-color', None, '1']"
        # The magic of IPython works.
        client.run("%colors nocolor")
        assert not ESCAPE.search(error_of(client.run("1 / 0")))


def test_clients_of_the_gateway_that_show_text(gateway: Gateway) -> None:
    with gateway.channels(gateway.start_kernel(rich=False)) as client:
        assert "\x1b" not in error_of(client.run("1 / 0"))
        data = client.ask("inspect_request", {"code": "print", "cursor_pos": 5})["data"]
        assert "\x1b" not in data["text/plain"]
        assert value_of(client.run(SHOW_ENVIRONMENT)) == "['dumb', '1', None]"


def test_no_color_of_the_user(ipybox: str, place: harness.Place, python: str) -> None:
    place.environ["KERNEL_ENV_NO_COLOR"] = "1"
    with Gateway(ipybox, place, "--python", python) as gateway:
        with gateway.channels(gateway.start_kernel()) as client:
            assert "\x1b" not in error_of(client.run("1 / 0"))
            assert value_of(client.run(SHOW_ENVIRONMENT)) == "['xterm-color', '1', None]"


def test_other_clients_get_no_colour(mcp: Any, run_ipybox: Callable[..., Any]) -> None:
    assert "\x1b" not in mcp.failing_cell("1 / 0")
    assert "\x1b" not in mcp.cell("print?")
    done = run_ipybox("run", "-c", "1 / 0")
    assert "ZeroDivisionError" in done.stderr and "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "1 +",
        "raise SystemExit(3)",
        "%no_such_magic",
        "raise ValueError('\\x1b[31mred\\x1b[0m') from KeyError(1)",
        "raise ExceptionGroup('g', [ValueError(1)])",
    ],
)
def test_errors_of_each_kind(rich: Kernel, kernel: Kernel, code: str) -> None:
    """The same text, with colour and without."""
    plain = only_error(kernel.run(code))
    (coloured,) = rich.run(code).errors
    assert ESCAPE.sub("", coloured["traceback"]) == plain["traceback"]
    assert coloured["ename"] == plain["ename"]
