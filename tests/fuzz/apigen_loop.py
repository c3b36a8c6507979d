#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates packages from random schemas and hostile names, for any time.

Three kinds in turn: sensible schemas, nonsense that looks like a schema, and real ones of
tests/corpus with parts replaced. Generation must succeed or say why not. What it writes must
compile, with imports, classes, functions and constants only at module level. Of every tenth batch
all modules are imported.

usage: tests/fuzz/apigen_loop.py [--seconds N] [--seed N] [--keep DIRECTORY]

An input that breaks something is kept as <seed>.json, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "tests/corpus")]

from apigen_package import Package, check_source, write
from random_schemas import KEYWORDS, NAMES, TEXTS, TYPES, Schemas, make_nonsense

TOOLS_IN_A_BATCH = 40
IMPORT_EACH = 10
REFUSED = "refused"
HOSTILE = [
    *NAMES,
    *TEXTS,
    "__class__",
    "__init__",
    "import os",
    "'''",
    '\\"""',
    "\r",
    "\u2028",
    "\x0c",
    "\ufeff",
    "{0}",
    "%s",
    "${HOME}",
    "None",
    "True",
    "Params",
    "Result",
    "Model",
    "CLIENT",
    "run",
    "self",
    "cls",
    "model_config",
    "model_fields",
    "Field",
    "\ud800",
    "a" * 3000,
    "\u0661",
    "ᵢ",
    "ﬁ",
    "ª",
    "\u200d",
    "\u0300",
    "\n",
    "\n    pass\nimport os",
    "]",
    ")",
    "#",
    "lambda",
    "await",
    "async",
]


def real_tools() -> list[dict[str, Any]]:
    paths = [*ROOT.glob("tests/corpus/*.json"), *ROOT.glob("tests/data/tools/*.json")]
    found: list[dict[str, Any]] = []
    for path in paths:
        if path.name != "servers.json":
            data = json.loads(path.read_text())
            found += data["tools"] if isinstance(data, dict) else data
    return found


def places(node: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything inside."""
    found: list[tuple[Any, Any]] = []
    stack = [node]
    while stack:
        inner = stack.pop()
        for key in list(inner) if isinstance(inner, dict) else range(len(inner)):
            found.append((inner, key))
            if isinstance(inner[key], (dict, list)):
                stack.append(inner[key])
    return found


def spoil(tool: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A real tool in which some places are replaced."""
    tool = copy.deepcopy(tool)
    for _ in range(rng.randrange(1, 6)):
        container, key = rng.choice(places(tool))
        what = rng.randrange(6)
        if what == 0 and isinstance(container, dict):
            container[rng.choice(HOSTILE)] = container.pop(key)
        elif what == 1 and isinstance(container, dict):
            container[rng.choice(KEYWORDS)] = make_nonsense(rng, 2)
        elif what == 2 and isinstance(container[key], str):
            container[key] = rng.choice([*HOSTILE, *TYPES])
        elif what == 3:
            container[key] = make_nonsense(rng, 3)
        elif what == 4 and isinstance(container[key], (dict, list)):
            other, name = rng.choice(places(tool))
            container[key] = copy.deepcopy(other[name])
        elif isinstance(container, dict) and len(container) > 1:
            del container[key]
    return tool


def make_batch(seed: int, real: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    tools = []
    for number in range(TOOLS_IN_A_BATCH):
        kind = rng.randrange(3)
        if kind == 0:
            schema, _ = Schemas(seed * TOOLS_IN_A_BATCH + number).parameters()
            tool: dict[str, Any] = {
                "name": rng.choice(HOSTILE),
                "inputSchema": schema,
                "outputSchema": schema,
            }
        elif kind == 1:
            tool = {
                "name": rng.choice(HOSTILE),
                "inputSchema": make_nonsense(rng),
                "outputSchema": make_nonsense(rng),
            }
        else:
            tool = spoil(rng.choice(real), rng)
        if rng.random() < 0.3:
            tool["description"] = rng.choice(HOSTILE)
        # A tool without a name is refused, and the batch with it.
        if not (isinstance(tool.get("name"), str) and tool["name"]) and rng.random() < 0.999:
            tool["name"] = "t"
        tools.append(tool)
    return tools


def try_batch(text: bytes, do_import: bool) -> str | None:
    """The failure of a batch. REFUSED is not a failure."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            if do_import:
                Package(Path(directory), text, server="fuzz")
            else:
                write(Path(directory), text, server="fuzz")
                for path in Path(directory, "fuzz").glob("*.py"):
                    check_source(path)
        except subprocess.CalledProcessError as error:
            refused = error.returncode == 1 and error.stderr.strip()
            return REFUSED if refused else f"ended with {error.returncode}: {error.stderr!r}"
        except Exception as error:  # a module may do anything at import
            return f"{type(error).__name__}: {error}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Random schemas through the generator.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("."))
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    real = real_tools()
    end = time.monotonic() + arguments.seconds
    seed, batches, refused, failed = arguments.seed, 0, 0, 0
    while time.monotonic() < end:
        text = (
            json.dumps(make_batch(seed, real))
            .replace("-Infinity", "-1e400")
            .replace("Infinity", "1e400")
            .encode()
        )
        wrong = try_batch(text, batches % IMPORT_EACH == 0)
        if wrong == REFUSED:
            refused += 1
        elif wrong is not None:
            failed += 1
            Path(arguments.keep, f"{seed}.json").write_bytes(text)
            print(f"seed {seed}: {wrong}"[:2000], flush=True)
        seed += 1
        batches += 1
    tried = (batches - refused) * TOOLS_IN_A_BATCH
    print(
        f"{tried} schemas in {batches} batches, of which {refused} were refused with a "
        f"reason; {failed} failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
