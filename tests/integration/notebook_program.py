# SPDX-License-Identifier: Apache-2.0
"""Runs in an environment with nbformat, nbclient and ipykernel.

check FILE…         Validates notebooks with nbformat, and prints them as JSON. `saved` is the
                    text that nbformat itself writes of it.
execute             Reads a notebook from standard input, executes it with nbclient and
                    ipykernel, and prints it. Errors of cells are allowed.
"""

import json
import sys

import nbformat
from nbclient import NotebookClient


def check(path: str) -> dict:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    return {"notebook": notebook, "saved": nbformat.writes(notebook, nbformat.NO_CONVERT)}


def execute(text: str) -> dict:
    notebook = nbformat.reads(text, as_version=4)
    NotebookClient(notebook, timeout=120, allow_errors=True, kernel_name="python3").execute()
    return notebook


if sys.argv[1] == "check":
    print(json.dumps([check(path) for path in sys.argv[2:]]))
else:
    print(json.dumps(execute(sys.stdin.read())))
