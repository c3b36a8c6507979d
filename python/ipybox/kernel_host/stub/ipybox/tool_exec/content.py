# SPDX-License-Identifier: Apache-2.0
"""What a tool without an output schema returns beside text: images, audio, resources and links."""

from __future__ import annotations

import base64
import binascii
import itertools
import mimetypes
import os
import re
from pathlib import Path
from typing import Any

# Types that a notebook shows.
_SHOWN_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
# Where the machine's own tables know none, or each another.
_SUFFIXES = {
    "audio/mp3": ".mp3",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "text/markdown": ".md",
    "text/plain": ".txt",
}
MAX_FILE_NAME = 100
# Names that are tried in a directory.
MAX_FILES = 10_000


class Content(dict[str, Any]):
    """One part of a tool's result: the object that the server sent, as a dict, and what is in it."""

    @property
    def type(self) -> str:
        """`text`, `image`, `audio`, `resource` or `resource_link`."""
        return str(self.get("type"))

    @property
    def _body(self) -> dict[str, Any]:
        resource = self.get("resource")
        return resource if isinstance(resource, dict) else self

    @property
    def mime_type(self) -> str | None:
        """Such as `image/png`; None if the server does not say."""
        value = self._body.get("mimeType")
        return value if isinstance(value, str) else None

    @property
    def uri(self) -> str | None:
        """Of a resource or a link."""
        value = self._body.get("uri")
        return value if isinstance(value, str) else None

    @property
    def text(self) -> str | None:
        """Of a text or a resource that is one."""
        value = self._body.get("text")
        return value if isinstance(value, str) else None

    @property
    def data(self) -> bytes:
        """The bytes: decoded base64, or the text in UTF-8.

        Raises:
            ValueError: If there are none, as in a link, or what was sent is no base64.
        """
        if self.text is not None:
            return self.text.encode("utf-8", "surrogatepass")
        value = self._body.get("blob", self._body.get("data"))
        if not isinstance(value, str):
            where = f": read {self.uri}" if self.uri else ""
            raise ValueError(f"this {self.type} has no data{where}")
        try:
            return base64.b64decode(value)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"the data of this {self.type} is no base64: {error}") from None

    def save(self, path: str | os.PathLike[str] = ".") -> Path:
        """Writes the bytes to a file and returns its absolute path.

        Args:
            path: The file, which is replaced; or a directory, which gets a new file that is named after the
                URI or the type. Default: the current directory.

        Raises:
            ValueError: See `data`.
            OSError: If the file cannot be written.
        """
        data = self.data
        target = Path(path).absolute()
        if not target.is_dir():
            target.write_bytes(data)
            return target
        stem, suffix = self._file_name()
        for number in itertools.count(1):
            name = f"{stem}{suffix}" if number == 1 else f"{stem}_{number}{suffix}"
            try:
                with open(target / name, "xb") as file:
                    file.write(data)
            except FileExistsError:
                if number == MAX_FILES:
                    raise
                continue
            break
        return target / name

    def _file_name(self) -> tuple[str, str]:
        """Nothing of a server's URI leads anywhere: letters, digits, `_` and `-`, and a suffix of them."""
        base = re.split(r"[?#]", self.uri or "")[0].rstrip("/").rsplit("/", 1)[-1]
        stem, dot, suffix = base.rpartition(".")
        if not stem:
            stem, dot, suffix = base, "", ""
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_")[:MAX_FILE_NAME]
        suffix = dot + re.sub(r"[^A-Za-z0-9]", "", suffix)[:10]
        if len(suffix) < 2:
            kind = (self.mime_type or "").split(";")[0].strip().lower()
            suffix = _SUFFIXES.get(kind) or mimetypes.guess_extension(kind) or ""
        return stem or self.type.split("_")[0], suffix or (".txt" if self.text is not None else ".bin")

    def _describe(self) -> str:
        parts = [self.uri, self.mime_type]
        try:
            parts.append(f"{len(self.data)} bytes")
        except ValueError:
            pass
        detail = ", ".join(part for part in parts if part)
        return f"{self.type} {detail}" if detail else self.type

    def __repr__(self) -> str:
        return f"<{self._describe()[:300]}>"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """What IPython shows of it."""
        shown: dict[str, Any] = {"text/plain": repr(self)}
        if self.type == "image" and self.mime_type in _SHOWN_TYPES:
            shown[self.mime_type] = self["data"]
        return shown


class ToolText(str):
    """The text of a result that has other contents too. Without any text it tells what there is.

    Attributes:
        contents: All contents in the server's order, the texts among them.
    """

    contents: list[Content]

    @classmethod
    def make(cls, contents: list[Any]) -> ToolText:
        """The result that consists of these contents."""
        parts = [Content(part) for part in contents]
        texts = [part.text or "" for part in parts if part.type == "text"]
        made = cls("\n".join(texts or [f"[{part._describe()}]" for part in parts]))
        made.contents = parts
        return made

    @property
    def images(self) -> list[Content]:
        """The images among the contents."""
        return [part for part in self.contents if part.type == "image"]

    def __repr__(self) -> str:
        return f"{str.__repr__(self)} with contents {self.contents!r}"


_KINDS = {"text": "text", "image": "data", "audio": "data", "resource": "resource", "resource_link": "uri"}


def is_contents(result: Any) -> bool:
    """Is it the list of contents that the channel gives where there is more than text?"""
    return (
        isinstance(result, list)
        and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in result)
        and any(_KINDS.get(part["type"], "") in part for part in result)
    )
