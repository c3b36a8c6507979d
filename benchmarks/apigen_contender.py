# SPDX-License-Identifier: Apache-2.0
"""datamodel-code-generator's part of apigen_compare.py.

Generates a module from each schema, imports it, and reports how it handles instances. Runs in the
environment of requirements-apigen.txt. Reads cases from a JSON file, and writes the results to
another.

usage: apigen_contender.py CASES ANSWERS OPTION...     the options are datamodel-codegen's
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from datamodel_code_generator.__main__ import main as generate


def load(path: Path, class_name: str) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    model = getattr(module, class_name)
    if hasattr(model, "model_rebuild"):
        model.model_rebuild()
    return model


def send(model: Any, instance: Any) -> Any:
    """What goes over the wire at best: the names of the wire, and only fields that are set."""
    try:
        value = model.model_validate(instance)
    except ValueError as error:
        return {"refused": str(error)[:300]}
    try:
        return {"sent": json.loads(value.model_dump_json(by_alias=True, exclude_unset=True))}
    except ValueError as error:
        return {"refused": f"not serialised: {error}"[:300]}


def answer(
    case: dict[str, Any], number: int, directory: Path, options: list[str]
) -> dict[str, Any]:
    source = directory / f"schema_{number}.json"
    output = directory / f"case_{number}.py"
    # The class is to have the name we ask for.
    source.write_text(
        json.dumps({key: value for key, value in case["schema"].items() if key != "title"})
    )
    errors = io.StringIO()
    begun = time.process_time()
    try:
        with contextlib.redirect_stderr(errors):
            status = generate(
                ["--input", str(source), "--input-file-type", "jsonschema",
                 "--output", str(output), "--class-name", case["name"],
                 "--disable-timestamp", "--disable-warnings", *options]
            )  # fmt: skip
        seconds = time.process_time() - begun
        if status != 0:
            return {
                "failure": f"not generated: {errors.getvalue().strip()[-300:]}",
                "seconds": seconds,
            }
        text = output.read_text()
        model = load(output, case["name"])
    except Exception as error:  # whatever generated code does at import
        return {
            "failure": f"{type(error).__name__}: {error}"[:300],
            "seconds": time.process_time() - begun,
        }
    return {
        "seconds": seconds,
        "lines": text.count("\n"),
        "bytes": len(text.encode()),
        "answers": [send(model, instance) for instance in case["instances"]],
    }


def main() -> None:
    cases, answers, *options = sys.argv[1:]
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as directory:
        done = [
            answer(case, number, Path(directory), options)
            for number, case in enumerate(json.loads(Path(cases).read_text()))
        ]
    Path(answers).write_text(json.dumps(done))


if __name__ == "__main__":
    main()
