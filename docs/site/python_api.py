# SPDX-License-Identifier: Apache-2.0
"""The reference of the Python package, from its docstrings. griffe reads them without importing.

Each module has a page, with every name of its `__all__`. The index lists what `import ipybox`
offers.
"""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator

import griffe

TITLES = {
    griffe.DocstringSectionKind.parameters: "Parameters",
    griffe.DocstringSectionKind.attributes: "Attributes",
    griffe.DocstringSectionKind.returns: "Returns",
    griffe.DocstringSectionKind.yields: "Yields",
    griffe.DocstringSectionKind.raises: "Raises",
}
# Where the package has what kernels import, as a package of the same name.
STUB = "ipybox/kernel_host/stub"
# Signatures that are longer have a line for each parameter.
LINE_COLUMNS = 88


class Problems(logging.Handler):
    """Collects what griffe complains about: a docstring names a parameter that does not exist."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class PythonApi:
    """The pages of a package, and what is wrong with its docstrings."""

    def __init__(self, directory: str, package: str = "ipybox"):
        handler = Problems()
        logger = logging.getLogger("griffe")
        logger.addHandler(handler)
        logger.propagate = False
        try:
            self.package = griffe.load(
                package, search_paths=[directory], docstring_parser="google", resolve_aliases=True,
                docstring_options={"returns_named_value": False, "warn_unknown_params": True},
            )  # fmt: skip
            assert isinstance(self.package, griffe.Module)
            self.stub = griffe.load(
                package, search_paths=[f"{directory}/{STUB}"], docstring_parser="google",
            )  # fmt: skip
            self.modules = dict(sorted(self.public_modules()))
            self.files = {
                f"{name.removeprefix(package + '.')}.md": self.module_page(module)
                for name, module in self.modules.items()
            }
            self.files["index.md"] = self.index()
        finally:
            logger.removeHandler(handler)
        self.problems = handler.texts

    def public_modules(self) -> Iterator[tuple[str, griffe.Module]]:
        """The modules of which `import ipybox` offers names, and the adapters of frameworks."""
        offered = ast.literal_eval(str(self.package["_MODULES"].value))
        adapters = {
            f"integrations.{name}"
            for name, module in self.package["integrations"].modules.items()
            if any(member.startswith("Ipybox") for member in module.members)
        }
        for path in {*offered.values()} | adapters:
            if path.startswith("kernel_host."):
                path = path.removeprefix("kernel_host.stub.ipybox.")
            module = self.package[path]
            assert isinstance(module, griffe.Module), path
            yield module.path, module

    def names_of(self, module: griffe.Module) -> Iterator[griffe.Object]:
        """What a module lists in `__all__`, or else the public classes and functions in it."""
        names = [str(name) for name in module.exports or module.members]
        for name in names:
            member = module.members[name]
            found = self.adopted(member) if member.is_alias else member
            is_public = module.exports is not None or not name.startswith("_")
            if is_public and isinstance(found, (griffe.Class, griffe.Function)):
                yield found

    def adopted(self, alias: griffe.Object | griffe.Alias) -> griffe.Object | None:
        """An imported object whose module has no page, because it is on the kernels' side."""
        prefix = STUB.replace("/", ".") + "."
        if not isinstance(alias, griffe.Alias) or not alias.target_path.startswith(prefix):
            return None
        found = self.stub[alias.target_path.removeprefix(prefix).partition(".")[2]]
        return found if isinstance(found, griffe.Object) else None

    def index(self) -> str:
        where = {
            str(member.name): name
            for name, module in self.modules.items()
            for member in self.names_of(module)
        }
        lines = [
            "# Python API",
            "",
            "This page leads to every name that `import ipybox` offers, and to the modules with"
            " more. [Use ipybox from Python](../../how-to/python-sdk.md) shows how to use them.",
            "",
            "| name | what it is |",
            "|---|---|",
        ]
        for name in map(str, self.package.exports or []):
            module = where[name]
            member = next(each for each in self.names_of(self.modules[module]) if each.name == name)
            page = module.removeprefix(f"{self.package.name}.")
            lines.append(f"| [`{name}`]({page}.md#{name.lower()}) | {first_sentence(member)} |")
        lines += ["", "## Modules", ""]
        for name, module in self.modules.items():
            page = name.removeprefix(f"{self.package.name}.")
            lines.append(f"- [`{name}`]({page}.md): {first_sentence(module)}")
        return "\n".join([*lines, ""])

    def module_page(self, module: griffe.Module) -> str:
        parts = [f"# `{module.path}`", *docstring(module)]
        for member in self.names_of(module):
            parts += self.member(member, 2)
        return "\n\n".join(parts) + "\n"

    def member(self, member: griffe.Object, level: int) -> Iterator[str]:
        if isinstance(member, griffe.Class):
            yield from self.class_parts(member, level)
        elif isinstance(member, griffe.Function):
            yield f"{'#' * level} `{member.name}`"
            yield fenced(signature(member))
            yield from docstring(member)

    def class_parts(self, member: griffe.Class, level: int) -> Iterator[str]:
        yield f"{'#' * level} `{member.name}`"
        start = member.members.get("__init__")
        bases = ", ".join(str(base) for base in member.bases)
        shown = f"class {member.name}({bases})" if bases else f"class {member.name}"
        if isinstance(start, griffe.Function):
            shown += "\n\n" + signature(start, member.name)
        elif "dataclass" in member.labels:
            shown += "\n\n" + fields(member)
        yield fenced(shown)
        yield from docstring(member)
        if isinstance(start, griffe.Function):
            yield from docstring(start)
        for child in member.members.values():
            if child.is_alias or child.name.startswith("_"):
                continue
            if isinstance(child, griffe.Function):
                yield f"{'#' * (level + 1)} `{member.name}.{child.name}`"
                yield fenced(signature(child))
                yield from docstring(child)
            elif "property" in child.labels:
                yield f"{'#' * (level + 1)} `{member.name}.{child.name}`"
                yield fenced(f"{child.name}: {child.annotation}")
                yield from docstring(child)


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def parameter_text(parameter: griffe.Parameter) -> str:
    stars = {
        griffe.ParameterKind.var_positional: "*",
        griffe.ParameterKind.var_keyword: "**",
    }
    text = stars.get(parameter.kind, "") + parameter.name
    if parameter.annotation is not None:
        text += f": {parameter.annotation}"
    if parameter.default is not None and parameter.kind not in stars:
        text += f" = {parameter.default}" if parameter.annotation else f"={parameter.default}"
    return text


