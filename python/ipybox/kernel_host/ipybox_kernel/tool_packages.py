# SPDX-License-Identifier: Apache-2.0
"""Gives the namespace package `mcptools` functions that find and describe tools, when it is first
imported, and `help()` a short text for what is in it.

The functions are in `ipybox.tool_exec.catalog`, which is imported then. A kernel that calls no
tools imports nothing.

If the application offers tools (`application_packages`), `mcptools` can be imported although there
is no directory of this name.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Sequence
from importlib import _bootstrap_external
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from . import application_packages

NAME = application_packages.ROOT

# Since Python 3.11 it has a public name.
_NamespaceLoader: Any = getattr(
    _bootstrap_external, "NamespaceLoader", getattr(_bootstrap_external, "_NamespaceLoader", None)
)


def watch() -> None:
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Asks the other finders. If they find a namespace package, it gets the functions."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        if name != NAME:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is None and spec.submodule_search_locations is not None:
                    spec.loader = _Loader(spec.submodule_search_locations)
                return spec
        if not application_packages.offered():
            return None
        directories: Any = application_packages.Directories()
        spec = ModuleSpec(NAME, _Loader(directories), is_package=True)
        spec.submodule_search_locations = directories
        return spec


class _Loader(_NamespaceLoader):
    def __init__(self, locations: Any) -> None:
        # As importlib does it: the constructor would compute the locations again.
        self._path = locations

    def __repr__(self) -> str:  # in that of the module
        return "namespace"

    def exec_module(self, module: Any) -> None:
        # By name: outside of kernels the package `ipybox` is another one.
        catalog: Any = importlib.import_module("ipybox.tool_exec.catalog")
        module.__file__ = None  # as in each namespace package
        application_packages.add_catalogs()
        catalog.add_functions(module)
        if not isinstance(builtins.help, _Help):
            vars(builtins)["help"] = _Help(builtins.help, catalog.help_text)


class _Help:
    """`help`, which is short for generated modules."""

    def __init__(self, stock: Any, short: Any) -> None:
        self._stock = stock
        self._short = short

    def __repr__(self) -> str:
        return repr(self._stock)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            text = self._short(args[0])
            if text is not None:
                print(text)
                return None
        return self._stock(*args, **kwargs)
