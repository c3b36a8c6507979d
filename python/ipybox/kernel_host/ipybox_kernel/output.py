# SPDX-License-Identifier: Apache-2.0
"""The output of a kernel, in order: text on fds 1 and 2, and frames on the wire.

The kernel also writes markers into the text, by which the core puts text and frames in one order
(docs/internals/kernel-wire.md). All output goes through one queue, and only one caller at a time
writes it. If a signal handler or a finalizer shows a display while a frame is being written, the
display waits in the queue. If the writing is interrupted, the queue keeps the rest. So no piece of
a stream is lost or written twice.

sys.stdout and sys.stderr are `TextStream`s over fds 1 and 2. They are real io.TextIOWrapper
objects: their buffer is written in C, which makes printing fast, and code that examines sys.stdout
recognises them. Below each is a `_Sink`, which passes the bytes to `Output`.

Locking: `lock` guards all state, also that of the streams. While the main thread holds the lock, an
interrupt is postponed until the lock is released (`interrupt_waits`). There is one exception: while
the main thread waits for the core to read, an interrupt is not postponed.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import current_cell, linux, wire
from .flusher import Flusher
from .late_text import LateText
from .pipes import Pipes

if TYPE_CHECKING:
    from .process import Links

# If poll reports that a pipe is writable, this many bytes fit. A larger write to a blocking pipe
# could wait.
PIPE_CHUNK = select.PIPE_BUF
WIRE_CHUNK = 1 << 20
# A cell may write this many lines at once between two ticks of the flusher. Further lines are
# buffered.
LINE_CREDIT = 100
TEXT_BUFFER_SIZE = 65536

_write_text = io.TextIOWrapper.write
_flush_text = io.TextIOWrapper.flush


class Port:
    """A descriptor that `wait` waits for."""

    def __init__(self, fd: int, chunk: int) -> None:
        self.fd = fd
        self.chunk = chunk
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        self.wait = poll.poll


@dataclass
class _Frames:
    """Frames with one marker before them, or only a marker."""

    frames: list[tuple[int, bytes]]


# An item of the queue: pieces with their ports, or frames that have no marker number yet.
_Item = list[tuple[Port, Any]] | _Frames


class Output:
    def __init__(self, links: Links, key: bytes) -> None:
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self.cell = 0  # the cell that runs; 0 between cells
        self.interrupt_waits = False
        self.line_credit = LINE_CREDIT
        self.flusher_is_armed = False
        self.flusher = Flusher(self._on_tick, links.lowest())
        self.pipes = Pipes(links)

        self._links: Links | None = links
        self._wire = Port(links.wire, WIRE_CHUNK)
        self._marks = (Port(links.stdout_marks, PIPE_CHUNK), Port(links.stderr_marks, PIPE_CHUNK))
        self._mark_head = b"\0" + key
        self._number = 0
        self._queue: deque[_Item] = deque()
        self._held: list[tuple[int, bytes]] = []  # frames that are sent with the next one
        self._late = LateText()
        self._is_writing = False
        self._waits_for_core = False
        self._has_unmarked_text = False
        self.is_branching = False  # a fork that happens now makes a branch
        self._main_thread = threading.get_ident()
        os.set_blocking(links.wire, False)

        self.stdout = TextStream(self, Port(1, PIPE_CHUNK), "<stdout>")
        self.stderr = TextStream(self, Port(2, PIPE_CHUNK), "<stderr>")
        self.current: TextStream | None = self.stdout  # no other stream has buffered text

    # Frames

    @property
    def is_connected(self) -> bool:
        """False in a process that user code, or C code without our hooks, has forked."""
        return self.pid == os.getpid()

    def send(self, kind: int, payload: dict[str, Any], with_next: bool = False) -> None:
        """Sends a frame, after everything that was written before. May raise FrameTooLarge.

        @with_next: the next frame or text follows at once, and the frame may be sent together with
        it. Each write wakes the core; together they need one marker and one write.
        """
        data = wire.encode_payload(payload)
        with self.lock:
            self._flush_streams()
            self._hold_late_text()
            self._held.append((kind, data))
            if with_next:
                self.current = None  # so that the next text calls switch_to
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
        """Orders text to @stream after text to the other stream. The caller holds the lock."""
        if self._held:
            self._send_held()
        if self.current is not None and not self.current.closed:
            self.current.flush_quietly()
        if self._has_unmarked_text and self.is_connected:
            self._queue.append(_Frames([]))
            self._write_queue()
        self.current = stream

    def flush(self) -> None:
        """Writes all that Python has buffered."""
        with self.lock:
            self._flush_streams()
            self._hold_late_text()
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
        except (RuntimeError, OSError):  # no thread: the limit of processes is reached
            self.flusher_is_armed = False
            self.line_credit = LINE_CREDIT

    def _on_tick(self) -> None:
        with self.lock:
            self.flusher_is_armed = False
            self.line_credit = LINE_CREDIT
            self.flush()

    def send_of_caller(self, kind: int, payload: dict[str, Any], with_next: bool = False) -> None:
        """Sends a frame of the cell to which the calling code belongs. May raise FrameTooLarge."""
        with self.lock:
            if kind == wire.RESULT and self.is_late():
                kind = wire.DISPLAY  # a cell that has ended has its result
            self.send(kind, {"cell": self.cell_of_caller(), **payload}, with_next)
        if self.interrupt_waits:
            self.deliver_interrupt()

    # Late text

    def is_late(self) -> bool:
        """Whether the calling code belongs to a cell that has ended."""
        cell = current_cell.get()
        return cell not in (current_cell.NONE, self.cell) and self.is_connected

    def cell_of_caller(self) -> int:
        return current_cell.get() or self.cell

    def write_late(self, stream: str, data: str | bytes) -> None:
        """The caller holds the lock."""
        newline: Any
        if isinstance(data, str):
            self._late.add(current_cell.get(), stream, data)
            newline = "\n"
        else:
            self._late.add_bytes(current_cell.get(), stream, data)
            newline = b"\n"
        if data.endswith(newline) and self.line_credit > 0:
            self.line_credit -= 1
            self.flush_late()
        elif self._late.size > TEXT_BUFFER_SIZE:
            self.flush_late()
        elif not self.flusher_is_armed:
            self.arm_flusher()

    def flush_late(self) -> None:
        with self.lock:
            self._hold_late_text()
            if self._held:
                self._send_held()

    def _hold_late_text(self) -> None:
        for payload in self._late.take():
            self._held.append((wire.STREAM, wire.encode_payload(payload)))

    # Cells

    def begin_cell(self, cell: int) -> None:
        self.cell = cell
        self.interrupt_waits = False
        self.line_credit = LINE_CREDIT

    def end_cell(self, done: dict[str, Any]) -> None:
        """Sends the last frame of the cell. From then on all of its output is late."""
        try:
            with self.lock:
                self.pipes.n_refusals = 0
                needs_pipes = self.pipes.must_be_replaced()
                self.send(wire.DONE, done, with_next=needs_pipes)
                cell, self.cell = self.cell, 0
                if needs_pipes:
                    self._ask_for_pipes(cell)
        finally:
            self.cell = 0  # also if the writing was interrupted
        if self.interrupt_waits:
            self.deliver_interrupt()

    # Pipes

    def has_own_pipes(self) -> bool:
        """Whether a cell can begin: no other process holds the pipes. Else it asks for new ones."""
        with self.lock:
            if self.pipes.must_be_replaced():
                self._ask_for_pipes(0)
            return not self.pipes.are_awaited

    def _ask_for_pipes(self, cell: int) -> None:
        """@cell: what other processes write to the old ones belongs to it."""
        self.pipes.are_shared, self.pipes.are_awaited = False, True
        self.send(wire.PIPES_WANTED, {"cell": cell})

    def take_pipes(self, fds: list[int]) -> None:
        """@fds: the ends of new pipes for stdout and stderr; empty: there are none."""
        with self.lock:
            self.pipes.are_awaited = False
            if fds:
                self.send(wire.PIPES_TAKEN, {})  # the last that is written to the old ones
                self.pipes.replace(fds)
            else:
                self.pipes.take_refusal()

    def install_streams(self) -> None:
        for name in ("stdout", "stderr"):
            setattr(sys, name, getattr(self, name))
            setattr(sys, f"__{name}__", getattr(self, name))

    def repair_streams(self) -> None:
        """Opens again what the last cell closed."""
        try:
            os.fstat(0)
        except OSError:
            # Otherwise a file or socket would get number 0, and child processes would read it.
            os.open(os.devnull, os.O_RDONLY)
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
        """Flushes the objects that user code has put into sys.stdout and sys.stderr."""
        for name in ("stdout", "stderr"):
            shown = getattr(sys, name, None)
            if shown is not getattr(self, name) and not is_closed(shown):
                try:
                    shown.flush()  # type: ignore[union-attr]
                except Exception:
                    pass  # the object need not have a flush()

    # Interrupts

    def must_not_be_interrupted(self) -> bool:
        """Called by the signal handler, in the main thread."""
        return self.lock._is_owned() and not self._waits_for_core  # type: ignore[attr-defined]

    def deliver_interrupt(self) -> None:
        if threading.get_ident() == self._main_thread and not self.must_not_be_interrupted():
            self.interrupt_waits = False
            raise KeyboardInterrupt

    # Forks

    def begin_branch(self) -> None:
        """Writes everything, so that the branch does not write it again."""
        self.flush_replaced_streams()
        self.flush()
        self.is_branching = True

    def become_branch(self, fds: list[int]) -> None:
        """In a branch: everything is written to other descriptors, which get the old numbers.

        @fds: the wire, and the pipes of stdout and stderr; they are taken.
        """
        links = self._links
        assert links is not None
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.is_branching = False
        os.dup2(fds[0], links.wire, inheritable=False)
        os.close(fds[0])
        self.pipes = Pipes(links)
        self.pipes.replace(fds[1:])
        self._queue.clear()
        self._held.clear()
        self._late = LateText()
        self._number = 0
        self._is_writing = self._waits_for_core = self._has_unmarked_text = False
        self.cell, self.interrupt_waits, self.line_credit = 0, False, LINE_CREDIT
        self.flusher_is_armed = False
        self.flusher = Flusher(self._on_tick, links.lowest())

    def connect_branch(self, key: bytes) -> None:
        self._mark_head = b"\0" + key
        os.set_blocking(self._wire.fd, False)

    def become_child(self) -> None:
        """In a process that user code forked: drops the wire, the markers and the parent's text."""
        if self.is_branching:
            return
        links, self._links = self._links, None
        if links is None:
            return  # a child of a child
        links.close()
        self.lock = threading.RLock()
        self._queue.clear()
        self._held.clear()
        self._late = LateText()
        self.current = self.current or self.stdout
        self._is_writing = self._waits_for_core = False
        for stream in (self.stdout, self.stderr):
            if not stream.closed:
                stream.discard()
        # Each line is written at once, without a flusher.
        self.line_credit = sys.maxsize
        self.flusher_is_armed = True

    # Writing

    def _write_queue(self) -> OSError | None:
        """Writes the queue; returns the first error of fd 1 or 2. The caller holds the lock."""
        if self._is_writing:
            return None  # called during a write: the outer call writes the new item, too
        failure = None
        self._is_writing = True
        try:
            while self._queue:
                item = self._queue[0]
                if not isinstance(item, list):
                    # Numbered only now, so that numbers increase in the order of writing.
                    self._queue[0] = item = self._with_marks(item)
                while item:
                    port = item[0][0]
                    try:
                        self._write_piece(item)
                    except OSError as error:
                        if port is self._wire:
                            os._exit(1)  # the core has ended
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
                    # One call in C writes and counts, so no signal handler runs in between.
                    written.extend(map(os.write, (port.fd,), (view[done : done + port.chunk],)))
                except BlockingIOError:
                    pass
        except BaseException:
            self._waits_for_core = False
            item[0] = (port, view[sum(written) :])
            raise


