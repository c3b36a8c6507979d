# SPDX-License-Identifier: Apache-2.0
"""Every example of the documents runs, and prints what the document shows."""

from __future__ import annotations

import shutil

import docs_blocks
import harness
import pytest
from docs_blocks import BadBlock, Block, fenced
from docs_runner import Runner, commands_of, lines_match
from terminal import Terminal

DOCUMENTS = [str(path.relative_to(harness.ROOT)) for path in docs_blocks.documents(harness.ROOT)]

# The number of blocks that are not run. The document has the reason of each.
NOT_RUN = {
    "CONTRIBUTING.md": 2,
    "README.md": 2,
    "docs/index.md": 1,
    "docs/start.md": 2,
    "docs/tutorial.md": 1,
    "docs/how-to/autogen.md": 1,
    "docs/how-to/call-tools.md": 1,
    "docs/how-to/claude-code.md": 1,
    "docs/how-to/deepagents.md": 4,
    "docs/how-to/docker.md": 12,
    "docs/how-to/dspy.md": 2,
    "docs/how-to/inspect.md": 4,
    "docs/how-to/install.md": 6,
    "docs/how-to/jupyter.md": 5,
    "docs/how-to/login.md": 1,
    "docs/how-to/mcp-host.md": 1,
    "docs/how-to/openai-agents.md": 4,
    "docs/how-to/pydantic-ai.md": 4,
    "docs/how-to/python-sdk.md": 2,
    "docs/how-to/serve.md": 8,
    "docs/how-to/smolagents.md": 1,
    "docs/man/ipybox-serve.1.scd": 1,
    "examples/README.md": 12,
}


def has_blocks(document: str) -> bool:
    text = (harness.ROOT / document).read_text()
    return "```" in text or "@code" in text


def blocks_of(document: str) -> list[Block]:
    return docs_blocks.blocks_of(harness.ROOT / document, harness.ROOT)


@pytest.mark.parametrize("document", [document for document in DOCUMENTS if has_blocks(document)])
def test_examples(document, ipybox, place, servers):
    runner = Runner(ipybox, place)
    for block in blocks_of(document):
        runner.run(block)


def test_start_asks_what_it_shows(ipybox, place, servers):
    """The question at the terminal, which a block of commands cannot answer."""
    runner = Runner(ipybox, place)
    blocks = iter(blocks_of("docs/start.md"))
    for block in blocks:
        if block.kind == "text":
            break
        runner.run(block)
    with Terminal([ipybox, "run", "noon.py"], place) as terminal:
        *lines, question = block.text.splitlines()
        asked = terminal.expect(question)
        assert lines_match("\n".join(["…", *lines]), asked.replace("\r", ""))
        terminal.type("y\n")
        terminal.expect("+3.5h")
        assert terminal.wait() == 0


def test_what_is_not_run_is_counted():
    left_out = {
        document: sum("not run" in block.marks for block in blocks_of(document))
        for document in DOCUMENTS
    }
    assert {document: count for document, count in left_out.items() if count} == NOT_RUN


# The tests' own tools: an example that is wrong must fail.


def test_blocks_are_found_with_their_marks():
    source = """
<!-- not run: it needs a token -->

```sh
true
```
<!-- a comment -->
- in a list
  ```json
  {}
  ```
"""
    first, second = fenced("x.md", source)
    assert (str(first), first.kind, first.text) == ("x.md:4", "sh", "true\n")
    assert first.marks == {"not run": "it needs a token"}
    assert (second.kind, second.text, second.marks) == ("json", "{}\n", {})


def test_marked_images_are_blocks():
    source = "<!-- picture: images/*.png -->\n![A long\ntext](../a.png)\n\n![not marked](b.png)\n"
    (picture,) = fenced("x.md", source)
    assert (str(picture), picture.kind, picture.text) == ("x.md:2", "picture", "../a.png")
    assert picture.marks == {"picture": "images/*.png"}


@pytest.mark.parametrize(
    "source",
    [
        "<!-- picture: a.png -->\nno image",
        "```\nx\n```",
        "```elisp\nx\n```",
        "```text\n$ x\n```",
        "```sh\nx",
        "<!-- not run -->\n```sh\nx\n```",
        "<!-- not run: later -->\n```sh\nx\n```",
        "<!-- not ran: for good reason -->\n```sh\nx\n```",
    ],
)
def test_bad_blocks(source):
    with pytest.raises(BadBlock):
        fenced("x.md", source)


def test_blocks_of_manual_pages():
    source = (
        'x(1)\n\n; not run: it needs a token\n```\n$ x\n```\n\n```\nprintf("\\\\n");\n#include\n'
        "```\n; kind: c\n```\nint x;\n```\n"
    )
    with pytest.raises(BadBlock):
        fenced("x.scd", source, manual=True)
    console, c = fenced(
        "x.scd", source.replace("\\\\n", "$").replace("printf", "from a; printf"), manual=True
    )[::2]
    assert (console.kind, console.marks["not run"], c.kind) == ("console", "it needs a token", "c")


def test_lines_match():
    assert lines_match("a\nb\n", "a  \nb\n\n")
    assert lines_match("image …/x-….png\n…\nend", "image /tmp/x-1.png\n1\n2\nend\n")
    assert lines_match("a\n…\nb", "a\nb\n")
    assert not lines_match("a\nb\n", "a\nc\n")
    assert not lines_match("a…b", "a\nb")
    assert not lines_match("a.c", "abc")
    assert not lines_match("", "a\n")


def test_commands_of():
    assert commands_of("$ a \\\n    b\nout\n$ c\n") == [("a \\\n    b", "out\n"), ("c", "")]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("console", "$ echo a\nb\n"),
        ("console", "$ false\n"),
        ("console", "$ cat README\nx\n$ cat README\ny\n"),
        ("sh", "false\ntrue\n"),
        ("python", "1 / 0\n"),
        ("json", "{"),
        ("json", '{"mcpServers": {"not-a-name": {"command": "x"}}}'),
        ("json", '{"command": "x", "args": [1]}'),
        ("json", '{"mcpServers": {"ipybox": {"command": "ipybox", "args": ["--no-such-option"]}}}'),
        ("json", '{"mcp": {"ipybox": {"command": ["ipybox", "--no-such-option"]}}}'),
        ("toml", "[mcp_servers.ipybox"),
        ("toml", "[servers.ipybox]"),
        ("toml", '[mcp_servers.ipybox]\ncommand = "ipybox"\nargs = ["--no-such-option"]'),
        ("json", '{"rules": [{"x": 1}]}'),
        ("json", '{"network": {"x": 1}}'),
        ("c", "ipybox_no_such_function();\n"),
        ("c", 'int x = "text";\n'),
    ],
)
def test_wrong_examples_fail(kind, text, ipybox, place):
    with pytest.raises(AssertionError):
        Runner(ipybox, place).run(Block("x.md", 1, kind, text))


def test_a_picture_must_have_been_made(ipybox, place):
    """It is looked at once: the next block makes its own."""
    block = Block("docs/gallery/x.md", 1, "picture", "../images/plot.png", {"picture": "*.png"})
    runner = Runner(ipybox, place)
    with pytest.raises(AssertionError, match="not one [*].png, but 0"):
        runner.run(block)
    shutil.copy(harness.ROOT / "docs/images/plot.png", place.workspace)
    runner.run(block)
    assert not (place.workspace / "plot.png").exists()
    shutil.copy(harness.ROOT / "docs/images/jupyterlab.png", place.workspace)
    with pytest.raises(AssertionError, match="pixels"):
        runner.run(block)


def test_marks_are_obeyed(ipybox, place):
    runner = Runner(ipybox, place)
    runner.run(
        Block(
            "x.md",
            1,
            "console",
            (
                "$ cat a/b.py\nx = 1\ny = 2\n$ cd a\n$ export X=7\n$ cat b.py; echo $X\nx = 1\n"
                "y = 2\n7\n"
            ),
        )
    )
    runner.run(Block("x.md", 2, "python", "y = 2\n", {"excerpt of": "b.py"}))
    runner.run(Block("x.md", 3, "sh", "echo $X\n"))
    runner.run(Block("x.md", 4, "text", "7\n", {"output": ""}))
    runner.run(Block("x.md", 5, "sh", "exit 3\n", {"status": "3"}))
    runner.run(Block("x.md", 6, "json", '{"a": 1}\n', {"file": "c.json"}, before=["[ $X = 7 ]"]))
    assert (place.workspace / "a/c.json").exists()
    with pytest.raises(AssertionError):
        runner.run(Block("x.md", 7, "python", "y = 3\n", {"excerpt of": "b.py"}))
    with pytest.raises(AssertionError):
        runner.run(Block("x.md", 8, "text", "8\n", {"output": ""}))
