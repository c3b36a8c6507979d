# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: the tests that the OpenAI Agents SDK has for its local sandbox use ours.

Only those that make a client are run. The others test the SDK itself. NOT_RUN names those that test
the insides of the local sandbox.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from agents.sandbox.sandboxes import unix_local
from ipybox.integrations.openai_agents import IpyboxSandboxClient


class Client(IpyboxSandboxClient):
    # The tests compare it with the name of the local sandbox.
    backend_id = "unix_local"

    def __init__(self, *, inherit_host_environment: bool = True, **options: Any) -> None:
        super().__init__(**options)


unix_local.UnixLocalSandboxClient = Client

NOT_RUN = (
    # The environment of the program, which ipybox never passes on.
    "host_environment",
    "default_allowlist",
    "follow_client_path_inheritance",
    # They replace functions of the module, and wait until these are called.
    "cancellation_waits",
    "keeps_workspace_removal_off_the_event_loop",
    # Mounts on this machine, which a sandbox cannot make.
    "unmount",
    # Stand-ins for git and others, in a directory that only the user who runs the tests can read.
    "preserves_unix_local_lifecycle_state",
    # macOS, a file system that folds case, and a test that root skips.
    "confine",
    "launch_services",
    "case_only_move",
    "inside_a_read_only_parent",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    used = [
        item
        for item in items
        if "UnixLocalSandboxClient(" in inspect.getsource(item.function)
        and not any(part in item.name for part in NOT_RUN)
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in used])
    items[:] = used
