# SPDX-License-Identifier: Apache-2.0
"""Puts our executor where AutoGen's tests import JupyterCodeExecutor."""

from __future__ import annotations

import sys
import types

from ipybox.integrations.autogen import IpyboxCodeExecutor, IpyboxCodeResult

for name in ("autogen_ext.code_executors", "autogen_ext.code_executors.jupyter"):
    sys.modules[name] = types.ModuleType(name)
vars(sys.modules["autogen_ext.code_executors.jupyter"]).update(
    JupyterCodeExecutor=IpyboxCodeExecutor, JupyterCodeResult=IpyboxCodeResult
)
