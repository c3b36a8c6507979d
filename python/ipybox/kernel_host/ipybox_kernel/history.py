# SPDX-License-Identifier: Apache-2.0
"""IPython's history without its database: the inputs and outputs of the session, in memory."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Any

from IPython.core.history import HistoryManager


class KernelHistory(HistoryManager):
    # IPython does not record exit(), which ends it. Here that would shift the numbers of In.
    _exit_re = re.compile(r"(?!)")

    def __init__(self, **traits: Any) -> None:
        super().__init__(hist_file=":memory:", enabled=False, **traits)

    def _lines(self, raw: bool, output: bool) -> list[tuple[int, int, Any]]:
        inputs = self.input_hist_raw if raw else self.input_hist_parsed
        lines = []
        for number, text in enumerate(inputs):
            if number > 0:
                item = (text, self.output_hist_reprs.get(number)) if output else text
                lines.append((0, number, item))
        return lines

    def get_tail(
        self,
        n: int | None = 10,
        raw: bool = True,
        output: bool = False,
        include_latest: bool = False,
    ) -> list[tuple[int, int, Any]]:
        lines = self._lines(raw, output)
        if not include_latest:
            lines = lines[:-1]
        count = 10 if n is None else n
        return lines[-count:] if count > 0 else []

    def search(
        self,
        pattern: str = "*",
        raw: bool = True,
        search_raw: bool = True,
        output: bool = False,
        n: int | None = None,
        unique: bool = False,
    ) -> Iterator[tuple[int, int, Any]]:
        searched = self.input_hist_raw if search_raw else self.input_hist_parsed
        found: dict[Any, tuple[int, int, Any]] = {}
        for line in self._lines(raw, output):
            if fnmatch.fnmatchcase(searched[line[1]], pattern):
                key = line[2] if unique else line[1]
                found.pop(key, None)  # of equal lines, keep the latest
                found[key] = line
        lines = list(found.values())
        return iter(lines if n is None else lines[-n:])

    def store_inputs(self, *args: Any, **kwargs: Any) -> None:
        # IPython takes locks here, and an interrupt would leave them locked.
        with self.shell.interrupts.deferred():
            super().store_inputs(*args, **kwargs)

    def store_output(self, line_num: int) -> None:
        pass

    def writeout_cache(self, conn: Any = None) -> None:
        pass

    def end_session(self) -> None:
        pass
