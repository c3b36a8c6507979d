# SPDX-License-Identifier: Apache-2.0
"""All that leaves a kernel, in order: text through fds 1 and 2, frames through the wire, markers between.

Everything to be written goes through one queue, and only one caller at a time empties it: a display that
a signal handler or a finalizer shows while a frame is half written waits its turn. Whatever interrupts
the writing, the queue holds what is left, so a stream never has a hole or a piece twice.

Locking: `lock` guards all of it. While the main thread holds the lock, an interrupt is put off until it
lets go (`interrupt_waits`), except while it waits for the core to read.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import linux, wire
from .flusher import Flusher
from .streams import TextStream

if TYPE_CHECKING:
    from .process import Links

# poll says that a pipe has room when this much fits; a blocking pipe takes no more without waiting.
PIPE_CHUNK = select.PIPE_BUF
WIRE_CHUNK = 1 << 20
# So many lines are written at once before a flood is assumed, per cell and tick of the flusher.
LINE_CREDIT = 100


class Port:
    """A descriptor that can be waited for."""

    def __init__(self, fd: int, chunk: int) -> None:
        self.fd = fd
        self.chunk = chunk
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        self.wait = poll.poll


@dataclass
class _Frames:
    """Frames with one marker before them, or the marker alone."""

    frames: list[tuple[int, bytes]]


# What waits to be written: pieces with where they go, or what has yet to be numbered.
_Item = list[tuple[Port, Any]] | _Frames


class Output:
    def __init__(self, links: Links, key: bytes) -> None:
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self.cell = 0  # the one that runs; 0 between cells
        self.interrupt_waits = False
        self.line_credit = LINE_CREDIT
        self.flusher_is_armed = False
        self.flusher = Flusher(self._on_tick, links.lowest())

        self._links: Links | None = links
        self._wire = Port(links.wire, WIRE_CHUNK)
        self._marks = (Port(links.stdout_marks, PIPE_CHUNK), Port(links.stderr_marks, PIPE_CHUNK))
        self._mark_head = b"\0" + key
        self._number = 0
        self._queue: deque[_Item] = deque()
        self._held: list[tuple[int, bytes]] = []  # frames that wait for the next one
        self._is_writing = False
        self._waits_for_core = False
        self._has_unmarked_text = False
        self._main_thread = threading.get_ident()
        os.set_blocking(links.wire, False)

        self.stdout = TextStream(self, Port(1, PIPE_CHUNK), "<stdout>")
        self.stderr = TextStream(self, Port(2, PIPE_CHUNK), "<stderr>")
        self.current: TextStream | None = self.stdout  # only this one may have buffered text

    # Frames

    @property
    def is_connected(self) -> bool:
        """False in a process that user code forked; by the pid, as C code forks without a word."""
        return self.pid == os.getpid()

    def send(self, kind: int, payload: dict[str, Any], with_next: bool = False) -> None:
        """Sends a frame; all that was written before comes before it. May raise FrameTooLarge.

        @with_next: it may wait for the next frame or text, which is known to follow at once: each write
        wakes the core, and together they need one marker and one write.
        """
        data = wire.encode_payload(payload)
        with self.lock:
            self._flush_streams()
            self._held.append((kind, data))
            if with_next:
                self.current = None  # so that any text comes by switch_to
            else:
                self._send_held()
        if self.interrupt_waits:
            self.deliver_interrupt()

    def _send_held(self) -> None:
        linux.flush_c_stdout()
        frames, self._held = self._held, []
        self._queue.append(_Frames(frames))
        self._write_queue()

    # Text

    def write(self, port: Port, data: bytes) -> None:
        with self.lock:
            self._queue.append([(port, bytes(data))])
            self._has_unmarked_text = True
            failure = self._write_queue()
        if failure is not None:
            raise failure

    def switch_to(self, stream: TextStream) -> None:
        """Text to @stream follows text to the other one. The caller holds the lock."""
        if self._held:
            self._send_held()
        if self.current is not None and not self.current.closed:
            self.current.flush_quietly()
        if self._has_unmarked_text and self.is_connected:
            self._queue.append(_Frames([]))
            self._write_queue()
        self.current = stream

    def flush(self) -> None:
        """Brings out all that Python has buffered."""
        with self.lock:
            self._flush_streams()
            if self._held:
                self._send_held()

    def _flush_streams(self) -> None:
        for stream in (self.stdout, self.stderr):
            if not stream.closed:
                stream.flush_quietly()

    def arm_flusher(self) -> None:
        self.flusher_is_armed = True
        try:
            self.flusher.arm()
        except (RuntimeError, OSError):  # no thread to be had: the limit of processes
            self.flusher_is_armed = False
            self.line_credit = LINE_CREDIT

    def _on_tick(self) -> None:
        with self.lock:
            self.flusher_is_armed = False
            self.line_credit = LINE_CREDIT
            self.flush()

    # Cells

    def begin_cell(self, cell: int) -> None:
        self.cell = cell
        self.interrupt_waits = False
        self.line_credit = LINE_CREDIT

    def install_streams(self) -> None:
        for name in ("stdout", "stderr"):
            setattr(sys, name, getattr(self, name))
            setattr(sys, f"__{name}__", getattr(self, name))

    def repair_streams(self) -> None:
        """Makes good what the last cell closed."""
        try:
            os.fstat(0)
        except OSError:
            os.open(
                os.devnull, os.O_RDONLY
            )  # else a file or socket would get that number, and children read it
        for fd, mark in zip((1, 2), self._marks, strict=True):
            try:
                os.fstat(fd)
            except OSError:
                os.dup2(mark.fd, fd)
        for name, fd in (("stdout", 1), ("stderr", 2)):
            stream = getattr(self, name)
            if stream.closed:
                replacement = TextStream(self, Port(fd, PIPE_CHUNK), f"<{name}>")
                setattr(self, name, replacement)
                setattr(sys, f"__{name}__", replacement)
                if self.current is stream:
                    self.current = replacement
            if is_closed(getattr(sys, name, None)):
                setattr(sys, name, getattr(self, name))

    def flush_replaced_streams(self) -> None:
        """What user code has put into sys.stdout may have a buffer of its own."""
        for name in ("stdout", "stderr"):
            shown = getattr(sys, name, None)
            if shown is not getattr(self, name) and not is_closed(shown):
                try:
                    shown.flush()  # type: ignore[union-attr]
                except Exception:
                    pass  # it need not have one

    # Interrupts

    def must_not_be_interrupted(self) -> bool:
        """Asked by the signal handler, in the main thread."""
        return self.lock._is_owned() and not self._waits_for_core  # type: ignore[attr-defined]

    def deliver_interrupt(self) -> None:
        if threading.get_ident() == self._main_thread and not self.must_not_be_interrupted():
            self.interrupt_waits = False
            raise KeyboardInterrupt

    # Forks

    def become_child(self) -> None:
        """In a process that user code forked: no wire, no markers, nothing of the parent's text."""
        links, self._links = self._links, None
        if links is None:
            return  # a child of a child
        links.close()
        self.lock = threading.RLock()
        self._queue.clear()
        self._held.clear()
        self.current = self.current or self.stdout
        self._is_writing = self._waits_for_core = False
        for stream in (self.stdout, self.stderr):
            if not stream.closed:
                stream.discard()
        # Each line goes out at once, without a flusher.
        self.line_credit = sys.maxsize
        self.flusher_is_armed = True

    # Writing

    def _write_queue(self) -> OSError | None:
        """Writes all that waits; returns the first error of fd 1 or 2. The caller holds the lock."""
        if self._is_writing:
            return None  # called from within a write: the outer call comes to it
        failure = None
        self._is_writing = True
        try:
            while self._queue:
                item = self._queue[0]
                if not isinstance(item, list):
                    # Numbered no earlier than now, so that numbers rise in the order of writing.
                    self._queue[0] = item = self._with_marks(item)
                while item:
                    port = item[0][0]
                    try:
                        self._write_piece(item)
                    except OSError as error:
                        if port is self._wire:
                            os._exit(1)  # no core, no kernel
                        if port not in self._marks:
                            failure = failure or error
                    del item[0]
                self._queue.popleft()
        finally:
            self._is_writing = False
        return failure

    def _with_marks(self, item: _Frames) -> list[tuple[Port, Any]]:
        number = self._number + 1
        mark = self._mark_head + number.to_bytes(4, "little") + b"\n"
        pieces: list[tuple[Port, Any]] = [(port, mark) for port in self._marks]
        if item.frames:
            frames = [wire.frame(kind, number, payload) for kind, payload in item.frames]
            pieces.append((self._wire, b"".join(frames)))
        self._has_unmarked_text = False
        self._number = number
        return pieces

    def _write_piece(self, item: list[tuple[Port, Any]]) -> None:
        port, data = item[0]
        view = memoryview(data)
        written = [0]
        try:
            while (done := sum(written)) < len(view):
                written[:] = (done,)
                self._waits_for_core = True
                port.wait()
                self._waits_for_core = False
                try:
                    # One call in C that writes and counts: no signal handler gets in between.
                    written.extend(map(os.write, (port.fd,), (view[done : done + port.chunk],)))
                except BlockingIOError:
                    pass
        except BaseException:
            self._waits_for_core = False
            item[0] = (port, view[sum(written) :])
            raise


def is_closed(stream: Any) -> bool:
    """Of anything that user code may have put into sys.stdout."""
    try:
        return stream is None or bool(getattr(stream, "closed", False))
    except Exception:
        return True  # a detached stream, a proxy with nothing behind it
