# SPDX-License-Identifier: Apache-2.0
"""Creates the shell in the forkserver and warms it up.

So the first cell and the first traceback of a kernel are as fast as the tenth.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import sys
import types
from typing import Any

from . import blas, event_loop, plots

# For the forkserver itself. A kernel has its own environment.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MPLBACKEND": plots.BACKEND,
    "NO_COLOR": "1",
    "TERM": "dumb",
}
# Generated tool APIs import it.
ALWAYS_PRELOADED = ["pydantic"]

CELLS = (
    "1",
    "'a'",
    "[1, 2]",
    "x = 1\nprint(x, end='')",
    "def f():\n    return 1 / 0\nf()",
    "import warnings\n1 +",
)
ASYNC_CELL = "import asyncio\nawait asyncio.sleep(0)"


def make_shell() -> Any:
    import_ipython()
    from . import cells, kernel  # noqa: F401  what a kernel needs besides
    from .shell import make_shell as make

    shell = make()
    run_cells(shell)
    forget_folders()
    settle()
    return shell


def import_ipython() -> None:
    """Imports IPython without the terminal and jedi, which older versions import without need."""
    embed_name = "IPython.terminal.embed"
    stub = types.ModuleType(embed_name)
    stub.embed = _embed  # type: ignore[attr-defined]
    sys.modules[embed_name] = stub
    block_jedi = "jedi" not in sys.modules
    if block_jedi:
        sys.modules["jedi"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("IPython")
        importlib.import_module("IPython.core.completer")
    finally:
        del sys.modules[embed_name]
        if block_jedi:
            del sys.modules["jedi"]


def _embed(**kwargs: Any) -> Any:
    return importlib.import_module("IPython.terminal.embed").embed(**kwargs)


class _NoOutput:
    """Replaces the kernel's output during the warm-up."""

    is_connected = True
    cell = 0

    def is_late(self) -> bool:
        return False

    def send(self, kind: int, payload: dict[str, Any], with_next: bool = False) -> None:
        from . import wire

        wire.encode_payload(payload)

    send_of_caller = send


class _NoInterrupts:
    was_requested = False

    def ignored(self) -> Any:
        return contextlib.nullcontext()

    deferred = ignored

    def allow_repetition(self) -> None:
        pass


def run_cells(shell: Any) -> None:
    from . import cells

    shell.output, shell.interrupts = _NoOutput(), _NoInterrupts()
    for code in CELLS:
        shell.begin_cell()
        transformed = shell.transform_cell(code)
        shell.should_run_async(code, transformed_cell=transformed)
        coroutine = shell.run_cell_async(code, store_history=True, transformed_cell=transformed)
        with contextlib.redirect_stdout(io.StringIO()):
            result = cells.drive(coroutine)
        shell.trigger_post_events(result, silent=False)
    loop = event_loop.new_event_loop()
    try:
        coroutine = shell.run_cell_async(
            ASYNC_CELL, store_history=True, transformed_cell=shell.transform_cell(ASYNC_CELL)
        )
        loop.run_until_complete(coroutine)
    finally:
        loop.close()
    shell.forget()


def preload(name: str, shell: Any) -> str | None:
    """Imports a module. Returns an error message, or None."""
    threads = _thread_count()
    try:
        try:
            importlib.import_module(name)
            if name.partition(".")[0] == "matplotlib":
                importlib.import_module(plots.BACKEND_MODULE)
        finally:
            forget_folders()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    shell.blas_thread_setters = blas.find_thread_setters()
    started = _thread_count() - threads
    if started > 0:
        return f"it started {started} thread(s), which a kernel does not have"
    return None


def _thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


def settle() -> None:
    """Hides all objects from the garbage collector, so that it does not write to shared pages."""
    gc.collect()
    gc.freeze()


def forget_folders() -> None:
    """Clears the caches of folders, so that a kernel finds packages that were installed later.

    If the kernel cleared them, or checked the entries for missing folders, it would write to a
    shared page for each entry.
    """
    importlib.invalidate_caches()
    sys.path_importer_cache.clear()
