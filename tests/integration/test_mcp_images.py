# SPDX-License-Identifier: Apache-2.0
"""Images of cells in the answers of the MCP server: --images, and which clients get them."""

from __future__ import annotations

import base64
import re

import pytest
from mcp_driver import McpServer, images_in

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
# A picture that does not shrink: two megabytes of noise.
LARGE = """\
import io, os
from PIL import Image
from IPython.display import display, Image as Shown
buffer = io.BytesIO()
Image.frombytes("RGB", (900, 900), os.urandom(900 * 900 * 3)).save(buffer, "PNG")
display(Shown(buffer.getvalue(), format="png"))
"""


class Host(McpServer):
    """A client with a name."""

    def __init__(self, ipybox, place, *args: str, name: str = "test"):
        super().__init__(ipybox, place, *args, initialize=False)
        self.initialize(name=name)

    def content(self, code: str) -> list[dict]:
        return self.tool("execute_ipython_cell", {"code": code})["content"]


@pytest.mark.parametrize(
    ("flags", "name", "has_path", "has_content"),
    [
        ([], "mcp", True, False),
        ([], "claude-code", True, True),
        (["--images", "path"], "claude-code", True, False),
        (["--images", "content"], "mcp", False, True),
        (["--images", "both"], "mcp", True, True),
    ],
)
def test_where_images_are(ipybox, place, flags, name, has_path, has_content):
    with Host(ipybox, place, *flags, name=name) as host:
        text, *images = host.content(PLOT)
        assert text["type"] == "text"
        paths = images_in(text["text"])
        (saved,) = (place.workspace / "images").iterdir()
        assert paths == ([saved] if has_path else [])
        if has_content:
            (image,) = images
            assert image["type"] == "image" and image["mimeType"] == "image/png"
            assert base64.b64decode(image["data"]) == saved.read_bytes()
        else:
            assert images == []


def test_images_of_a_failed_cell(ipybox, place):
    with Host(ipybox, place, "--images", "content") as host:
        text, image = host.content(PLOT + "\nplt.show()\n1/0")
        assert "ZeroDivisionError" in text["text"] and image["type"] == "image"


def test_a_large_image_is_named_and_left_out(ipybox, place):
    with Host(ipybox, place, "--images", "content") as host:
        (text,) = host.content(LARGE)
        (saved,) = (place.workspace / "images").iterdir()
        assert text["text"].endswith(
            f"[ipybox] Images not shown here: {saved} (image/png larger than 1 MiB)"
        )


def test_many_images(ipybox, place):
    code = PLOT + "\nfor i in range(15): display(plt.gcf())\nplt.close()"
    with Host(ipybox, place, "--images", "both") as host:
        text, *images = host.content(code)
        assert len(images) == 10 and len(images_in(text["text"])) == 15
        assert text["text"].count("the answer has too many") == 5


def test_unknown_choice(run_ipybox):
    done = run_ipybox("mcp", "--images", "all")
    assert done.returncode == 2
    assert re.search(r"--images all: it must be content, path or both", done.stderr)
