# SPDX-License-Identifier: Apache-2.0
"""Payload: what a front end of Jupyter is asked to do after a cell. It is sent with `done`.

A page is a text of the pager, as of `print?`. `set_next_input` puts a text into the next cell.
"""

from __future__ import annotations

import json
from typing import Any

from IPython.core.payload import PayloadManager

from . import mime

# Limits of the core.
MAX_ITEMS = 16
MAX_SIZE = 8 << 20
# JSON values. The core's limit is that of the whole frame.
MAX_VALUES = 50_000


class PayloadTooLarge(ValueError):
    pass


class KernelPayload(PayloadManager):
    """IPython's manager, to which code may write any item, with limits."""

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self._items: list[dict[str, Any]] = []

    def write_payload(self, data: dict[str, Any], single: bool = True) -> None:
        """Adds an item. With `single`, it replaces an item of the same source."""
        source = data.get("source") if isinstance(data, dict) else None
        if not isinstance(source, str) or "\0" in source:
            raise TypeError("a payload must be a dict with a string 'source' without NUL")
        items = [each for each in self._items if not single or each["source"] != source]
        items.append(mime.conform_json(dict(data)))
        if len(items) > MAX_ITEMS:
            raise PayloadTooLarge(f"a cell can send {MAX_ITEMS} payloads at most")
        if mime.count_values(items) > MAX_VALUES or not isinstance(items[-1], dict):
            raise PayloadTooLarge(f"the payloads of a cell have {MAX_VALUES} JSON values at most")
        text = json.dumps(items)  # at least as large as it will be in the frame
        if len(text) > MAX_SIZE:
            raise PayloadTooLarge(
                f"the payloads of a cell would have {len(text)} bytes; {MAX_SIZE} is the limit"
            )
        self._items = json.loads(text)  # a copy, which code cannot change

    def read_payload(self) -> list[dict[str, Any]]:
        return list(self._items)

    def clear_payload(self) -> None:
        self._items = []
