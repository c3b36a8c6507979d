# SPDX-License-Identifier: Apache-2.0
"""The thread that flushes buffered text while a cell runs for a long time.

It sleeps on a timerfd without the GIL. The timer is set when text is buffered, so the thread wakes
only if text may have been buffered for INTERVAL_NS. Setting the timer does not slow down a short
cell. It is not a thread of `threading`, so user code that counts threads does not see it. It ends
before each fork, so Python does not warn about forks with threads.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable

from .linux import Timer

INTERVAL_NS = 20_000_000
STOP_TIMEOUT_S = 1.0
MAX_YIELDS = 10_000


class Flusher:
    def __init__(self, tick: Callable[[], None], lowest_fd: int) -> None:
        self._tick = tick
        self._lowest_fd = lowest_fd
        self._timer: Timer | None = None
        self._has_ended = _thread.allocate_lock()
        self._stopping = False
        self._native_id = 0

    def arm(self) -> None:
        """Requests a tick after the interval. RuntimeError or OSError: no thread can be started."""
        if self._timer is None:
            self._start()
        self._timer.set(INTERVAL_NS)  # type: ignore[union-attr]

    def _start(self) -> None:
        timer = Timer(self._lowest_fd)
        self._stopping = False
        self._has_ended.acquire()
        try:
            _thread.start_new_thread(self._run, (timer,))
        except RuntimeError:
            self._has_ended.release()
            timer.close()
            raise
        self._timer = timer

    def _run(self, timer: Timer) -> None:
        self._native_id = _thread.get_native_id()
        try:
            while True:
                timer.wait()
                if self._stopping:
                    return
                self._tick()
        except OSError:
            pass  # user code closed the timer's fd
        finally:
            self._has_ended.release()

    def stop(self) -> None:
        """Ends the thread and waits until it is removed. The caller must not hold its locks."""
        timer, self._timer = self._timer, None
        if timer is None:
            return
        self._stopping = True
        timer.set(1)
        if self._has_ended.acquire(timeout=STOP_TIMEOUT_S):
            self._has_ended.release()
            # Python's part has ended. The system removes the thread some microseconds later.
            task = f"/proc/self/task/{self._native_id}"
            for _ in range(MAX_YIELDS):
                if not os.path.exists(task):
                    break
                os.sched_yield()
        timer.close()
