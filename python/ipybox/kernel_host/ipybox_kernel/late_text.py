# SPDX-License-Identifier: Apache-2.0
"""Text of code whose cell has ended. It is sent in frames that name the cell."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

# Characters of one frame.
MAX_FRAME_TEXT = 1 << 20


class LateText:
    def __init__(self) -> None:
        self.size = 0  # characters
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._decoders: dict[tuple[int, str], codecs.IncrementalDecoder] = {}

    def add(self, cell: int, name: str, text: str) -> None:
        """@name: "stdout" or "stderr"."""
        self._pieces.setdefault((cell, name), []).append(text)
        self.size += len(text)

    def add_bytes(self, cell: int, name: str, data: bytes) -> None:
        """A character may come in several pieces."""
        key = cell, name
        decoder = self._decoders.pop(key, None) or codecs.getincrementaldecoder("utf-8")("replace")
        self.add(cell, name, decoder.decode(data))
        if decoder.getstate()[0]:
            self._decoders[key] = decoder

    def take(self) -> Iterator[dict[str, Any]]:
        """The content of frames."""
        pieces, self._pieces, self.size = self._pieces, {}, 0
        for (cell, name), parts in pieces.items():
            text = "".join(parts).encode("utf-8", "backslashreplace").decode()
            for start in range(0, len(text), MAX_FRAME_TEXT):
                yield {"cell": cell, "name": name, "text": text[start : start + MAX_FRAME_TEXT]}
