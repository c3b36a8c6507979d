# SPDX-License-Identifier: Apache-2.0
"""Notebooks, judged by Jupyter's own libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import harness
from server_process import jupyter_python

PROGRAM = str(Path(__file__).with_name("notebook_program.py"))


def valid_notebook(path: Path, place: harness.Place) -> dict:
    """The notebook, with its texts joined. Fails unless nbformat accepts it."""
    done = harness.run([str(jupyter_python()), PROGRAM, "check", str(path)], place)
    assert done.returncode == 0, done.stderr
    (checked,) = json.loads(done.stdout)
    return checked["notebook"]


def saved_by_jupyter(path: Path, place: harness.Place) -> str:
    """The text that nbformat writes of the notebook."""
    done = harness.run([str(jupyter_python()), PROGRAM, "check", str(path)], place)
    assert done.returncode == 0, done.stderr
    (checked,) = json.loads(done.stdout)
    return checked["saved"]


def executed_by_jupyter(cells: list[str], place: harness.Place) -> list[list[dict]]:
    """The outputs of the cells after nbclient has run them in ipykernel."""
    notebook = make_notebook(cells)
    done = harness.run(
        [str(jupyter_python()), PROGRAM, "execute"], place, stdin=json.dumps(notebook)
    )
    assert done.returncode == 0, done.stderr
    return [cell["outputs"] for cell in json.loads(done.stdout)["cells"]]


def make_notebook(cells: list[str], **members: Any) -> dict:
    return {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"c{i}",
                "metadata": {},
                "outputs": [],
                "source": source,
            }
            for i, source in enumerate(cells)
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
        **members,
    }


def comparable(outputs: list[dict]) -> list[tuple]:
    """What of outputs does not depend on the kernel."""
    found: list[tuple] = []
    for output in outputs:
        if output["output_type"] == "stream":
            name, text = output["name"], output["text"]
            # ipykernel on a busy machine sends a line in two parts, which are not always merged.
            if found and found[-1][0] == name:
                text = found.pop()[1] + text
            found.append((name, text))
        elif output["output_type"] == "error":
            found.append(("error", output["ename"], output["evalue"]))
        else:
            data = {type: value for type, value in output["data"].items() if type != "image/png"}
            found.append((output["output_type"], data, output.get("execution_count")))
    return found
