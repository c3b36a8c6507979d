# SPDX-License-Identifier: Apache-2.0
"""With our settings doxygen reports everything that is not documented."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HEADER = """/**
 * @file
 * @brief Things.
 */
#pragma once
#include <ipybox/macros.h>
G_BEGIN_DECLS

/** A thing. Opaque. */
typedef struct IpyboxThing IpyboxThing;

/** Kinds of things. */
typedef enum {
    IPYBOX_THING_LARGE, /**< a large one */
    IPYBOX_THING_SMALL, /**< a small one */
} IpyboxThingKind;

/** What a thing is made of. */
typedef struct {
    int size;   /**< in metres */
    int weight; /**< in grams */
} IpyboxThingOptions;

/**
 * @brief Makes a thing.
 *
 * @param options what it is made of
 * @param error #IPYBOX_THING_LARGE
 * @return the thing; see ipybox_thing_new()
 */
IPYBOX_EXPORT IpyboxThing *ipybox_thing_new(const IpyboxThingOptions *options, GError **error);

G_END_DECLS
"""


@pytest.fixture
def doxygen(tmp_path):
    """Makes the reference of a header; returns doxygen's warnings."""
    for folder in ("source/include/ipybox", "source/docs", "build/include/ipybox"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "source/docs/api.md").write_text("# Things\n\nSee thing.h.\n")
    places = {
        "VERSION": "1",
        "SOURCE": tmp_path / "source",
        "BUILD": tmp_path / "build",
        "OUTPUT": tmp_path,
    }
    settings = re.sub(
        r"@(\w+)@", lambda found: str(places[found[1]]), (ROOT / "docs/Doxyfile.in").read_text()
    )
    (tmp_path / "Doxyfile").write_text(settings)

    def make(header: str) -> str:
        (tmp_path / "source/include/ipybox/thing.h").write_text(header)
        done = subprocess.run(
            ["doxygen", tmp_path / "Doxyfile"], capture_output=True, text=True, cwd=tmp_path
        )
        assert (done.returncode == 0) == (done.stderr == ""), done
        return done.stderr

    return make


def test_documented(doxygen):
    assert doxygen(HEADER) == ""


@pytest.mark.parametrize(
    ("without", "warned"),
    [
        ("/** A thing. Opaque. */", "IpyboxThing"),
        ("/**< in grams */", "weight"),
        (" * @param options what it is made of\n", "options"),
        (" * @param error #IPYBOX_THING_LARGE\n", "error"),
        (" * @return the thing; see ipybox_thing_new()\n", "return"),
        (" * @brief Makes a thing.\n *\n * @param options", "options"),
        ("/** What a thing is made of. */", "IpyboxThingOptions"),
    ],
)
def test_what_is_not_documented_is_an_error(doxygen, without, warned):
    assert without in HEADER
    warnings = doxygen(HEADER.replace(without, ""))
    assert warned in warnings


def test_a_reference_to_nothing_is_an_error(doxygen):
    warnings = doxygen(HEADER.replace("#IPYBOX_THING_LARGE", "#IPYBOX_THING_HUGE"))
    assert "IPYBOX_THING_HUGE" in warnings
