# SPDX-License-Identifier: Apache-2.0
"""`get_ipython().kernel` for a rich client: what libraries read of ipykernel's kernel object.

It has what can be answered truthfully. There is no ZeroMQ and no Tornado in this process: messages
are sent as frames, and only messages that frames can carry.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import inspection, wire
from .display import send_bundle

SENDABLE = ("display_data", "update_display_data", "execute_result", "clear_output", "stream")


class IopubSocket:
    """Stands for the socket to which ipykernel writes output. It can only be passed to send()."""

    def __repr__(self) -> str:
        return "<the output of this kernel>"


class KernelSession:
    """Sends messages as jupyter_client's Session does."""

    def __init__(self, shell: Any, iopub_socket: IopubSocket) -> None:
        self._shell = shell
        self._iopub_socket = iopub_socket

    def send(
        self,
        stream: Any,
        msg_or_type: Any,
        content: Any = None,
        parent: Any = None,
        ident: Any = None,
        buffers: Any = None,
        track: bool = False,
        header: Any = None,
        metadata: Any = None,
    ) -> None:
        """Sends output. It belongs to the running cell, whatever the parent is."""
        if isinstance(msg_or_type, dict):
            content = msg_or_type["content"]
            msg_or_type = msg_or_type["header"]["msg_type"]
        if stream is not self._iopub_socket or msg_or_type not in SENDABLE or buffers:
            what = f"{msg_or_type} with buffers" if buffers else msg_or_type
            raise NotImplementedError(
                f"ipybox cannot send a message {what}: code can send {', '.join(SENDABLE)} "
                "without buffers to get_ipython().kernel.iopub_socket"
            )
        getattr(self, f"_send_{msg_or_type}")(content or {})

    def _send_display_data(self, content: dict[str, Any], update: bool = False) -> None:
        self._shell.display_pub.publish(
            content.get("data") or {},
            content.get("metadata"),
            transient=content.get("transient"),
            update=update,
        )

    def _send_update_display_data(self, content: dict[str, Any]) -> None:
        self._send_display_data(content, update=True)

    def _send_execute_result(self, content: dict[str, Any]) -> None:
        display_id = (content.get("transient") or {}).get("display_id")
        fields: dict[str, Any] = {"execution_count": self._shell.displayhook.prompt_count}
        if display_id is not None:
            fields["display_id"] = str(display_id)
        send_bundle(
            self._shell,
            wire.RESULT,
            content.get("data") or {},
            content.get("metadata"),
            **fields,
        )

    def _send_clear_output(self, content: dict[str, Any]) -> None:
        self._shell.display_pub.clear_output(bool(content.get("wait", False)))

    def _send_stream(self, content: dict[str, Any]) -> None:
        output = self._shell.output
        stream = output.stderr if content.get("name") == "stderr" else output.stdout
        stream.write(str(content.get("text", "")))


class JupyterKernel:
    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.iopub_socket = IopubSocket()
        self.session = KernelSession(shell, self.iopub_socket)
        info = inspection.kernel_info(shell, {})
        self.implementation: str = info["implementation"]
        self.implementation_version: str = info["implementation_version"]
        self.banner: str = info["banner"]
        self.language_info: dict[str, Any] = info["language_info"]

    @property
    def comm_manager(self) -> Any:
        """The manager of the package `comm`, if it is installed."""
        try:
            comm = importlib.import_module("comm")
        except ImportError:
            raise AttributeError("comm_manager needs the package comm: install it") from None
        return comm.get_comm_manager()

    @property
    def execution_count(self) -> int:
        return int(self.shell.execution_count)

    @property
    def user_ns(self) -> dict[str, Any]:
        namespace: dict[str, Any] = self.shell.user_ns
        return namespace

    @property
    def user_module(self) -> Any:
        return self.shell.user_module

    @property
    def _parent_header(self) -> dict[str, Any]:
        return self.get_parent()

    def get_parent(self, channel: str | None = None) -> dict[str, Any]:
        """The request of the cell that runs, or ran last; {} for other channels than shell."""
        return self.shell.get_parent() if channel in (None, "shell") else {}

    def send_response(
        self, stream: Any, msg_or_type: Any, content: Any = None, **options: Any
    ) -> None:
        self.session.send(stream, msg_or_type, content, **options)
