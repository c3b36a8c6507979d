# SPDX-License-Identifier: Apache-2.0
"""The cell to which running code belongs: the cell that started it, even if that cell has ended.

It is a context variable. So tasks and callbacks of asyncio have it from the code that created them.
Threads do not inherit context variables; they get this one from what starts them: Thread.start()
and the method submit() of executors. Code that has no value, such as a thread that C code started,
belongs to the cell that runs.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from typing import Any

from .imports import when_imported

NONE = 0

_current: contextvars.ContextVar[int] = contextvars.ContextVar("ipybox_cell", default=NONE)

get = _current.get
set_cell = _current.set


def pass_to_threads() -> None:
    """From now on each thread belongs to the cell of the code that starts it."""
    thread_class: Any = threading.Thread
    start, bootstrap = thread_class.start, thread_class._bootstrap_inner

    def start_with_cell(self: Any) -> None:
        self._ipybox_cell = get()
        _prepare_context(self)
        start(self)

    def bootstrap_with_cell(self: Any) -> None:
        set_cell(getattr(self, "_ipybox_cell", NONE))
        bootstrap(self)

    start_with_cell.__doc__ = start.__doc__
    start_with_cell.__name__ = "start"
    thread_class.start, thread_class._bootstrap_inner = start_with_cell, bootstrap_with_cell
    when_imported("concurrent.futures.thread", _pass_to_work_items)


def _prepare_context(thread: Any) -> None:
    """From Python 3.14 on, a thread runs in a context of its own, which start() would make."""
    if not hasattr(thread, "_context"):
        return
    if thread._context is None:
        inherits = getattr(sys.flags, "thread_inherit_context", False)
        thread._context = contextvars.copy_context() if inherits else contextvars.Context()
    if _current not in thread._context:
        thread._context.run(set_cell, thread._ipybox_cell)


def _pass_to_work_items(module: Any) -> None:
    """The threads of a ThreadPoolExecutor belong to many cells, one after the other."""
    item_class = module._WorkItem
    init, run = item_class.__init__, item_class.run

    def init_with_cell(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self._ipybox_cell = get()

    def run_with_cell(self: Any, *args: Any, **options: Any) -> None:
        token = set_cell(self._ipybox_cell)
        try:
            run(self, *args, **options)
        finally:
            _current.reset(token)

    item_class.__init__, item_class.run = init_with_cell, run_with_cell
