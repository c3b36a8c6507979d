# SPDX-License-Identifier: Apache-2.0
"""Creates the shell in the forkserver and warms it up.

So the first cell and the first traceback of a kernel are as fast as the tenth.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import types
from typing import Any

from . import blas, plots

# For the forkserver itself. A kernel has its own environment.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MPLBACKEND": plots.BACKEND,
    "NO_COLOR": "1",
    "TERM": "dumb",
}
# Generated tool APIs import it.
ALWAYS_PRELOADED = ["pydantic"]


def make_shell() -> Any:
    import_ipython()
    from . import kernel, rehearsal  # noqa: F401  what a kernel needs besides
    from .shell import make_shell as make

    shell = make()
    rehearsal.run(shell, is_whole=True)
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
