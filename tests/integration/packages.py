# SPDX-License-Identifier: Apache-2.0
"""Wheels for the tests of installations."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheel(directory: Path, name: str, value: str, version: str = "1.0") -> Path:
    """A wheel with one module that has `value`, and a command of the same name.

    No index is needed.
    """
    wheel = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"value = {value!r}\n\n\ndef main():\n    print('command', value)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(
            f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        )
    return wheel
