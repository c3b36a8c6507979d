# SPDX-License-Identifier: Apache-2.0
"""Calls a function when a module has been imported, or at once if it already was."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

Callback = Callable[[Any], None]


def when_imported(name: str, callback: Callback) -> None:
    module = sys.modules.get(name)
    if module is not None:
        callback(module)
        return
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            break
    else:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.callbacks[name] = callback


class _Finder(MetaPathFinder):
    """The first finder. For a module that a callback waits for, it asks the other finders."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callback] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        callback = self.callbacks.pop(name, None)
        if callback is None:
            return None
        if not self.callbacks and self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    _call_after_execution(spec.loader, callback)
                return spec
        return None


def _call_after_execution(loader: Loader, callback: Callback) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        execute(module)
        callback(module)

    try:
        loader.exec_module = exec_module  # type: ignore[method-assign]
    except AttributeError:
        pass  # the loader does not allow attributes
