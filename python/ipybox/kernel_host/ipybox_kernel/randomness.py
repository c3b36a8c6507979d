# SPDX-License-Identifier: Apache-2.0
"""Random generators after the fork: each kernel has its own numbers, or those of a seed."""

from __future__ import annotations

import random
import sys
from typing import Any

from .imports import when_imported


def reseed(seed: int | None) -> None:
    """Seeds the generators. os.fork has reseeded Python's own; others still have a shared state."""
    if seed is None:
        for name, call in (("numpy.random", "seed"), ("torch", "seed")):
            module = sys.modules.get(name)
            if module is not None:
                getattr(module, call)()
        return
    random.seed(seed)

    def seed_numpy(module: Any) -> None:
        module.seed(seed % 2**32)

    def seed_torch(module: Any) -> None:
        module.manual_seed(seed)

    when_imported("numpy.random", seed_numpy)
    when_imported("torch", seed_torch)
