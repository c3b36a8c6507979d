# SPDX-License-Identifier: Apache-2.0
"""The fixture of tests of scripts/."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.append(str(SCRIPTS))  # for what programs share


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """Imports a program of scripts/, whose names have no suffix."""

    def load(name: str) -> ModuleType:
        module_name = f"ipybox_{name.replace('-', '_')}"
        loader = importlib.machinery.SourceFileLoader(module_name, str(SCRIPTS / name))
        spec = importlib.util.spec_from_loader(module_name, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module  # dataclasses look there
        if str(SCRIPTS) not in sys.path:
            sys.path.append(str(SCRIPTS))  # for the modules that programs share
        loader.exec_module(module)
        return module

    return load
