# SPDX-License-Identifier: Apache-2.0
"""Pictures of documents that their code has drawn: how they are kept, and compared.

No pixels are compared, since another version of a font moves some of them. A picture must have the
size of the one that is shown, and in each of its parts about as many pixels of each colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

# In a picture that is kept, so that its file is small.
N_COLOURS = 64
# For comparisons each channel has so many values.
N_LEVELS = 4
# The parts that are compared: columns and rows.
PARTS = (8, 4)
# Pixels of a part that may have other colours, beside those that are drawn there. A part in which
# hardly anything is drawn may differ by a few.
MAX_DIFFERENCE = 0.25
FEW = 0.02  # of the part


def keep(made: Path, path: Path) -> None:
    """Writes a small version of the picture to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with_few_colours(made).save(path, optimize=True)


def difference(shown: Path, made: Path) -> str:
    """How the picture that was made differs from the one that is shown; empty if it does not."""
    if not shown.exists():
        return "there is no such picture"
    one, other = Image.open(shown).convert("RGB"), with_few_colours(made).convert("RGB")
    if one.size != other.size:
        return f"the picture has {one.size[0]} × {one.size[1]} pixels, the one that was made " + (
            f"{other.size[0]} × {other.size[1]}"
        )
    for box in boxes(*one.size):
        colours, others = count(one.crop(box)), count(other.crop(box))
        n_pixels = colours.total()
        ground = colours.most_common(1)[0][0]
        drawn = n_pixels - min(colours[ground], others[ground])
        n_differing = (colours - others).total()
        if n_differing > MAX_DIFFERENCE * (drawn + FEW * n_pixels):
            return f"{n_differing} of {n_pixels} pixels at {box} have other colours"
    return ""


def boxes(width: int, height: int) -> Iterator[tuple[int, int, int, int]]:
    """The parts of a picture: left, top, right, bottom."""
    columns, rows = PARTS
    for row in range(rows):
        for column in range(columns):
            yield (
                column * width // columns,
                row * height // rows,
                (column + 1) * width // columns,
                (row + 1) * height // rows,
            )


def with_few_colours(path: Path) -> Image.Image:
    """On white paper."""
    image = Image.open(path).convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    opaque = Image.alpha_composite(paper, image).convert("RGB")
    return opaque.quantize(N_COLOURS, dither=Image.Dither.NONE)


def count(image: Image.Image) -> Counter[int]:
    """How many pixels have each colour, of few."""
    levels = image.point(lambda value: min(value * N_LEVELS // 256, N_LEVELS - 1))
    red, green, blue = (channel.tobytes() for channel in levels.split())
    return Counter(
        (r * N_LEVELS + g) * N_LEVELS + b for r, g, b in zip(red, green, blue, strict=True)
    )
