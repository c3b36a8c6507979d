# SPDX-License-Identifier: Apache-2.0
"""Stands in for the conftest.py of the kernel gateway's own tests.

Its own one runs the application in the process of the tests. This one starts a server as a process,
`ipybox gateway` or the kernel gateway itself ($GATEWAY_SERVER), with the settings of the test. If
the test changes one, it starts another. Both servers get the same requests.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["JUPYTER_PLATFORM_DIRS"] = "1"  # before any import of Jupyter

import pytest
import tornado.httpclient
import tornado.websocket
from jupyter_server.utils import url_path_join
from server_process import free_port, running
from tornado.escape import url_escape

pytest_plugins = ["pytest_jupyter.jupyter_core", "pytest_jupyter.jupyter_server"]

PERSONALITY = ("list_kernels", "env_whitelist")
# Settings of the kernel gateway, and the options of ipybox with such a value.
OPTIONS = {
    "allow_credentials": "--allow-credentials",
    "allow_headers": "--allow-headers",
    "allow_methods": "--allow-methods",
    "allow_origin": "--allow-origin",
    "base_url": "--base-url",
    "default_kernel_name": "--kernel-name",
    "env_whitelist": "--allow-env",
    "expose_headers": "--expose-headers",
    "max_age": "--max-age",
    "max_kernels": "--max-kernels",
    "prespawn_count": "--prespawn",
    "seed_uri": "--seed-notebook",
}


def ipybox_command(settings: dict[str, Any]) -> list[str]:
    command = [os.environ["IPYBOX_BIN"], "gateway", "--port=0", "--host=127.0.0.1"]
    command += ["--python", os.environ["GATEWAY_PYTHON"]]
    for name, value in settings.items():
        if name in OPTIONS:
            command.append(f"{OPTIONS[name]}={value}")
        elif name == "force_kernel_name":
            assert value == "python3"  # the name of ipybox's kernelspec
            command.append("--force-kernel-name")
        else:
            assert name in ("auth_token", "list_kernels", "api"), f"no option for {name}"
    if not settings.get("list_kernels"):
        command.append("--hide-kernels")  # the kernel gateway's default
    return command


def kernel_gateway_command(settings: dict[str, Any]) -> list[str]:
    command = [sys.executable, "-m", "kernel_gateway", f"--KernelGatewayApp.port={free_port()}"]
    command += ["--KernelGatewayApp.port_retries=0", "--KernelGatewayApp.ip=127.0.0.1"]
    for name, value in settings.items():
        owner = "JupyterWebsocketPersonality" if name in PERSONALITY else "KernelGatewayApp"
        command.append(f"--{owner}.{name}={value}")
    return command


def start(settings: dict[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Its line that says where it listens has the port as its last number."""
    if os.environ["GATEWAY_SERVER"] == "ipybox":
        command, pattern = ipybox_command(settings), r'"port":\s*(\d+)'
    else:
        command, pattern = kernel_gateway_command(settings), r"is available at http://\S+:(\d+)"
    environ = os.environ | {"IPYBOX_GATEWAY_TOKEN": settings["auth_token"]}
    return running(command, environ, pattern, end=signal.SIGTERM, patience_s=20)


class App(UserDict[str, Any]):
    """The server. Its items are the settings that tests change, with the application's names."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.settings = settings
        self.started: dict[str, Any] | None = None
        self.port_of_started = 0
        self.server = contextlib.ExitStack()

    @property
    def port(self) -> int:
        if self.started != self.settings:
            self.server.close()
            self.port_of_started = int(self.server.enter_context(start(self.settings)).group(1))
            self.started = dict(self.settings)
        return self.port_of_started

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.settings[name.removeprefix("kg_")] = value
        if "prespawn_count" in self.settings:  # the test gives the kernels a moment to start
            assert self.port


def read_argument(argument: str) -> tuple[str, Any]:
    name, _, value = argument.partition("=")
    return name.rpartition(".")[2], {"True": True, "False": False}.get(value, value)


@pytest.fixture
def jp_serverapp(
    jp_environ: None,
    jp_server_config: dict[str, Any],
    jp_argv: list[str],
    jp_base_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[App]:
    monkeypatch.chdir(tmp_path)
    settings = {"auth_token": secrets.token_hex(8), "base_url": jp_base_url}
    settings |= jp_server_config.get("KernelGatewayApp", {})
    settings |= dict(map(read_argument, jp_argv))
    app = App(settings)
    with app.server:
        yield app


@pytest.fixture
def jp_web_app(jp_serverapp: App) -> SimpleNamespace:
    return SimpleNamespace(settings=jp_serverapp)


@pytest.fixture
def jp_auth_header(jp_serverapp: App) -> dict[str, str]:
    return {"Authorization": f"token {jp_serverapp.settings['auth_token']}"}


@pytest.fixture
def jp_url(jp_serverapp: App, jp_base_url: str) -> Any:
    def url(scheme: str, *parts: str) -> str:
        path = url_path_join(jp_base_url, url_escape(url_path_join(*parts), plus=False))
        return f"{scheme}://127.0.0.1:{jp_serverapp.port}{path}"

    return url


@pytest.fixture
def jp_fetch(jp_url: Any, jp_auth_header: dict[str, str], jp_asyncio_loop: Any) -> Any:
    def fetch(*parts: str, headers: dict[str, str] | None = None, **options: Any) -> Any:
        client = tornado.httpclient.AsyncHTTPClient()
        headers = jp_auth_header | (headers or {})
        return client.fetch(jp_url("http", *parts), headers=headers, **options)

    return fetch


@pytest.fixture
def jp_ws_fetch(jp_url: Any, jp_auth_header: dict[str, str]) -> Any:
    def fetch(*parts: str, headers: dict[str, str] | None = None) -> Any:
        headers = jp_auth_header | (headers or {})
        request = tornado.httpclient.HTTPRequest(jp_url("ws", *parts), headers=headers)
        return tornado.websocket.websocket_connect(request)

    return fetch


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Nothing runs in the process of the tests."""
