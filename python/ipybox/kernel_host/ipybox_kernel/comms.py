# SPDX-License-Identifier: Apache-2.0
"""Comms: the channels between widgets in a front end and their Python objects.

Widgets use the package `comm`, which is not installed with ipybox. When code imports it, its comms
and its manager become ours (comm_package.py). Only a rich client gets their messages.
"""

from __future__ import annotations

import base64
import importlib
import sys
from typing import Any

from . import mime, wire
from .imports import when_imported

# Limits of the core: of a message, and in characters of a comm's id and target.
MAX_BUFFERS = 1000
MAX_NAME = 1000
# Open at one time.
MAX_COMMS = 100_000


def install(shell: Any) -> None:
    """Called once in a kernel, before any code of the user."""
    shell.capturing_outputs = set()

    def take_over(module: Any) -> None:
        if "comm.base_comm" not in sys.modules:
            return  # another module of this name
        comm_package = importlib.import_module(f"{__package__}.comm_package")
        shell.comms = comm_package.take_over(shell, module)

    def take_over_again(_: Any) -> None:
        # This module has put its own functions into the package.
        take_over(sys.modules["comm"])

    def replace_class(module: Any) -> None:
        if shell.comms is not None and shell.is_rich:
            module.Comm = shell.comms.comm_class

    when_imported("comm", take_over)
    when_imported("ipykernel.ipkernel", take_over_again)
    when_imported("ipykernel.comm", replace_class)


def is_known(shell: Any, view: Any) -> bool:
    """Whether the client can show the view of a widget: it has the comm of its model."""
    if not shell.is_rich or shell.comms is None or not isinstance(view, dict):
        return False
    return bool(shell.comms.has(view.get("model_id")))


def describe(shell: Any, target_name: Any) -> dict[str, Any]:
    """The open comms, of one target or of all, as in a comm_info_reply."""
    comms = dict(shell.comms.comms) if shell.comms is not None and shell.is_rich else {}
    return {
        str(name): {"target_name": str(comm.target_name)}
        for name, comm in comms.items()
        if target_name is None or comm.target_name == target_name
    }


def send(
    shell: Any,
    kind: str,
    comm_id: str,
    data: Any = None,
    metadata: Any = None,
    buffers: Any = None,
    **target: Any,
) -> None:
    """Sends a message to the client. What is too large for it is a ValueError."""
    output = shell.output
    if not output.is_connected:
        return  # a forked child
    encoded = [_encode(buffer) for buffer in buffers or ()]
    if len(encoded) > MAX_BUFFERS:
        raise ValueError(f"a comm message can have {MAX_BUFFERS} buffers, not {len(encoded)}")
    for name in (comm_id, *target.values()):
        if name is not None and len(name) > MAX_NAME:
            raise ValueError(f"names of a comm have {MAX_NAME} characters at most")
    payload: dict[str, Any] = {
        "kind": kind,
        "comm_id": comm_id,
        "data": mime.conform_json({} if data is None else data),
        "metadata": mime.conform_json(dict(metadata or {})),
        "buffers": encoded,
        **target,
    }
    output.send_of_caller(wire.COMM, payload)


def _encode(buffer: Any) -> str:
    view = memoryview(buffer)
    return base64.b64encode(view if view.c_contiguous else view.tobytes()).decode("ascii")


def handle(shell: Any, message: dict[str, Any]) -> None:
    """Runs the handlers of a message, which is in Jupyter's form."""
    content = message["content"]
    kind = message["msg_type"]
    if shell.comms is None and kind == "comm_open":
        try:
            importlib.import_module("comm")
        except ImportError:
            pass
    if shell.comms is not None:
        getattr(shell.comms, kind)(None, None, message)
    elif kind == "comm_open":
        send(shell, "close", content["comm_id"])


def message_of(frame: dict[str, Any]) -> dict[str, Any]:
    """Jupyter's message in a frame of the core."""
    header = frame.get("parent") or {}
    comm = frame["comm"]
    content = {name: comm[name] for name in ("comm_id", "target_name", "data") if name in comm}
    return {
        "header": header,
        "msg_id": header.get("msg_id"),
        "msg_type": f"comm_{comm['kind']}",
        "parent_header": {},
        "metadata": comm.get("metadata") or {},
        "content": content,
        "buffers": [memoryview(base64.b64decode(text)) for text in comm.get("buffers") or ()],
    }
