# SPDX-License-Identifier: Apache-2.0
"""The adapters that run Python code: smolagents, DSPy, AutoGen."""

from __future__ import annotations

import harness
import pytest


def pytest_configure(config: pytest.Config) -> None:
    harness.prepare_process()
