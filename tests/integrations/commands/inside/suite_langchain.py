# SPDX-License-Identifier: Apache-2.0
"""LangChain's own tests of sandboxes for deep agents, with ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from deepagents.backends.protocol import SandboxBackendProtocol
from ipybox.integrations.deepagents import IpyboxSandbox
from langchain_tests.integration_tests import SandboxIntegrationTests


class TestIpyboxSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[SandboxBackendProtocol]:
        with IpyboxSandbox() as sandbox:
            yield sandbox
