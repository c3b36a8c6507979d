# SPDX-License-Identifier: Apache-2.0
"""The contents of a tool's result besides its value: texts, images, audio, resources and links."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import mimetypes
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

# Image types that notebooks show.
_SHOWN_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
# For types that are missing in the machine's tables, or differ between machines.
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
# File names that are tried in a directory.
MAX_FILES = 10_000

Item = TypeVar("Item")


class Content(dict[str, Any]):
    """One part of a tool's result: the object that the server sent, as a dict, with properties."""

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
        """The media type, such as `image/png`; None if the server does not send it."""
        value = self._body.get("mimeType")
        return value if isinstance(value, str) else None

    @property
    def uri(self) -> str | None:
        """The URI of a resource or a link."""
        value = self._body.get("uri")
        return value if isinstance(value, str) else None

    @property
    def text(self) -> str | None:
        """The text of a text or a text resource."""
        value = self._body.get("text")
        return value if isinstance(value, str) else None

    @property
    def data(self) -> bytes:
        """The bytes: decoded base64, or the text in UTF-8.

        Raises:
            ValueError: If there is no data, as in a link, or if it is not valid base64.
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
            raise ValueError(f"the data of this {self.type} is not valid base64: {error}") from None

    def save(self, path: str | os.PathLike[str] = ".") -> Path:
        """Writes the bytes to a file and returns its absolute path.

        Args:
            path: A file, which is replaced; or a directory, in which a new file is created, named
                after the URI or the type. Default: the current directory.

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
        """A safe name from the server's URI: letters, digits, `_` and `-`, and a suffix of them."""
        base = re.split(r"[?#]", self.uri or "")[0].rstrip("/").rsplit("/", 1)[-1]
        stem, dot, suffix = base.rpartition(".")
        if not stem:
            stem, dot, suffix = base, "", ""
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_")[:MAX_FILE_NAME]
        suffix = dot + re.sub(r"[^A-Za-z0-9]", "", suffix)[:10]
        if len(suffix) < 2:
            kind = (self.mime_type or "").split(";")[0].strip().lower()
            suffix = _SUFFIXES.get(kind) or mimetypes.guess_extension(kind) or ""
        return stem or self.type.split("_")[0], suffix or (
            ".txt" if self.text is not None else ".bin"
        )

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
        """The representations for IPython."""
        shown: dict[str, Any] = {"text/plain": repr(self)}
        if self.type == "image" and self.mime_type in _SHOWN_TYPES:
            shown[self.mime_type] = self["data"]
        return shown


class Beside:
    """The parts of a result that are not in its value.

    All instances are equal, so that comparisons of models ignore them.

    Attributes:
        contents: All contents in the server's order.
        structured: The structured content, as the server sent it; None if there is none.
    """

    __slots__ = ("contents", "structured")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, contents: list[Content] | None = None, structured: Any = None) -> None:
        self.contents: list[Content] = [] if contents is None else contents
        self.structured = structured

    @property
    def text(self) -> str:
        """The texts among the contents, joined by newlines."""
        return "\n".join(part.text or "" for part in self.contents if part.type == "text")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Beside)


