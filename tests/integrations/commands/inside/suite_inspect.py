# SPDX-License-Identifier: Apache-2.0
"""Inspect's own checks of a sandbox, with ours. It is found by its entry point, as by a user."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def sandbox_env() -> AsyncIterator[SandboxEnvironment]:
    provider = registry_find_sandboxenv("ipybox")
    environments = await provider.sample_init("task", None, {})
    yield environments["default"]
    await provider.sample_cleanup("task", None, environments, False)
