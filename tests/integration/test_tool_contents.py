# SPDX-License-Identifier: Apache-2.0
"""Contents of results as objects: ipybox.tool_exec.content, which kernels have."""

from __future__ import annotations

import base64
import copy
import importlib.util
import json
import pickle
import sys

import harness
import pytest

PATH = harness.ROOT / "python/ipybox/kernel_host/stub/ipybox/tool_exec/content.py"
SPEC = importlib.util.spec_from_file_location("tool_contents_content", PATH)
content = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = content
SPEC.loader.exec_module(content)

PNG = b"\x89PNG\r\n\x1a\n"
TEXT = {"type": "text", "text": "é"}
IMAGE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
FILE = {
    "type": "resource",
    "resource": {"uri": "file:///a/notes.md?x=1#y", "mimeType": "text/markdown", "text": "# x"},
}
BLOB = {"type": "resource", "resource": {"uri": "x://y/z.tar.gz", "blob": "AAE="}}
LINK = {"type": "resource_link", "uri": "https://example.org/big.bin", "name": "big"}


@pytest.mark.parametrize(
    ("part", "data", "mime_type", "uri", "name"),
    [
        (TEXT, "é".encode(), None, None, "text.txt"),
        (IMAGE, PNG, "image/png", None, "image.png"),
        (AUDIO, b"hi", "audio/wav", None, "audio.wav"),
        (FILE, b"# x", "text/markdown", "file:///a/notes.md?x=1#y", "notes.md"),
        (BLOB, b"\0\1", None, "x://y/z.tar.gz", "z_tar.gz"),
        ({**IMAGE, "mimeType": 5}, PNG, None, None, "image.bin"),
        (
            {"type": "resource", "resource": {"uri": "x://../../..", "blob": ""}},
            b"",
            None,
            "x://../../..",
            "resource.bin",
        ),
        (
            {"type": "resource", "resource": {"uri": "a/.\0\u202e" + "n" * 999, "text": "\ud800"}},
            b"\xed\xa0\x80",
            None,
            "a/.\0\u202e" + "n" * 999,
            "n" * 100 + ".txt",
        ),
    ],
)
def test_what_is_in_a_content(tmp_path, part, data, mime_type, uri, name):
    made = content.Content(part)
    assert (made.data, made.mime_type, made.uri, made.type) == (data, mime_type, uri, part["type"])
    saved = [made.save(tmp_path) for _ in range(2)]
    assert [path.read_bytes() for path in saved] == [data] * 2
    assert saved[0].name == name and saved[0].parent == tmp_path and saved[1] != saved[0]
    assert (
        made.save(tmp_path / "x.bin").read_bytes()
        == made.save(str(tmp_path / "x.bin")).read_bytes()
        == data
    )
    assert (
        dict(made) == part == json.loads(json.dumps(made))
        and pickle.loads(pickle.dumps(made)) == made
    )


@pytest.mark.parametrize(
    "part",
    [
        LINK,
        {"type": "image"},
        {"type": "image", "data": "x"},
        {"type": "audio", "data": 5},
        {"type": "resource", "resource": 7},
        {},
    ],
)
def test_contents_without_data(tmp_path, part):
    made = content.Content(part)
    with pytest.raises(ValueError, match=r"has no data|is not valid base64"):
        made.save(tmp_path)
    assert list(tmp_path.iterdir()) == [] and repr(made)


def test_texts_with_contents():
    made = content.ToolText.make([TEXT, IMAGE, TEXT, LINK])
    assert made == "é\né" and [part.type for part in made.contents] == [
        "text",
        "image",
        "text",
        "resource_link",
    ]
    assert made.images == [IMAGE]
    assert (
        content.ToolText.make([IMAGE, LINK])
        == f"[image image/png, {len(PNG)} bytes]\n[resource_link https://example.org/big.bin]"
    )
    for copied in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert copied == made and copied.contents == made.contents
    assert len(repr(content.ToolText.make([{"type": "audio", "data": "A" * 10**6}]))) < 500


def test_only_contents_are_contents():
    assert content.is_contents([TEXT, {"type": "new"}]) and content.is_contents([LINK])
    for value in (
        [],
        [1],
        [{"type": "new"}],
        ["text"],
        [{"text": "x"}],
        [TEXT, 1],
        {},
        None,
        "x",
        [{"type": 5, "text": ""}],
    ):
        assert not content.is_contents(value)


def test_images_are_shown():
    assert content.Content(IMAGE)._repr_mimebundle_()["image/png"] == IMAGE["data"]
    for part in (AUDIO, {**IMAGE, "mimeType": "text/html"}):
        assert list(content.Content(part)._repr_mimebundle_()) == ["text/plain"]
