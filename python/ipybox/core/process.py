# SPDX-License-Identifier: Apache-2.0
"""The core as a process: its start, its pipes, its end.

A thread reads from the core, independently of event loops. It also writes what the pipe did not
accept at once, so sending never blocks. When the pipe to its stdin is closed, the core stops
everything that it started, and exits.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections import deque
from collections.abc import Callable

from .binary import find_binary
from .errors import CoreDiedError, CoreError
from .lines import LineCutter

READ_SIZE = 256 * 1024
# The most bytes that wait for a core that does not read.
MAX_BACKLOG_BYTES = 256 * 1024 * 1024
# A core that is ending is killed after this time. In order it ends within 15 seconds.
EXIT_TIMEOUT_S = 20.0


class _Waker:
    """A pipe that ends a poll. Its last reference closes it, so never while another thread runs
    `wake`: that thread would write to a file that has got the same number."""

    def __init__(self) -> None:
        self._fds = os.pipe()
        for fd in self._fds:
            os.set_blocking(fd, False)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        fds, self._fds = self._fds, (-1, -1)
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def fileno(self) -> int:
        return self._fds[0]

    def clear(self) -> None:
        os.read(self._fds[0], 4096)

    def wake(self) -> None:
        try:
            os.write(self._fds[1], b".")
        except OSError:
            pass  # the pipe is full: the thread wakes anyway


class Process:
    """The running core. All functions that it is created with are called in its thread."""

    def __init__(
        self,
        on_line: Callable[[bytes], None],
        on_end: Callable[[str], None],
        idle_seconds: Callable[[], float | None],
        on_idle: Callable[[], None],
        on_wake: Callable[[], None],
    ) -> None:
        """
        Args:
            on_line: Receives each line from the core, without its newline.
            on_end: Called once, last, with the reason.
            idle_seconds: Returns the seconds until `on_idle` is called if nothing happens; None for
                never. It is called before each wait.
            on_idle: See `idle_seconds`.
            on_wake: Called after `wake`.

        Raises:
            FileNotFoundError: If the program does not exist.
            OSError: If it cannot be started.
        """
        self._on_line = on_line
        self._on_end = on_end
        self._idle_seconds = idle_seconds
        self._on_idle = on_idle
        self._on_wake = on_wake
        self._lock = threading.Lock()
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._is_closing = False
        # In a process session of its own, so that Ctrl-C reaches only the application, which ends
        # the core in order.
        self._popen = subprocess.Popen(
            [find_binary(), "rpc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        assert self._popen.stdin is not None and self._popen.stdout is not None
        self._stdin = self._popen.stdin.fileno()
        self._stdout = self._popen.stdout.fileno()
        os.set_blocking(self._stdin, False)
        self._waker: _Waker | None = _Waker()
        self._thread = threading.Thread(target=self._run, name="ipybox core", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def send(self, line: bytes) -> None:
        """Writes a line, now or as soon as the pipe has room. Never blocks.

        Raises:
            CoreDiedError: If the core has ended.
            CoreError: If more than MAX_BACKLOG_BYTES would wait.
        """
        with self._lock:
            if self._is_closing:
                raise CoreDiedError("the core has ended", "died")
            if self._backlog_bytes + len(line) > MAX_BACKLOG_BYTES:
                raise CoreError("the core does not read what is sent to it", "limit")
            rest = memoryview(line)
            if not self._backlog:
                rest = rest[self._write(rest) :]
            if rest:
                self._backlog.append(rest)
                self._backlog_bytes += len(rest)
                self.wake()

    def close(self) -> None:
        """Closes the lifeline; `on_end` follows. Lines that were not written yet are lost."""
        with self._lock:
            if not self._is_closing:
                self._is_closing = True
                self._popen.stdin.close()  # type: ignore[union-attr]
                self._backlog.clear()
                self.wake()

    def join(self) -> None:
        """Waits until the core has ended, at most EXIT_TIMEOUT_S after `close`."""
        self._thread.join()

    def forget(self) -> None:
        """In a forked child: closes what belongs to the parent."""
        for stream in (self._popen.stdin, self._popen.stdout):
            try:
                stream.close()  # type: ignore[union-attr]
            except OSError:
                pass
        waker, self._waker = self._waker, None
        if waker is not None:
            waker.close()  # the thread that uses it does not exist in this process
        self._popen.returncode = 0

    # The thread

    def _run(self) -> None:
        cutter = LineCutter()
        reason = ""
        try:
            while self._iterate(cutter):
                pass
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        status = self._finish()
        self._on_end(reason or status)

    def _iterate(self, cutter: LineCutter) -> bool:
        """Waits for an event and handles it. False: the core has ended."""
        waker = self._waker
        assert waker is not None  # until the last iteration
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        poll.register(waker, select.POLLIN)
        with self._lock:
            if self._backlog:
                poll.register(self._stdin, select.POLLOUT)
            is_closing = self._is_closing
        wait = EXIT_TIMEOUT_S if is_closing else self._idle_seconds()
        ready = dict(poll.poll(None if wait is None else max(0.0, wait) * 1000))
        if not ready:
            if is_closing:
                return False
            self._on_idle()
            return True
        if waker.fileno() in ready:
            waker.clear()
            self._on_wake()
        if self._stdin in ready:
            self._flush()
        if self._stdout in ready:
            data = os.read(self._stdout, READ_SIZE)
            if not data:
                return False
            for line in cutter.feed(data):
                self._on_line(line)
        return True

    def _flush(self) -> None:
        with self._lock:
            while self._backlog and not self._is_closing:
                chunk = self._backlog[0]
                n_written = self._write(chunk)
                self._backlog_bytes -= n_written
                if n_written < len(chunk):
                    self._backlog[0] = chunk[n_written:]
                    break
                self._backlog.popleft()

    def _write(self, data: memoryview) -> int:
        """Writes with the lock held, and returns the number of bytes.

        A broken pipe counts as written; reading notices that the core has ended.
        """
        try:
            return os.write(self._stdin, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def wake(self) -> None:
        """Wakes the thread. Takes no lock."""
        waker = self._waker
        if waker is not None:
            waker.wake()

    def _finish(self) -> str:
        """Waits for the process, kills it if it takes too long, and returns how it ended."""
        self.close()
        status: int | None = None
        try:
            status = self._popen.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        with self._lock:
            self._popen.stdout.close()  # type: ignore[union-attr]
            self._waker = None
        if status is None:
            return "it did not end, and was killed"
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"
