# SPDX-License-Identifier: Apache-2.0
"""The packages `mcptools.NAME` of the tools that the application offers. They are not in files: the
core sends their sources when the kernel starts, and a finder makes modules of them.

They come before packages of the same name in a directory `mcptools`. A kernel that does not import
them compiles nothing.
"""

from __future__ import annotations

import importlib
import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType
from typing import Any

ROOT = "mcptools"
INIT = "__init__.py"
CATALOG = ".tools.jsonl"

Packages = dict[str, dict[str, str]]  # package → file → source


def offer(packages: Packages) -> None:
    """Makes the packages importable, in this process and in its forks."""
    sys.meta_path.insert(0, _Finder(packages))


def offered() -> Packages:
    """All packages; empty if the application offers none."""
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            return finder.packages
    return {}


def add_catalogs() -> None:
    """Adds the packages to what `mcptools.search()`, `mcptools.describe()` and `help()` know."""
    packages = offered()
    if packages:
        # By name: outside of kernels the package `ipybox` is another one.
        catalog: Any = importlib.import_module("ipybox.tool_exec.catalog")
        for name, files in packages.items():
            catalog.OFFERED[name] = files[CATALOG].encode()


class Directories(Sequence[str]):
    """The `__path__` of `mcptools`: the directories of this name in sys.path, as they are now."""

    def _find(self) -> list[str]:
        places = [os.path.join(entry or os.getcwd(), ROOT) for entry in sys.path]
        return [place for place in dict.fromkeys(places) if os.path.isdir(place)]

    def __len__(self) -> int:
        return len(self._find())

    def __getitem__(self, index: Any) -> Any:
        return self._find()[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._find())

    def __repr__(self) -> str:
        return repr(self._find())


class _Finder(MetaPathFinder):
    def __init__(self, packages: Packages) -> None:
        self.packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        parts = name.split(".")
        if parts[0] != ROOT or not 2 <= len(parts) <= 3:
            return None
        files = self.packages.get(parts[1])
        if files is None:
            return None
        is_package = len(parts) == 2
        file = INIT if is_package else f"{parts[2]}.py"
        source = files.get(file)
        if source is None:
            return None
        origin = f"<application>/{ROOT}/{parts[1]}/{file}"
        return ModuleSpec(name, _Loader(source, origin), origin=origin, is_package=is_package)


class _Loader(InspectLoader):
    """Loads a module from its source, which tracebacks and `inspect` find, too."""

    def __init__(self, source: str, origin: str) -> None:
        self._source = source
        self._origin = origin

    def get_source(self, fullname: str) -> str:
        return self._source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self._origin, "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:
        return self._origin.endswith(f"/{INIT}")

    def exec_module(self, module: Any) -> None:
        module.__file__ = self._origin
        lines = self._source.splitlines(keepends=True)
        linecache.cache[self._origin] = (len(self._source), None, lines, self._origin)
        super().exec_module(module)