class TextStream(io.TextIOWrapper):
    mode = "w"

    def __init__(self, output: Output, port: Port, name: str) -> None:
        self._sink = _Sink(output, port, name)
        # A print must never fail because of a lone surrogate.
        super().__init__(self._sink, "utf-8", "backslashreplace", newline="\n")
        self._CHUNK_SIZE = TEXT_BUFFER_SIZE
        self._output = output
        self._byte_stream = _ByteStream(self)

    def write(self, text: str) -> int:
        output = self._output
        with output.lock:
            if output.is_late():
                count = self._write_late(text)
            else:
                count = self._write_now(text)
        if output.interrupt_waits:
            output.deliver_interrupt()
        return count

    def _write_now(self, text: str) -> int:
        output = self._output
        if output.current is not self:
            output.switch_to(self)
        count = _write_text(self, text)
        # The first lines are written at once, so that they come before what C code and child
        # processes write next, and are not lost if the process dies. Many lines are buffered until
        # the flusher's next tick.
        if text.endswith("\n") and output.line_credit > 0:
            output.line_credit -= 1
            _flush_text(self)
        elif not output.flusher_is_armed:
            output.arm_flusher()
        return count

    def _write_late(self, data: str | bytes) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        if not isinstance(data, (str, bytes)):
            raise TypeError(f"write() argument must be str, not {type(data).__name__}")
        self._output.write_late(self.name.strip("<>"), data)
        return len(data)

    def flush(self) -> None:
        with self._output.lock:
            _flush_text(self)
            self._output.flush_late()
        if self._output.interrupt_waits:
            self._output.deliver_interrupt()

    def close(self) -> None:
        with self._output.lock:
            super().close()

    @property
    def buffer(self) -> Any:
        if self._byte_stream.closed and not self.closed:
            # It was closed by a wrapper that is not used any more.
            self._byte_stream = _ByteStream(self)
        return self._byte_stream

    def detach(self) -> Any:
        """The byte stream, for a wrapper with another encoding. This stream stays usable."""
        self.flush()
        return self.buffer

    # For the kernel

    def write_bytes(self, data: bytes) -> None:
        """Writes bytes after the text that was written before."""
        output = self._output
        with output.lock:
            if output.is_late():
                self._write_late(data)
            else:
                if output.current is not self:
                    output.switch_to(self)
                _flush_text(self)
                self._sink.write(data)
        if output.interrupt_waits:
            output.deliver_interrupt()

    def flush_quietly(self) -> None:
        """Flushes where an error, for example because fd 1 is closed, cannot be reported."""
        try:
            _flush_text(self)
        except (OSError, ValueError):
            pass

    def discard(self) -> None:
        """Drops buffered text."""
        self._sink.is_discarding = True
        self.flush_quietly()
        self._sink.is_discarding = False


class _Sink(io.BufferedIOBase):
    """Receives the bytes of a text stream's C code. Closing it does not close the descriptor."""

    def __init__(self, output: Output, port: Port, name: str) -> None:
        self._output = output
        self._port = port
        self.name = name
        self.is_discarding = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._port.fd

    def write(self, data: Any) -> int:
        if not self.is_discarding:
            self._output.write(self._port, data)
        return len(data)


class _ByteStream(io.BufferedIOBase):
    """`sys.stdout.buffer`, as user code sees it."""

    mode = "wb"

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream
        self.name = stream.name

    @property
    def raw(self) -> Any:
        return self

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, data: Any) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        content = bytes(memoryview(data).cast("B"))
        self._stream.write_bytes(content)
        return len(content)

    def flush(self) -> None:
        if not self._stream.closed:
            self._stream.flush()


def is_closed(stream: Any) -> bool:
    """Whether a stream is closed; user code may have put any object into sys.stdout."""
    try:
        return stream is None or bool(getattr(stream, "closed", False))
    except Exception:
        return True  # a detached stream, or a proxy without an object
