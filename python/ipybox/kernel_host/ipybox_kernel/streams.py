# SPDX-License-Identifier: Apache-2.0
"""sys.stdout and sys.stderr of a kernel: text streams over fds 1 and 2.

They are real io.TextIOWrapper objects, whose buffer in C makes printing fast, and that everything which
looks closely at sys.stdout knows. Below them lies a `_Sink`, which hands the bytes to `Output`, the one
place that writes. All state is guarded by the output's lock.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .output import Output, Port

BUFFER_SIZE = 65536

_write_text = io.TextIOWrapper.write
_flush_text = io.TextIOWrapper.flush


class TextStream(io.TextIOWrapper):
    mode = "w"

    def __init__(self, output: Output, port: Port, name: str) -> None:
        self._sink = _Sink(output, port, name)
        # A print must never fail because of a lone surrogate.
        super().__init__(self._sink, "utf-8", "backslashreplace", newline="\n")
        self._CHUNK_SIZE = BUFFER_SIZE
        self._output = output
        self._byte_stream = _ByteStream(self)

    def write(self, text: str) -> int:
        output = self._output
        with output.lock:
            if output.current is not self:
                output.switch_to(self)
            count = _write_text(self, text)
            # A line is written at once as long as lines are few, so that it stands before what C code
            # and child processes write next, and is not lost when the process dies. A flood of them is
            # collected; the flusher comes for it.
            if text.endswith("\n") and output.line_credit > 0:
                output.line_credit -= 1
                _flush_text(self)
            elif not output.flusher_is_armed:
                output.arm_flusher()
        if output.interrupt_waits:
            output.deliver_interrupt()
        return count

    def flush(self) -> None:
        with self._output.lock:
            _flush_text(self)
        if self._output.interrupt_waits:
            self._output.deliver_interrupt()

    def close(self) -> None:
        with self._output.lock:
            super().close()

    @property
    def buffer(self) -> Any:
        if self._byte_stream.closed and not self.closed:
            # By a wrapper of it that is no longer used.
            self._byte_stream = _ByteStream(self)
        return self._byte_stream

    def detach(self) -> Any:
        """The bytes, for a wrapper with another encoding. This stream stays: the kernel writes with it."""
        self.flush()
        return self.buffer

    # For our own side of it

    def write_bytes(self, data: bytes) -> None:
        """Writes after the text that came before."""
        output = self._output
        with output.lock:
            if output.current is not self:
                output.switch_to(self)
            _flush_text(self)
            self._sink.write(data)
        if output.interrupt_waits:
            output.deliver_interrupt()

    def flush_quietly(self) -> None:
        """For the moments at which nobody could be told that fd 1 is closed."""
        try:
            _flush_text(self)
        except (OSError, ValueError):
            pass

    def discard(self) -> None:
        """Forgets buffered text."""
        self._sink.is_discarding = True
        self.flush_quietly()
        self._sink.is_discarding = False


class _Sink(io.BufferedIOBase):
    """Where a text stream's C code puts its bytes. Closing it does not close the fd."""

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
