# SPDX-License-Identifier: Apache-2.0
"""Runs cells, one at a time: synchronous ones directly, asynchronous ones as a task of the loop.

The last frame of each cell is a `done` frame, even if the cell fails in an unusual way.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
from collections.abc import Callable
from typing import Any

from . import current_cell, inspection, user_processes
from .interrupts import Interrupts
from .output import Output


class CellRunner:
    def __init__(
        self,
        shell: Any,
        output: Output,
        interrupts: Interrupts,
        loop: asyncio.AbstractEventLoop,
        on_done: Callable[[], None],
    ) -> None:
        self.is_busy = False
        self.returns_to: str | None = None  # the working directory after each cell
        self._shell = shell
        self._output = output
        self._interrupts = interrupts
        self._loop = loop
        self._on_done = on_done
        # All cells share one context, so that settings such as decimal.getcontext() are kept.
        self._context = contextvars.copy_context()

    def start(
        self, cell: int, code: str, store_history: bool, silent: bool, expressions: dict[str, str]
    ) -> None:
        """Runs the cell, or starts its task if it awaits something. At its end calls on_done."""
        self.is_busy = True
        self._silent = silent
        self._expressions = expressions
        self._output.begin_cell(cell)
        self._shell.begin_cell()
        self._context.run(self._start, code, store_history and not silent, silent)

    def start_handlers(self, cell: int, handle: Callable[[], None]) -> None:
        """Runs what handles a comm message of the client, like a cell without code."""
        self.is_busy = True
        self._output.begin_cell(cell)
        self._shell.begin_comm()
        self._context.run(self._handle, handle)

    def _handle(self, handle: Callable[[], None]) -> None:
        error = None
        current_cell.set_cell(self._output.cell)
        try:
            self._output.repair_streams()
            self._interrupts.install()
            forget_missing_folders()
            self._interrupts.enter()
            handle()
            self._output.flush_replaced_streams()
        except BaseException as caught:
            error = caught
        finally:
            self._interrupts.is_running = False
            if not self._output.is_connected:
                user_processes.exit_child(self._output, error)
            self._interrupts.leave()
            self._interrupts.guard_handlers()
            self._send_end(error, None)

    def _start(self, code: str, store_history: bool, silent: bool) -> None:
        result = error = cell = None
        is_async = False
        current_cell.set_cell(self._output.cell)
        try:
            # User code may have changed something that makes one of these fail. That is the cell's
            # error.
            self._output.repair_streams()
            self._interrupts.install()
            forget_missing_folders()
            self._interrupts.enter()
            transformed, failure = self._transform(code)
            is_async = self._shell.should_run_async(
                code, transformed_cell=transformed, preprocessing_exc_tuple=failure
            )
            cell = self._shell.run_cell_async(
                code,
                store_history=store_history,
                silent=silent,
                transformed_cell=transformed,
                preprocessing_exc_tuple=failure,
            )
            if is_async:
                self._start_task(cell)
            else:
                result = drive(cell)
        except BaseException as caught:
            is_async = False
            error = caught
            if cell is not None:
                cell.close()
        finally:
            if not is_async:
                # An assignment, because an interrupt could still happen during a call.
                self._interrupts.is_running = False
                self._finish(result, error)

    def _transform(self, code: str) -> tuple[str, Any]:
        try:
            return self._shell.transform_cell(code), None
        except Exception:
            return code, sys.exc_info()

    def _start_task(self, cell: Any) -> None:
        self._interrupts.is_running = False  # until there is a task to cancel
        if sys.version_info >= (3, 11):
            task = self._loop.create_task(cell, context=self._context)
        else:
            task = self._loop.create_task(cell)
        task.add_done_callback(self._on_task_done, context=self._context)
        self._interrupts.enter_task(task)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        try:
            self._finish(task.result(), None)
        except BaseException as error:
            if not self.is_busy:
                raise
            self._finish(None, error)

    def _finish(self, result: Any, error: BaseException | None) -> None:
        if result is not None:
            error = result.error_before_exec or result.error_in_exec
        if isinstance(error, GeneratorExit) and self._interrupts.was_requested:
            error = KeyboardInterrupt()
        if not self._output.is_connected:
            user_processes.exit_child(self._output, error)
        values: dict[str, Any] | None = None
        try:
            self._interrupts.enter_callbacks()
            self._output.flush_replaced_streams()
            self._shell.trigger_post_events(result, self._silent)
            if self._expressions and error is None and self._shell.error_of_value is None:
                values = inspection.evaluate(self._shell, self._expressions)
        except BaseException as caught:
            error = error or caught
        finally:
            self._interrupts.is_running = False
            self._interrupts.leave()
            self._interrupts.guard_handlers()
            self._send_end(error, values)

    def _send_end(self, error: BaseException | None, values: dict[str, Any] | None) -> None:
        shell, output = self._shell, self._output
        if error is not None and not shell.error_was_sent:
            if shell.error_was_shown:
                shell.send_shown_error(error)
            else:
                shell.send_bare_error(error)
        error = error or shell.error_of_value
        status = "ok"
        if error is not None:
            status = "interrupted" if self._was_interrupted(error) else "error"
        has_returned = self._return_to_directory()
        done: dict[str, Any] = {
            "cell": output.cell,
            "status": status,
            "execution_count": shell.execution_count - 1,
            "cwd": working_directory(),
        }
        if has_returned:
            done["cwd_reset"] = True
        if values is not None:
            done["user_expressions"] = values
        if payload := shell.take_payload():
            done["payload"] = payload
        try:
            output.end_cell(done)
        finally:
            self.is_busy = False
            self._on_done()

    def _return_to_directory(self) -> bool:
        """Whether the cell had changed it."""
        if self.returns_to is None or working_directory() == self.returns_to:
            return False
        try:
            os.chdir(self.returns_to)
        except OSError:
            return False  # it was removed; `cwd` says where the kernel is
        return True

    def _was_interrupted(self, error: BaseException) -> bool:
        by_us = isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
        return by_us and self._interrupts.was_requested


def drive(cell: Any) -> Any:
    """Runs a coroutine that does not wait."""
    try:
        cell.send(None)
    except StopIteration as end:
        return end.value
    cell.close()
    raise RuntimeError("this cell waits for something, but has no await")


def forget_missing_folders() -> None:
    """Makes imports look again for missing folders: an install may have created them."""
    cache = sys.path_importer_cache
    if not isinstance(cache, dict):
        return  # user code has replaced it
    for path, finder in list(cache.items()):  # a copy, because threads may import
        if finder is None:
            cache.pop(path, None)


def working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # it was removed
