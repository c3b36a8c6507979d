# SPDX-License-Identifier: Apache-2.0
"""What `--help` lists: verbs, their options and their commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

OPTION = re.compile(r"^  (?:(-\w), )?(--[\w-]+)(?:=(\S+))?(?:  |$)")
COMMAND = re.compile(r"^  ([a-z][\w-]*)((?: [A-Z|]+)*)  ")


@dataclass
class Help:
    """Options by long name with their argument, short names, and commands such as `servers add`."""

    options: dict[str, str | None] = field(default_factory=dict)
    short: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> Help:
        help = cls()
        for line in text.splitlines():
            if found := OPTION.match(line):
                help.options[found[2]] = found[3]
                if found[1]:
                    help.short[found[1]] = found[2]
            elif found := COMMAND.match(line):
                help.commands.append(found[1])
        return help


def read(run_ipybox) -> dict[str, Help]:
    """The help of each verb. That of the program itself is under ""; its commands are the verbs."""

    def help(*verb: str) -> Help:
        done = run_ipybox(*verb, "--help")
        assert done.returncode == 0, done.stderr
        return Help.parse(done.stdout)

    program = help()
    assert len(program.commands) >= 5, "the verbs are not read from --help any more"
    return {"": program} | {verb: help(verb) for verb in program.commands}
