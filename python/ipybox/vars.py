# SPDX-License-Identifier: Apache-2.0
"""Replaces variables in the parameters of MCP servers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_VARIABLE = re.compile(r"\$\{([a-zA-Z0-9_]+)\}")


@dataclass
class ReplaceResult:
    """The result of `replace_variables`.

    Attributes:
        replaced: The copy, with values instead of variables.
        replaced_variables: Names that have a value.
        missing_variables: Names without a value; `replaced` still contains them.
    """

    replaced: dict[str, Any]
    replaced_variables: set[str] = field(default_factory=set)
    missing_variables: set[str] = field(default_factory=set)

    @property
    def total_variables(self) -> int:
        """The number of different variables."""
        return len(self.replaced_variables) + len(self.missing_variables)


def replace_variables(template: Mapping[str, Any], variables: Mapping[str, str]) -> ReplaceResult:
    """Replaces `${NAME}` in all strings of a template, in nested dicts and lists too.

    Variables in values are not replaced.

    Args:
        template: For example the parameters of an MCP server. It is not changed.
        variables: Values by name, for example `os.environ`.

    Returns:
        The copy, and the names of the variables that were found.
    """
    result = ReplaceResult({})
    result.replaced = {key: _replace(value, variables, result) for key, value in template.items()}
    return result


def _replace(value: Any, variables: Mapping[str, str], result: ReplaceResult) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _look_up(match, variables, result), value)
    if isinstance(value, Mapping):
        return {key: _replace(item, variables, result) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace(item, variables, result) for item in value]
    return value


def _look_up(match: re.Match[str], variables: Mapping[str, str], result: ReplaceResult) -> str:
    name = match[1]
    if name not in variables:
        result.missing_variables.add(name)
        return match[0]
    result.replaced_variables.add(name)
    return variables[name]
