# SPDX-License-Identifier: Apache-2.0
"""The shell of a rich client, that is a front end of Jupyter: with colour and payloads."""

from __future__ import annotations

import os
from typing import Any

import IPython
from IPython.core.error import TryNext

from . import mime
from .payload import KernelPayload, PayloadTooLarge
from .shell import KernelShell

# IPython's own default.
COLORS = "neutral" if IPython.version_info[0] >= 9 else "Neutral"
# Before the hook that displays pages, and after those of the user.
PAGER_PRIORITY = 89


class JupyterShell(KernelShell):
    is_rich = True

    _payload: KernelPayload

    def use_payload(self) -> None:
        self._payload = KernelPayload(parent=self)
        self.payload_manager = self._payload
        self.set_hook("show_in_pager", send_page, PAGER_PRIORITY)

    def set_next_input(self, s: str, replace: bool = False) -> None:
        """Called by `%load` and `%recall`."""
        item = {"source": "set_next_input", "text": str(s), "replace": bool(replace)}
        try:
            self._payload.write_payload(item)
        except PayloadTooLarge:
            super().set_next_input(s, replace)

    def take_payload(self) -> list[dict[str, Any]]:
        payload = self._payload.read_payload()
        self._payload.clear_payload()
        return payload


def send_page(shell: Any, data: Any, start: int = 0, screen_lines: int = 0, **_: Any) -> None:
    """A hook of IPython. What is too large is displayed instead."""
    bundle = data if isinstance(data, dict) else {"text/plain": str(data)}
    item = {"source": "page", "data": mime.conform(bundle), "start": max(0, int(start))}
    try:
        shell._payload.write_payload(item)
    except PayloadTooLarge:
        raise TryNext from None


def become_rich(shell: Any) -> None:
    """Called after the kernel's environment was set. The forkserver does not know the client."""
    shell.__class__ = JupyterShell
    shell.use_payload()
    if not os.environ.get("NO_COLOR"):
        shell.colors = COLORS
