# SPDX-License-Identifier: Apache-2.0
"""The check of names finds a type that is declared twice and a function under a foreign prefix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check-names"


def check(root: Path, files: dict[str, str]) -> tuple[int, str]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
    return done.returncode, done.stdout


CELL = "typedef struct IpbCell IpbCell;\nvoid ipb_cell_free(IpbCell *cell);\n"


def test_accepts_functions_beside_their_type(tmp_path):
    files = {
        "src/session/cell.h": CELL,
        "src/session/cell-text.h": "char *ipb_cell_text(void);\n",
        "src/session/cell.c": "typedef struct IpbCell IpbCell;\n",
        "src/base/cells.h": "void ipb_cells_clear(void);\n",
    }
    assert check(tmp_path, files) == (0, "names: fine\n")


def test_finds_a_type_that_two_headers_declare(tmp_path):
    status, output = check(tmp_path, {"src/session/cell.h": CELL, "src/serve/rpc/cell.h": CELL})
    assert status == 1
    assert "IpbCell is declared more than once" in output


def test_finds_a_function_of_another_folder_under_the_prefix(tmp_path):
    files = {
        "src/session/cell.h": CELL,
        "src/kernel/run.h": "/* ipb_cell_x() is elsewhere. */\n\nint ipb_cell_run(int a);\n",
    }
    status, output = check(tmp_path, files)
    assert status == 1
    assert output.startswith(f"{tmp_path}/src/kernel/run.h:3: ipb_cell_run() looks like one of")


def test_the_longest_name_of_a_type_counts(tmp_path):
    files = {
        "src/session/cell.h": CELL,
        "src/kernel/output.h": "typedef struct IpbCellOutput IpbCellOutput;\n"
        "void ipb_cell_output_free(IpbCellOutput *output);\n",
    }
    assert check(tmp_path, files) == (0, "names: fine\n")
