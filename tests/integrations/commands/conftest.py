# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with frameworks that run commands in ipybox; tests/README.md lists them.

The tests run in the virtual environment of the frameworks (inside/), as a user would have it: with
the package `ipybox` installed, as far as its entry points and its files are concerned.
"""

from __future__ import annotations

import harness
import pytest


def pytest_configure(config: pytest.Config) -> None:
    harness.prepare_process()