class _Carrier:
    """A value of a tool's result that also has the other parts of the result."""

    @property
    def _beside(self) -> Beside:
        beside: Beside = self.__dict__.setdefault("_what_came", Beside())
        return beside

    @_beside.setter
    def _beside(self, beside: Beside) -> None:
        self.__dict__["_what_came"] = beside

    @property
    def contents(self) -> list[Content]:
        """All contents in the server's order, including texts."""
        return self._beside.contents

    @property
    def images(self) -> list[Content]:
        """The images among the contents."""
        return [part for part in self.contents if part.type == "image"]

    @property
    def text(self) -> str:
        """The texts among the contents, joined by newlines; empty if there is none."""
        return self._beside.text

    @property
    def structured(self) -> Any:
        """The structured content as the server sent it; None if there is none."""
        return self._beside.structured

    @property
    def result(self) -> Self:
        """The value itself, for programs that expect the wrapped form `{"result": value}`."""
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Validates as the plain type. ToolAnswer.attach converts the value to a carrier."""
        plain = cls.__mro__[cls.__mro__.index(_Carrier) + 1]
        arguments = getattr(source, "__args__", ())
        if plain is dict:
            arguments = (str, *arguments)
        return handler(plain[arguments] if arguments else plain)  # type: ignore[index]


class ToolText(_Carrier, str):
    """A text with the other parts of the result.

    For a tool without an output schema it is the tool's text. If there is no text, it is the
    structured content as JSON. If there is none either, it has a line that names each content.
    """

    @classmethod
    def make(cls, contents: list[Any], structured: Any = None) -> ToolText:
        """The text for a result that has these contents."""
        parts = [Content(part) for part in contents]
        texts = [part.text or "" for part in parts if part.type == "text"]
        if not texts and structured is not None:
            texts = [json.dumps(structured, ensure_ascii=False)]
        made = cls("\n".join(texts or [f"[{part._describe()}]" for part in parts]))
        made._beside = Beside(parts, structured)
        return made

    def __repr__(self) -> str:
        has_more = any(part.type != "text" for part in self.contents)
        return (
            f"{str.__repr__(self)} with contents {self.contents!r}"
            if has_more
            else str.__repr__(self)
        )


class ToolInt(_Carrier, int):
    """An integer with the other parts of the result."""


class ToolFloat(_Carrier, float):
    """A number with the other parts of the result."""


class ToolList(_Carrier, list[Item]):
    """A list with the other parts of the result."""


class ToolDict(_Carrier, dict[str, Item]):
    """A dict with the other parts of the result."""


_CARRIERS: dict[type, Any] = {
    str: ToolText,
    int: ToolInt,
    float: ToolFloat,
    list: ToolList,
    dict: ToolDict,
}


class ToolAnswer:
    """The complete answer of a tool.

    Attributes:
        contents: All contents in the server's order.
        structured: The structured content; None if there is none.
        has_structured: Whether there is structured content, which may be null.
    """

    def __init__(self, result: Any) -> None:
        """Args: result: the result object of MCP's `tools/call`."""
        given = result if isinstance(result, dict) else {}
        contents = given.get("content")
        parts = contents if isinstance(contents, list) else []
        self.contents = [Content(part) for part in parts if isinstance(part, dict)]
        self.structured = given.get("structuredContent")
        # Some servers send null if there is none.
        self.has_structured = "structuredContent" in given and (
            self.structured is not None or not self.contents
        )

    @classmethod
    def from_value(cls, value: Any) -> ToolAnswer:
        """The answer of a tool server that sends the value only."""
        if isinstance(value, ToolText):
            return cls({"content": value.contents})
        if isinstance(value, str):
            return cls({"content": [{"type": "text", "text": value}]})
        return cls({} if value is None else {"structuredContent": value})

    @property
    def text(self) -> str:
        """The texts among the contents, joined by newlines; empty if there is none."""
        return self.beside.text

    @property
    def value(self) -> Any:
        """The structured content, else the text or a ToolText with other contents, else None."""
        if self.has_structured:
            return self.structured
        if not self.contents:
            return None
        is_text = all(part.type == "text" for part in self.contents)
        return self.text if is_text else self.to_text()

    def to_text(self) -> ToolText:
        """The text, else the structured content as JSON, else a line that names each content."""
        return ToolText.make(self.contents, self.structured if self.has_structured else None)

    def attach(self, value: Any) -> Any:
        """Adds the other parts to a text, number, list or dict; returns other values unchanged."""
        carrier = _CARRIERS.get(type(value))
        if carrier is None:
            return value
        made = carrier(value)
        made._beside = self.beside
        return made

    @property
    def beside(self) -> Beside:
        """The parts of the result that are not in the value."""
        return Beside(self.contents, self.structured)


_KINDS = {
    "text": "text",
    "image": "data",
    "audio": "data",
    "resource": "resource",
    "resource_link": "uri",
}


def is_contents(result: Any) -> bool:
    """Whether it is a list of contents, which the channel sends if there is more than text."""
    return (
        isinstance(result, list)
        and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in result)
        and any(_KINDS.get(part["type"], "") in part for part in result)
    )
