# SPDX-License-Identifier: Apache-2.0
"""A small core in Python: starts the real forkserver, forks kernels, speaks the kernel wire.

`OrderedReader` is a reference implementation of the output order in docs/internals/kernel-wire.md.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HOST = ROOT / "python" / "ipybox" / "kernel_host"
TIMEOUT = 60.0
REPEAT_INTERRUPT = 0.05

START, EXECUTE, SHUTDOWN, REQUEST, INPUT = 1, 2, 3, 4, 5
FRAME_NAMES = {
    64: "hello",
    65: "display",
    66: "update_display",
    67: "clear_output",
    68: "result",
    69: "error",
    70: "done",
    71: "reply",
    72: "input_request",
    73: "input_end",
    74: "stream",
    78: "branched",
}
PIPES, PIPES_WANTED, BRANCH = 6, 76, 8
KEY = bytes(range(12))
MARK_SIZE = 18


class Forkserver:
    def __init__(
        self,
        python: str = sys.executable,
        flags: tuple[str, ...] = ("-I",),
        preload: tuple[str, ...] = (),
        site_packages: list[str] | None = None,
        stub_dir: str | None = None,
        env: dict[str, str] | None = None,
        branching: Path | None = None,
    ) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(TIMEOUT)
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
        environment.update(env or {})
        self.log = open(os.memfd_create("forkserver"), "w+b")

        def put_control_on_fd_3() -> None:
            os.dup2(theirs.fileno(), 3)

        self.process = subprocess.Popen(
            [python, *flags, str(HOST / "forkserver.py")],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env=environment,
            preexec_fn=put_control_on_fd_3,
            pass_fds=(3,),
        )
        theirs.close()
        self.exits: dict[int, dict[str, Any]] = {}
        self.other: list[dict[str, Any]] = []
        self.kernels: list[Kernel] = []
        self._last_id = 0
        self.send(
            {
                "op": "configure",
                "version": 1,
                "site_packages": site_packages,
                "preload": list(preload),
                "stub_dir": stub_dir,
                "branching": str(branching) if branching is not None else None,
            }
        )

    def send(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        socket.send_fds(self.control, [json.dumps(message).encode()], fds or [])

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        data, fds, _, _ = socket.recv_fds(self.control, 65536, 4)
        if not data:
            raise EOFError("the forkserver is gone:\n" + self.output())
        return json.loads(data), fds

    def wait_for(self, *ops: str, id: int | None = None) -> tuple[dict[str, Any], list[int]]:
        for message in self.other:
            if message["op"] in ops and id in (None, message.get("id")):
                self.other.remove(message)
                return message, []
        while True:
            message, fds = self.receive()
            if message["op"] == "exited":
                self.exits[message["id"]] = message
            if message["op"] in ops and id in (None, message.get("id")):
                return message, fds
            self.other.append(message)

    def wait_for_exit(self, kernel: Kernel) -> dict[str, Any]:
        if kernel.id not in self.exits:
            self.wait_for("exited", id=kernel.id)
        return self.exits[kernel.id]

    def output(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def fork(self, **start: Any) -> Kernel:
        """A kernel that has received its start frame. Call `hello()` to wait for it."""
        self._last_id += 1
        kernel = Kernel(self, self._last_id)
        self.kernels.append(kernel)
        kernel.send_start(**start)
        return kernel

    def kernel(self, **start: Any) -> Kernel:
        kernel = self.fork(**start)
        kernel.wait_for("hello")
        kernel.take_events()
        return kernel

    def branch(self, forerunner: Kernel, **start: Any) -> Kernel:
        """A branch of a kernel, which has answered. Its `warnings` are those of the answer."""
        self._last_id += 1
        kernel = Kernel(self, self._last_id, forerunner)
        self.kernels.append(kernel)
        answer = forerunner.wait_for("branched")
        forerunner.take_events()
        if "pid" not in answer:
            raise BranchRefused(answer["reasons"])
        kernel.warnings = answer["warnings"]
        inodes = [os.fstat(pipe).st_ino for pipe in kernel.pipes]
        self.send({"op": "adopt", "id": kernel.id, "pid": answer["pid"], "inodes": inodes})
        kernel.forked()
        kernel.send_start(**start)
        kernel.wait_for("hello")
        kernel.take_events()
        return kernel

    def end(self, kernel: Kernel) -> dict[str, Any]:
        """Kills a kernel and waits until none of its processes is left."""
        self.send({"op": "kill", "id": kernel.id})
        message = self.wait_for_exit(kernel)
        kernel.close()
        return message

    def stop(self) -> int:
        """Ends it as the core does, by closing the socket. Returns its exit status."""
        self.control.close()
        status = self.process.wait(TIMEOUT)
        for kernel in self.kernels:
            kernel.close()
        self.log.close()
        return status


class OrderedReader:
    """Puts what comes through two pipes and a wire into the order in which it was written."""

    def __init__(self, key: bytes) -> None:
        self._head = b"\0" + key
        self._pipes = (bytearray(), bytearray())
        self._passed = 0  # the last marker that came through both pipes
        self._frames: list[tuple[int, str, dict[str, Any]]] = []
        self.events: list[tuple[str, Any]] = []

    def feed_pipe(self, index: int, data: bytes) -> None:
        self._pipes[index].extend(data)

    def feed_frame(self, name: str, marker: int, payload: dict[str, Any]) -> None:
        self._frames.append((marker, name, payload))

    def advance(self) -> None:
        """Delivers what can be delivered.

        The wire must have been read until it was empty: then the frame of a marker is here if any
        of the text after the marker is.
        """
        while True:
            while self._frames and self._frames[0][0] <= self._passed:
                _, name, payload = self._frames.pop(0)
                self.events.append((name, payload))
            self._deliver_text()
            if not self._pass_marker():
                return

    def _deliver_text(self) -> None:
        for name, pipe in zip(("stdout", "stderr"), self._pipes):
            end = pipe.find(self._head)
            if end < 0:
                end = len(pipe)
                for size in range(min(len(self._head), len(pipe)), 0, -1):
                    if pipe.endswith(self._head[:size]):
                        end -= size  # may be the beginning of a marker
                        break
            if end:
                self._add_text(name, bytes(pipe[:end]))
                del pipe[:end]

    def _add_text(self, name: str, data: bytes) -> None:
        if self.events and self.events[-1][0] == name:
            self.events[-1][1].extend(data)
        else:
            self.events.append((name, bytearray(data)))

    def _pass_marker(self) -> bool:
        expected = self._head + struct.pack("<I", self._passed + 1) + b"\n"
        if not all(pipe.startswith(expected) for pipe in self._pipes):
            return False
        for pipe in self._pipes:
            del pipe[:MARK_SIZE]
        self._passed += 1
        return True


class BranchRefused(Exception):
    def __init__(self, reasons: list[str]) -> None:
        super().__init__(reasons)
        self.reasons = reasons


class Kernel:
    def __init__(
        self, forkserver: Forkserver, kernel_id: int, forerunner: Kernel | None = None
    ) -> None:
        self.forkserver = forkserver
        self.id = kernel_id
        self.wire, wire = socket.socketpair()
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        self.pipes = [pipe[0] for pipe in pipes]
        fds = [wire.fileno(), pipes[0][1], pipes[1][1]]
        if forerunner is None:
            forkserver.send({"op": "fork", "id": kernel_id}, fds)
        else:
            forerunner.send_frame(BRANCH, {"id": kernel_id}, fds)
        wire.close()
        for _, end in pipes:
            os.close(end)
        self.reader = OrderedReader(KEY)
        self._received = bytearray()
        self._open = {self.wire.fileno(), *self.pipes}
        self._cell = forerunner._cell if forerunner is not None else 0
        self.warnings: list[str] = []
        self._repeat_at: float | None = None
        self.pid = self.pidfd = -1
        self.is_closed = False

    def send_start(
        self,
        env: dict[str, str] | None = None,
        cwd: str = "/tmp",
        path: tuple[str, ...] = (),
        seed: int | None = None,
        rich: bool = False,
    ) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            **(env or {}),
        }
        self.send_frame(
            START,
            {
                "version": 1,
                "key": KEY.hex(),
                "id": self.id,
                "env": environment,
                "cwd": cwd,
                "path": list(path),
                "seed": seed,
                "rich": rich,
            },
        )

    def forked(self) -> None:
        """Takes pid and pidfd from the forkserver's reply."""
        if self.pidfd < 0:
            message, fds = self.forkserver.wait_for("forked", id=self.id)
            self.pid = message["pid"]
            self.pidfd = fds[0] if fds else os.pidfd_open(self.pid)

    def interrupt(self) -> None:
        """Sends the signal, and then the repetition until the cell is done, as the core does."""
        self.signal(signal.SIGINT)
        self.expect_interrupt()

    def expect_interrupt(self) -> None:
        """The signal was sent by other means; only repetitions follow."""
        self._repeat_after = REPEAT_INTERRUPT
        self._repeat_at = time.monotonic() + self._repeat_after

    def repeat_interrupt(self) -> None:
        self.signal(signal.SIGRTMIN + 6)

    def signal(self, number: int) -> None:
        self.forked()
        signal.pidfd_send_signal(self.pidfd, number)

    def wait_until_taken(self, number: int) -> None:
        """Waits until a signal that was sent is not pending any more."""
        self.forked()
        deadline = time.monotonic() + TIMEOUT
        while self._is_pending(number):
            assert time.monotonic() < deadline, f"signal {number} is still pending"
            time.sleep(0.001)

    def _is_pending(self, number: int) -> bool:
        status = Path(f"/proc/{self.pid}/status").read_text()
        masks = re.findall(r"^(?:SigPnd|ShdPnd):\s*(\w+)$", status, re.MULTILINE)
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)

    def send_frame(self, kind: int, payload: dict[str, Any], fds: list[int] | None = None) -> None:
        data = json.dumps(payload).encode()
        frame = struct.pack("<IBI", len(data) + 5, kind, 0) + data
        if fds:
            frame = frame[socket.send_fds(self.wire, [frame], fds) :]
        self.wire.sendall(frame)

    def execute(self, code: str, **options: Any) -> int:
        self._cell += 1
        self.send_frame(EXECUTE, {"cell": self._cell, "code": code, **options})
        return self._cell

    def keep_pipes(self) -> None:
        self.send_frame(PIPES, {"pipes": False})

    def run(self, code: str, **options: Any) -> Cell:
        self.execute(code, **options)
        return self.finish()

    def finish(self) -> Cell:
        self.wait_for("done")
        self._repeat_at = None
        return Cell(self.take_events())

    def take_events(self) -> list[tuple[str, Any]]:
        events, self.reader.events = self.reader.events, []
        return events

    def wait_for(self, name: str) -> Any:
        return self.wait_until(lambda event: event[0] == name)[1]

    def wait_for_text(self, text: bytes) -> None:
        self.wait_until(lambda event: event[0] in ("stdout", "stderr") and text in event[1])

    def wait_for_bytes(self, fd: int, n: int) -> None:
        """Waits until that many bytes are in a pipe or on the wire, unread."""
        self.forked()
        deadline = time.monotonic() + TIMEOUT
        waiting = 0
        while waiting < n:
            assert time.monotonic() < deadline, waiting
            time.sleep(0.01)
            waiting = int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)

    def wait_until(self, condition: Any) -> Any:
        deadline = time.monotonic() + TIMEOUT
        while True:
            for event in self.reader.events:
                if condition(event):
                    return event
            if not self._open:
                raise EOFError(f"the kernel is gone: {self.reader.events}")
            now = time.monotonic()
            if self._repeat_at is not None and now >= self._repeat_at:
                self._repeat_after *= 2
                self._repeat_at = now + self._repeat_after
                self.repeat_interrupt()
            elif self._repeat_at is not None:
                self._read(self._repeat_at - now, may_time_out=True)
            else:
                self._read(deadline - now)

    def read_to_end(self) -> list[tuple[str, Any]]:
        """All events until the kernel has closed everything."""
        deadline = time.monotonic() + TIMEOUT
        while self._open:
            self._read(deadline - time.monotonic())
        return self.take_events()

    def _read(self, seconds: float, may_time_out: bool = False) -> None:
        ready, _, _ = select.select(list(self._open), [], [], max(0, seconds))
        if not ready and not may_time_out:
            raise TimeoutError(f"nothing more after {self.reader.events[-3:]}")
        for fd in ready:
            if fd in self.pipes:
                data = os.read(fd, 1 << 20)
                if data:
                    self.reader.feed_pipe(self.pipes.index(fd), data)
                else:
                    self._open.remove(fd)
        if self.wire.fileno() in self._open:
            self._drain_wire()
        self.reader.advance()

    def _drain_wire(self) -> None:
        while True:
            try:
                data = self.wire.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data = b""
            if not data:
                self._open.remove(self.wire.fileno())
                return
            self._take_frames(data)

    def _take_frames(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 9:
            length, kind, marker = struct.unpack_from("<IBI", self._received)
            if len(self._received) < 4 + length:
                return
            payload = json.loads(self._received[9 : 4 + length])
            del self._received[: 4 + length]
            if kind == PIPES_WANTED:
                self.keep_pipes()
                continue
            self.reader.feed_frame(FRAME_NAMES[kind], marker, payload)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.wire.close()
            for fd in self.pipes:
                os.close(fd)
            if self.pidfd >= 0:
                os.close(self.pidfd)


class Cell:
    """The outcome of one cell."""

    def __init__(self, events: list[tuple[str, Any]]) -> None:
        self.events = events
        self.stdout = b"".join(data for name, data in events if name == "stdout").decode()
        self.stderr = b"".join(data for name, data in events if name == "stderr").decode()
        self.displays = [data for name, data in events if name == "display"]
        self.results = [data for name, data in events if name == "result"]
        self.errors = [data for name, data in events if name == "error"]
        self.done = next(data for name, data in events if name == "done")
        self.status = self.done["status"]

    @property
    def result(self) -> str | None:
        return self.results[0]["data"]["text/plain"] if self.results else None

    @property
    def order(self) -> list[Any]:
        """The events in short: texts, and the names of frames."""
        return [
            data.decode() if name in ("stdout", "stderr") else name for name, data in self.events
        ]


def only_error(cell: Cell) -> dict[str, Any]:
    """The cell's one error. Asserts that it shows nothing of ours and no colour."""
    assert cell.status == "error", cell.events
    (error,) = cell.errors
    assert "ipybox_kernel" not in error["traceback"]
    assert "\x1b" not in error["traceback"]
    return error
