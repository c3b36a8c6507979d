# SPDX-License-Identifier: Apache-2.0
"""The gallery's index, and how its pages are written.

tests/integration/test_docs.py runs the pages.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parents[2]

PAGE = """# A page

```console
$ echo one
one
$ echo "it takes $RANDOM ms"
it takes … ms
$ echo "$PWD/images/0a1b.png"
nothing
```

<!-- picture: *.png -->
![Its
picture](../images/gallery/page.png)
"""


@pytest.fixture(scope="module")
def gallery(load_script):
    return load_script("make-gallery")


def draw(path: Path, width: int, colour: str = "red", size: int = 200) -> Path:
    """A bar on a transparent ground."""
    image = Image.new("RGBA", (size, 100))
    ImageDraw.Draw(image).rectangle((10, 10, 10 + width, 40), fill=colour)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path


def test_the_index_lists_the_pages(gallery):
    assert (gallery.GALLERY / "index.md").read_text() == gallery.index()
    names = {path.stem for path in gallery.GALLERY.glob("*.md")}
    assert names == {"index", *gallery.PAGES}


def test_pages_are_short(gallery):
    """Each has a program of 40 lines of code at most, and says first what the reader will have."""
    for name in gallery.PAGES:
        path = gallery.GALLERY / f"{name}.md"
        promise = path.read_text().split("\n\n")[1]
        assert promise.startswith(("At the end you have", "At the end of this page"))
        for block in gallery.docs_blocks.blocks_of(path, ROOT):
            code = [line for line in block.text.splitlines() if line.strip()]
            assert block.kind != "python" or len(code) <= 40, f"{block}: {len(code)} lines"


def test_what_differs_is_written(gallery, tmp_path, monkeypatch):
    """Also the picture; what a page shows already is left as it is."""
    page = tmp_path / "docs/gallery/page.md"
    page.parent.mkdir(parents=True)
    page.write_text(PAGE)
    monkeypatch.setattr(gallery, "ROOT", tmp_path)
    monkeypatch.setattr(gallery, "GALLERY", page.parent)

    class Writer(gallery.Writer):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            draw(self.directory / "bar.png", 50)

    monkeypatch.setattr(gallery, "Writer", Writer)
    gallery.make_page("page", str(ROOT / "build/ipybox"))
    shown = "/path/to/workspace/images/….png"
    assert page.read_text() == PAGE.replace("nothing", shown)
    picture = tmp_path / "docs/images/gallery/page.png"
    assert gallery.docs_pictures.difference(picture, draw(tmp_path / "same.png", 50)) == ""


def test_other_pictures_are_noticed(gallery, tmp_path):
    difference = gallery.docs_pictures.difference
    shown = tmp_path / "shown.png"
    gallery.docs_pictures.keep(draw(tmp_path / "drawn.png", 50), shown)
    assert difference(shown, draw(tmp_path / "same.png", 50)) == ""
    assert "other colours" in difference(shown, draw(tmp_path / "longer.png", 70))
    assert "other colours" in difference(shown, draw(tmp_path / "green.png", 50, "green"))
    image = Image.open(draw(tmp_path / "line.png", 50))
    ImageDraw.Draw(image).line((100, 60, 190, 90), fill="blue")
    image.save(tmp_path / "line.png")
    assert "other colours" in difference(shown, tmp_path / "line.png")
    assert "200 × 100 pixels" in difference(shown, draw(tmp_path / "large.png", 50, size=300))
    assert difference(tmp_path / "none.png", shown) == "there is no such picture"
