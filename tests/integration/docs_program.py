# SPDX-License-Identifier: Apache-2.0
"""C in the documents is compiled against include/ as strictly as our own code; programs are run.

A block with neither an #include nor a function is a part of a program. It is compiled as the body
of a function that has `runtime`, `session`, `cancellable`, `user_data` and `error`.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import harness
from docs_blocks import BadBlock

FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused", "-Werror"]
PART = """#include <ipybox/ipybox.h>
G_GNUC_UNUSED static gboolean
example(IpyboxRuntime *runtime, IpyboxSession *session, GCancellable *cancellable,
        gpointer user_data, GError **error)
{
%s
    return TRUE;
}
"""
RUN_SECONDS = 60


def sanitizer_flags(build: Path) -> list[str]:
    """The flags for a program that uses the library of that build folder."""
    options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    sanitizers = next(
        (option["value"] for option in options if option["name"] == "b_sanitize"), "none"
    )
    if sanitizers in ("none", []):
        return []
    return ["-fsanitize=" + (sanitizers if isinstance(sanitizers, str) else ",".join(sanitizers))]


class CExamples:
    def __init__(self, build: Path, place: harness.Place):
        self.build = build
        self.place = place
        self.directory = place.root / "c"

    def flags(self) -> list[str]:
        packages = ["pkg-config", "--cflags", "--libs", "gio-2.0"]
        found = subprocess.run(packages, check=True, capture_output=True, text=True).stdout
        return [
            f"-I{harness.ROOT}/include",
            f"-I{self.build}/include",
            *shlex.split(found),
            *sanitizer_flags(self.build),
        ]

    def compile(self, source: Path, *arguments: str) -> None:
        command = ["cc", *FLAGS, str(source), *arguments, *self.flags()]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.directory)
        if done.returncode != 0:
            raise BadBlock(f"does not compile:\n{done.stderr}")

    def run(self, text: str, line: int) -> str:
        """Returns what the program printed; "" for a part of a program."""
        self.directory.mkdir(exist_ok=True)
        source = self.directory / f"example-{line}.c"
        is_part = "#include" not in text and not re.search(r"^\w+\([^;]*\)\n\{", text, re.MULTILINE)
        has_include = "#include <ipybox/" in text
        source.write_text(
            PART % text
            if is_part
            else text
            if has_include
            else f"#include <ipybox/ipybox.h>\n{text}"
        )
        if not re.search(r"^(int\s+)?main\(", text, re.MULTILINE):
            self.compile(source, "-c", "-o", "/dev/null")
            return ""
        program = self.directory / f"example-{line}"
        self.compile(
            source, "-o", str(program), f"-L{self.build}", f"-Wl,-rpath,{self.build}", "-lipybox"
        )
        done = harness.run([str(program)], self.place, timeout=RUN_SECONDS)
        if done.returncode != 0:
            raise BadBlock(f"the program ends with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr
