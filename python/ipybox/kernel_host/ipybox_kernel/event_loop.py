# SPDX-License-Identifier: Apache-2.0
"""The kernel's event loop, which also works when the user has no watches of epoll left."""

from __future__ import annotations

import asyncio
import errno
import selectors
import signal
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

    def renew(self) -> None:
        """The same registrations, in an object that no other process shares."""
        before = self._selector
        keys = list(before.get_map().values())
        before.close()
        self._use(type(before)())
        for key in keys:
            self.register(key.fileobj, key.events, key.data)

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


def descriptors(loop: Any) -> set[int]:
    """Those of the loop itself."""
    found = {loop._ssock.fileno(), loop._csock.fileno()}
    selector = loop._selector
    if isinstance(selector, Selector):
        selector = selector._selector
    return {*found, *([selector.fileno()] if hasattr(selector, "fileno") else [])}


def renew(loop: Any, wakeup_fd: int) -> None:
    """Gives the loop of a forked process descriptors of its own.

    Both processes share the system's epoll object. So nothing may be removed from it here: that
    would also remove it from the loop of the other process.

    @wakeup_fd: the descriptor that signals wrote to before the fork; -1: none.
    """
    loop._selector.renew()
    was_own = wakeup_fd >= 0 and wakeup_fd == loop._csock.fileno()
    loop._close_self_pipe()
    loop._make_self_pipe()
    # Python's hooks have reset these in the child.
    asyncio.set_event_loop(loop)
    asyncio._set_running_loop(loop)
    if wakeup_fd >= 0:
        fd = loop._csock.fileno() if was_own else wakeup_fd
        signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
