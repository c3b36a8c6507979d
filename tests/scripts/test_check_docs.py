# SPDX-License-Identifier: Apache-2.0
"""The document check finds names of files that do not exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check-docs"


def test_finds_what_is_not_there(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.c").touch()
    (tmp_path / "README.md").write_text(
        "`src/main.c`, [docs](docs/a.md#top), <https://example.org>, [web](https://example.org)\n"
    )
    (tmp_path / "docs/a.md").write_text(
        "[up](../README.md)\n\n`src/gone.c` and [gone](b.md), `src/<name>.c`\n"
    )
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "docs/a.md:3: there is no b.md",
        "docs/a.md:3: there is no src/gone.c",
    ]
    (tmp_path / "docs/b.md").touch()
    (tmp_path / "src/gone.c").touch()
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "documents: fine\n")


def test_finds_documents_that_the_index_lacks(tmp_path):
    (tmp_path / "docs/how-to").mkdir(parents=True)
    (tmp_path / "docs/README.md").write_text("[a](how-to/a.md)\n")
    (tmp_path / "docs/how-to/a.md").touch()
    (tmp_path / "docs/how-to/b.md").touch()
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "docs/README.md does not name docs/how-to/b.md\n")


def test_an_index_of_a_folder_names_its_documents(tmp_path):
    (tmp_path / "docs/gallery").mkdir(parents=True)
    (tmp_path / "docs/README.md").write_text("[gallery](gallery/index.md)\n")
    (tmp_path / "docs/gallery/index.md").write_text("[a](a.md)\n")
    (tmp_path / "docs/gallery/a.md").write_text("[b](b.md)\n")
    (tmp_path / "docs/gallery/b.md").touch()
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "docs/README.md does not name docs/gallery/b.md\n")


HEADER = """
/** Kinds; IPYBOX_NO_KIND is none. */
typedef enum {
    /** As IPYBOX_KIND_B, but another. */
    IPYBOX_KIND_A,
    IPYBOX_KIND_B = 7,
    /* not for the reference */
    IPYBOX_KIND_C,
} IpyboxKind;
/**
 * Tells something.
 *
 * @param user_data for you
 */
typedef void (*IpyboxTellFunc)(IpyboxKind kind, const char *text,
                               gpointer user_data);
"""


def test_finds_what_headers_do_not_document(tmp_path):
    (tmp_path / "include/ipybox").mkdir(parents=True)
    (tmp_path / "include/ipybox/kind.h").write_text(HEADER)
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "kind.h: IPYBOX_KIND_B is not documented",
        "kind.h: IPYBOX_KIND_C is not documented",
        "kind.h: IpyboxTellFunc does not document its parameter kind",
        "kind.h: IpyboxTellFunc does not document its parameter text",
    ]
