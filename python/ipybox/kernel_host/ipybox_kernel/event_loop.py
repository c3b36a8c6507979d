# SPDX-License-Identifier: Apache-2.0
"""The kernel's event loop, which also works when the user has no watches of epoll left."""

from __future__ import annotations

import asyncio
import errno
import selectors
from collections.abc import Mapping
from typing import Any


def new_event_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(Selector())


class Selector(selectors.BaseSelector):
    """The system's best selector; from the first registration that it has no room for, poll.

    Linux limits the watches of epoll for each user (fs.epoll.max_user_watches), in all programs.
    """

    def __init__(self) -> None:
        self._use(selectors.DefaultSelector())

    def _use(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        # The loop calls it all the time: directly.
        self.select = selector.select  # type: ignore[method-assign]

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        try:
            return self._selector.register(fileobj, events, data)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        self._change_to_poll()
        return self._selector.register(fileobj, events, data)

    def _change_to_poll(self) -> None:
        before = self._selector
        poll = selectors.PollSelector()
        for key in before.get_map().values():
            poll.register(key.fileobj, key.events, key.data)
        self._use(poll)
        before.close()

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._selector.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._selector.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> Any:
        return self._selector.select(timeout)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._selector.get_key(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._selector.get_map()

    def close(self) -> None:
        self._selector.close()
