# SPDX-License-Identifier: Apache-2.0
"""The picture of docs/how-to/jupyter.md shows what JupyterLab shows."""

from __future__ import annotations

from pathlib import Path

import docs_pictures
import record_picture
from lab import Lab
from PIL import Image, ImageDraw


class TestPicture:
    def test_jupyterlab_looks_like_its_picture(self, kernelspec: Lab, tmp_path: Path) -> None:
        taken = tmp_path / "taken.png"
        record_picture.take(kernelspec, taken)
        assert docs_pictures.difference(record_picture.PICTURE, taken) == ""
        # And a picture without the plot's line is another one.
        image = Image.open(taken).convert("RGB")
        ImageDraw.Draw(image).rectangle((130, 450, 560, 630), fill="white")
        image.save(taken)
        assert "other colours" in docs_pictures.difference(record_picture.PICTURE, taken)