def signature(function: griffe.Function, name: str | None = None) -> str:
    """The signature without `self`; with a name, of the class that it initializes."""
    parameters: list[str] = []
    keyword_only = False
    positional_only = False
    for parameter in list(function.parameters):
        if parameter.name in ("self", "cls") and not parameters:
            continue
        if positional_only and parameter.kind is not griffe.ParameterKind.positional_only:
            parameters.append("/")
        positional_only = parameter.kind is griffe.ParameterKind.positional_only
        if parameter.kind is griffe.ParameterKind.keyword_only and not keyword_only:
            parameters.append("*")
            keyword_only = True
        keyword_only = keyword_only or parameter.kind is griffe.ParameterKind.var_positional
        parameters.append(parameter_text(parameter))
    begin = name or f"{'async ' if 'async' in function.labels else ''}def {function.name}"
    end = f" -> {function.returns}" if function.returns is not None and name is None else ""
    line = f"{begin}({', '.join(parameters)}){end}"
    if len(line) > LINE_COLUMNS:
        line = f"{begin}(\n    " + ",\n    ".join(parameters) + f",\n){end}"
    return line


def fields(member: griffe.Class) -> str:
    """How a dataclass is made."""
    lines = [
        f"    {child.name}: {child.annotation}"
        + (f" = {child.value}" if child.value is not None else "")
        for child in member.members.values()
        if isinstance(child, griffe.Attribute) and "instance-attribute" in child.labels
        and not child.name.startswith("_") and child.annotation is not None
    ]  # fmt: skip
    return f"{member.name}(\n" + ",\n".join(lines) + ",\n)"


def first_sentence(member: griffe.Object | griffe.Alias) -> str:
    if member.docstring is None:
        return ""
    paragraph = member.docstring.value.strip().partition("\n\n")[0].replace("\n", " ")
    found = re.match(r".*?[.:](?=\s|$)", paragraph)
    return (found[0] if found else paragraph).rstrip(":.").replace("|", "\\|") + "."


def docstring(member: griffe.Object) -> Iterator[str]:
    """The parts of a docstring as blocks of Markdown."""
    if member.docstring is None:
        return
    for section in member.docstring.parsed:
        if section.kind is griffe.DocstringSectionKind.text:
            yield text_as_markdown(section.value)
        elif section.kind in TITLES:
            yield f"**{TITLES[section.kind]}**"
            yield "\n".join(item(section.kind, each) for each in section.value)
        else:
            title = section.title or section.kind.value.capitalize()
            yield f"**{title}**"
            value = section.value
            yield text_as_markdown(
                value if isinstance(value, str) else getattr(value, "description", str(value))
            )


def item(kind: griffe.DocstringSectionKind, each: griffe.DocstringElement) -> str:
    description = re.sub(r"\s*\n\s*", " ", each.description.strip())
    if kind is griffe.DocstringSectionKind.raises:
        return f"- `{each.annotation}`: {description}"
    name = getattr(each, "name", "")
    return f"- `{name}`: {description}" if name else f"- {description}"


def text_as_markdown(text: str) -> str:
    """Code that is indented becomes fenced code."""
    lines: list[str] = []
    code: list[str] = []

    def end_code() -> None:
        while code and not code[-1]:
            code.pop()
        if code:
            lines.extend([*fenced("\n".join(code)).splitlines(), ""])
            code.clear()

    for line in text.strip("\n").splitlines():
        after_gap = not lines or not lines[-1].strip()
        if line.startswith("    ") and (code or after_gap):
            code.append(line[4:])
        elif not line.strip() and code:
            code.append("")
        else:
            end_code()
            lines.append(line)
    end_code()
    return "\n".join(lines).strip()
