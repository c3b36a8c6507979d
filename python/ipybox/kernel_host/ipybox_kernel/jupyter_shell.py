# SPDX-License-Identifier: Apache-2.0
"""The shell of a rich client, that is a front end of Jupyter: with colour and payloads.

Libraries choose what they show by the class of `get_ipython()`. So it has the name of ipykernel's
class, and `kernel`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

import IPython
from IPython.core.error import TryNext
from traitlets.config import Config

from . import current_cell, mime
from .jupyter_kernel import JupyterKernel
from .payload import PayloadTooLarge
from .shell import KernelShell

# Before the hook that displays pages, and after those of the user.
PAGER_PRIORITY = 89
# Requests whose threads and tasks get their own parent.
MAX_HEADERS = 256


class ZMQInteractiveShell(KernelShell):
    is_rich = True

    _request: dict[str, Any] = {}
    _comm_message: dict[str, Any] | None = None  # if that came after the request
    _headers: dict[int, dict[str, Any]]  # of the last requests, by the number of the cell

    def set_request(self, request: dict[str, Any]) -> None:
        self._request = request
        self._comm_message = None
        self._keep_header(request["cell"], request.get("parent"))

    def set_comm_message(self, cell: int, message: dict[str, Any]) -> None:
        # Its buffers are not kept.
        self._comm_message = {**message, "buffers": []}
        self._keep_header(cell, message["header"])

    def _keep_header(self, cell: int, header: dict[str, Any] | None) -> None:
        headers = self._headers
        headers[cell] = header or {}
        if len(headers) > MAX_HEADERS:
            del headers[next(iter(headers))]

    @property
    def parent_header(self) -> dict[str, Any]:
        """As in ipykernel, not only the header."""
        return self.get_parent()

    def get_parent(self) -> dict[str, Any]:
        """The request of the cell that runs, or ran last, as far as it is known here.

        It is {} before the first cell. While handlers of a comm message run, and until the next
        request, it is that message. Threads and tasks get the header of the request that started
        them, which is the parent of their output.
        """
        cell = current_cell.get()
        if cell in self._headers and cell != next(reversed(self._headers)):
            return {**_head(self._headers[cell]), "content": {}}
        if self._comm_message is not None:
            return dict(self._comm_message)
        header = self._request.get("parent")
        if header is None:
            return {}
        return {
            **_head(header),
            "content": {
                "code": self._request["code"],
                "silent": self._request.get("silent", False),
                "store_history": self._request.get("store_history", True),
                "user_expressions": self._request.get("user_expressions") or {},
            },
        }

    def set_next_input(self, s: str, replace: bool = False) -> None:
        """Called by `%load` and `%recall`."""
        item = {"source": "set_next_input", "text": str(s), "replace": bool(replace)}
        try:
            self.payload.write_payload(item)
        except PayloadTooLarge:
            super().set_next_input(s, replace)

    def take_payload(self) -> list[dict[str, Any]]:
        payload = self.payload.read_payload()
        self.payload.clear_payload()
        return payload


def _head(header: dict[str, Any]) -> dict[str, Any]:
    return {
        "header": dict(header),
        "msg_id": header.get("msg_id"),
        "msg_type": header.get("msg_type"),
    }


# What libraries look for. ipykernel itself need not be installed.
MODULE = "ipykernel.zmqshell"
ZMQInteractiveShell.__module__ = MODULE


def offer_module() -> None:
    """Puts the module of the class where tqdm.auto and others look for it.

    Its other contents are those of ipykernel, if that is installed, and are loaded when needed.
    """
    module = ModuleType(MODULE, ZMQInteractiveShell.__doc__)
    real: list[Any] = []

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not real:
            parent = importlib.import_module(MODULE.partition(".")[0])
            spec = PathFinder.find_spec(MODULE, parent.__path__)
            if spec is None or spec.loader is None:
                raise AttributeError(name)
            found = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found)
            real.append(found)
        return getattr(real[0], name)

    module.ZMQInteractiveShell = ZMQInteractiveShell  # type: ignore[attr-defined]
    module.__getattr__ = get  # type: ignore[method-assign]
    sys.modules[MODULE] = module


def send_page(shell: Any, data: Any, start: int = 0, screen_lines: int = 0, **_: Any) -> None:
    """A hook of IPython. What is too large is displayed instead."""
    bundle = data if isinstance(data, dict) else {"text/plain": str(data)}
    item = {"source": "page", "data": mime.conform(bundle), "start": max(0, int(start))}
    try:
        shell.payload.write_payload(item)
    except PayloadTooLarge:
        raise TryNext from None


def become_rich(shell: Any) -> None:
    """Called after the kernel's environment was set. The forkserver does not know the client."""
    shell.__class__ = ZMQInteractiveShell
    shell._headers = {}
    shell.kernel = JupyterKernel(shell)
    shell.config["IPKernelApp"] = Config()  # by it, some libraries choose widgets
    offer_module()
    shell.set_hook("show_in_pager", send_page, PAGER_PRIORITY)
    if not os.environ.get("NO_COLOR"):
        use_colors(shell)


def use_colors(shell: Any) -> None:
    """Sets IPython's own default."""
    if IPython.version_info[0] >= 9:
        shell.colors = "neutral"
    else:
        shell.run_line_magic("colors", "Neutral")  # the attribute does not reach tracebacks
