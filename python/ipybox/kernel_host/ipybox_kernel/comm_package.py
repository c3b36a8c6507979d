# SPDX-License-Identifier: Apache-2.0
"""The comms and the manager that the package `comm` gives to widgets. It is imported with it."""

from __future__ import annotations

from typing import Any

from comm.base_comm import BaseComm, CommManager  # type: ignore[import-not-found]

from . import comms


class KernelComm(BaseComm):
    """A comm of a rich client."""

    shell: Any = None  # set by take_over()

    @property
    def kernel(self) -> Any:
        return self.shell.kernel

    def publish_msg(
        self,
        msg_type: str,
        data: Any = None,
        metadata: Any = None,
        buffers: Any = None,
        **keys: Any,
    ) -> None:
        kind = msg_type.removeprefix("comm_")
        comms.send(self.shell, kind, self.comm_id, data, metadata, buffers, **keys)


class TextComm(BaseComm):
    """A comm of a client that shows text: its messages go nowhere.

    It has what an Output widget needs in order to report that it captures. The output is shown with
    the rest of the cell's, so clearing it must not clear the cell's (display.py).
    """

    shell: Any = None

    def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
        state = data.get("state") if isinstance(data, dict) else None
        if isinstance(state, dict) and "msg_id" in state:
            capturing = self.shell.capturing_outputs
            (capturing.add if state["msg_id"] else capturing.discard)(self.comm_id)
        elif msg_type == "comm_close":
            self.shell.capturing_outputs.discard(self.comm_id)

    @property
    def kernel(self) -> Any:
        return self

    def get_parent(self) -> dict[str, Any]:
        return {"header": {"msg_id": "cell"}}


class KernelCommManager(CommManager):
    """Lets errors of handlers through, so that they are reported as a cell's are.

    The package would only log them.
    """

    def __init__(self, comm_class: type[BaseComm]) -> None:
        super().__init__()
        self.comm_class = comm_class

    def has(self, comm_id: Any) -> bool:
        return isinstance(comm_id, str) and comm_id in self.comms

    def register_comm(self, comm: Any) -> str:
        if len(self.comms) >= comms.MAX_COMMS:
            raise RuntimeError(f"{comms.MAX_COMMS} comms are open: close some, as of old widgets")
        return str(super().register_comm(comm))

    def unregister_comm(self, comm: Any) -> None:
        self.comms.pop(comm.comm_id, None)

    def comm_open(self, stream: Any, ident: Any, msg: Any) -> None:
        content = msg["content"]
        name = content.get("target_name")
        comm = self.comm_class(comm_id=content["comm_id"], primary=False, target_name=name)
        self.register_comm(comm)
        target = self.targets.get(name)
        try:
            if target is not None:
                target(comm, msg)
                return
        except BaseException:
            comm.close()
            raise
        comm.close()

    def comm_msg(self, stream: Any, ident: Any, msg: Any) -> None:
        comm = self.comms.get(msg["content"]["comm_id"])
        if comm is not None:
            comm.handle_msg(msg)

    def comm_close(self, stream: Any, ident: Any, msg: Any) -> None:
        comm = self.comms.pop(msg["content"]["comm_id"], None)
        if comm is not None:
            comm._closed = True
            comm.handle_close(msg)


def take_over(shell: Any, package: Any) -> KernelCommManager:
    """Puts our functions into the package, and returns the manager, of which there is one."""
    comm_class: type[BaseComm] = KernelComm if shell.is_rich else TextComm
    comm_class.shell = shell
    manager = shell.comms or KernelCommManager(comm_class)

    def create_comm(*args: Any, **kwargs: Any) -> BaseComm:
        kwargs.pop("kernel", None)
        kwargs.pop("show_warning", None)
        return comm_class(*args, **kwargs)

    def get_comm_manager(*args: Any, **kwargs: Any) -> KernelCommManager:
        return manager

    package.create_comm = create_comm
    package.get_comm_manager = get_comm_manager
    return manager
