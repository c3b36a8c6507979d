# SPDX-License-Identifier: Apache-2.0
"""Regular expressions: pydantic checks what ECMA-262 means. What it cannot check becomes a note."""

from __future__ import annotations

import json
import random

import pytest
from apigen_package import Package
from pydantic import ValidationError

# Pattern, texts that match, texts that do not.
PATTERNS = [
    (r"^[A-Z][A-Z0-9_]+-\d+$", ["AB-1", "A_9-12"], ["A-1", "ab-1", "AB-1\n", "AB-\u0663"]),
    (r"^(?:\d{4})-(\d\d)$", ["2024-01"], ["2024-1", "x2024-01"]),
    (r"foo|ba[rz]", ["xfoo", "bar", "abaz"], ["ba", "fo"]),
    (r"^\S+@\S+\.\w{2,}$", ["a@b.co", "é@ü.com"], ["a@b", "a b@c.de", "a@b.c\u00e9"]),
    (r"^\s$", [" ", "\t", "\u00a0", "\ufeff", "\u2003"], ["", "x", "\u200b"]),
    (r"^.$", ["x", "é", "\x85"], ["\n", "\r", "\u2028", ""]),
    (r"^[^a-c\]\\]$", ["d", "[", "é"], ["a", "]", "\\"]),
    (r"^[\w.\-+]*$", ["a.b-c+", ""], ["é", " "]),
    (r"^[a-z-]+[-x]$", ["a--", "abx"], ["ab", "-"]),
    (r"^\u0041\x42\/\.\$\^\{\}$", ["AB/.$^{}"], ["AB/x$^{}"]),
    (r"^[&&~~\--/#]$", ["&", "~", "-", ".", "/", "#"], ["a", " ", "!"]),
    (r"^a{2}b{1,}c{0,3}?d??$", ["aab", "aabbcccd"], ["ab", "aabcccc"]),
    (r"^(a|(b|c)*)+$", ["a", "bcbc", ""], ["d"]),
    (r"^[\s\d]+$", ["1 \t2\ufeff"], ["a", "\x85"]),
    (r"^[^\s\d]+$", ["a", "\x85"], ["1", "\ufeff"]),
    (r"^[\d-]+$", ["1-2"], ["a"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^https?://", ["http://x", "https://"], ["ftp://"]),
    (r"", ["", "x"], []),
    (r"^'\"#!%@:;,<>=&~`$", ["'\"#!%@:;,<>=&~`"], ["x"]),
    (r"^[äöü名]{1,1000}$", ["ä名"], ["a"]),
    ("^[\t\n]$", ["\t", "\n"], [" "]),
]

NOT_TRANSLATED = [
    r"^(?=a)",
    r"(?!x)",
    r"(?<=x)y",
    r"(?<n>x)",
    r"(a)\1",
    r"\bx\b",
    r"\B",
    r"\p{L}",
    r"\ud83d",
    r"[\ud800-\udfff]",
    r"\cA",
    r"\0",
    r"\k",
    "(",
    ")",
    "[",
    "[]",
    "[^]",
    "a**",
    "*",
    "+a",
    "x{2,1}",
    "x{",
    "{",
    "x{1001}",
    "a]",
    "}",
    "[b-a]",
    r"[\d-z]",
    r"[a-\d]",
    r"[\D]",
    r"\x4",
    r"\u123",
    "\\",
    "[\\",
    "🎉",
    "[🎉]",
    "a\0b",
    "^*",
    "(?",
    "(?:",
    "a?+",
    "((((((((((((((((((((((x))))))))))))))))))))))",
    "(((a{1000}){1000}){1000})",
    r"(\S{100}){100}",
    "x" * 501,
    r"(?i)x",
    r"(?P<n>x)",
    "a{1}{2}",
    r"\Z",
    r"\A",
]


def tools(*patterns: str) -> list[dict]:
    return [
        {
            "name": f"t{n}",
            "inputSchema": {
                "properties": {"p": {"type": "string", "pattern": pattern}},
                "required": ["p"],
            },
        }
        for n, pattern in enumerate(patterns)
    ]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return Package(
        tmp_path_factory.mktemp("patterns"), tools(*[pattern for pattern, _, _ in PATTERNS])
    )


@pytest.mark.parametrize(
    "number", range(len(PATTERNS)), ids=[pattern for pattern, _, _ in PATTERNS]
)
def test_texts(package, number):
    pattern, matching, others = PATTERNS[number]
    name = f"t{number}"
    assert "pattern=" in package.source(name)
    for text in matching:
        assert json.loads(package.send(name, p=text)) == {"p": text}
    for text in others:
        with pytest.raises(ValidationError, match="pattern"):
            package.send(name, p=text)


def test_what_is_not_translated_is_noted(workspace):
    package = Package(workspace, tools(*NOT_TRANSLATED))
    for number, pattern in enumerate(NOT_TRANSLATED):
        assert "Field" not in package.source(f"t{number}"), pattern
        assert "pattern:" in package.source(f"t{number}"), pattern
        assert json.loads(package.send(f"t{number}", p="anything")) == {"p": "anything"}


def test_patterns_of_other_types(workspace):
    pattern = "^x$"
    schemas = {
        "nullable": {"type": ["string", "null"], "pattern": pattern},
        "either": {"type": ["string", "integer"], "pattern": pattern},
        "enum": {"enum": ["x", "y"], "pattern": pattern},
        "any": {"pattern": pattern},
        "integer": {"type": "integer", "pattern": pattern},
        "both": {"allOf": [{"type": "string", "pattern": pattern}, {"pattern": "y"}]},
        "items": {"type": "array", "items": {"type": "string", "pattern": pattern}},
        "no_text": {"type": "string", "pattern": 5},
    }
    package = Package(workspace, [{"name": "t", "inputSchema": {"properties": schemas}}])
    source = package.source("t")
    assert source.count("pattern: ^x$") == 3 and "pattern: y" in source and "pattern: 5" in source
    assert package.send(
        "t", nullable=None, either=5, enum="y", any=1, integer=1, both="x", items=["x"]
    )
    for name, value in (("nullable", "y"), ("either", "y"), ("both", "y"), ("items", ["y"])):
        with pytest.raises(ValidationError):
            package.send("t", **{name: value})


def test_random_patterns_import(workspace):
    rng = random.Random(5)
    pieces = [
        "a",
        "b",
        r"\d",
        r"\w",
        r"\s",
        r"\S",
        ".",
        "[a-z]",
        "[^x]",
        "(",
        "(?:",
        ")",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{1,50}",
        "{3,}",
        "^",
        "$",
        "-",
        "é",
        r"\.",
        "[",
        "]",
        "{",
        "\\",
    ]
    patterns = ["".join(rng.choices(pieces, k=rng.randrange(1, 12))) for _ in range(1500)]
    properties = {
        f"p{n}": {"type": "string", "pattern": pattern} for n, pattern in enumerate(patterns)
    }
    package = Package(workspace, [{"name": "t", "inputSchema": {"properties": properties}}])
    assert package.source("t").count("pattern=") > 100
