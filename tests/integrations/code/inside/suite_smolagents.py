# SPDX-License-Identifier: Apache-2.0
"""smolagents' own tests of remote executors, with ours."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator

import pytest
from ipybox.integrations.smolagents import IpyboxExecutor

sys.path.insert(0, os.path.join(os.environ["IPYBOX_TEST_SDISTS"], "smolagents"))
# The sdist does not have it.
for name in ("tests.utils", "tests.utils.markers"):
    sys.modules[name] = types.ModuleType(name)
vars(sys.modules["tests.utils.markers"])["require_run_all"] = lambda test: test

from tests import test_remote_executors  # noqa: E402


class TestIpybox(test_remote_executors.CommonDockerExecutorIntegration):
    @pytest.fixture
    def custom_executor(self) -> Iterator[IpyboxExecutor]:
        executor = IpyboxExecutor()
        yield executor
        executor.cleanup()
