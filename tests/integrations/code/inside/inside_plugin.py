# SPDX-License-Identifier: Apache-2.0
"""The plugin of our tests in the environment of the frameworks: coroutine functions are tests, and
after each test nothing of ipybox is left in the directory for temporary files."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ipybox.core import close_core


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session", autouse=True)
def core() -> Iterator[None]:
    yield
    close_core()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    gc.collect()
    left = list(Path(os.environ["TMPDIR"]).glob("ipybox-*"))
    assert not left


@pytest.fixture
def outside() -> Path:
    """A directory that a sandboxed kernel may not write."""
    directory = Path(os.environ["HOME"]) / "outside"
    directory.mkdir(exist_ok=True)
    return directory
