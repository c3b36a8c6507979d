# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI's own rules for workspaces, with ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from ipybox.integrations.pydantic_ai import IpyboxWorkspace
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite


class TestIpyboxWorkspace(WorkspaceBackendSuite):
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def backend(self) -> AsyncIterator[WorkspaceBackend]:
        async with IpyboxWorkspace() as backend:
            yield backend

    @pytest.fixture
    async def made(self) -> AsyncIterator[list[IpyboxWorkspace]]:
        made: list[IpyboxWorkspace] = []
        yield made
        for backend in made:
            await backend.close()

    @pytest.fixture
    def fresh_backend(self, made: list[IpyboxWorkspace]) -> Callable[[], WorkspaceBackend]:
        def make() -> WorkspaceBackend:
            made.append(IpyboxWorkspace())
            return made[-1]

        return make

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return IpyboxWorkspace

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        return lambda backend: backend.close()  # type: ignore[attr-defined]
