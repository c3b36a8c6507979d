# SPDX-License-Identifier: Apache-2.0
"""Asks shells for completions of a line.

The shells are bash, zsh and fish, with our completions and no others.
"""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import time

import harness

COMPLETIONS = harness.ROOT / "data/completions"
SECONDS = 60

BASH = """
source {completions}/ipybox
while IFS= read -r line; do
    # As readline parts a line: = is a word.
    line_words=${{line//=/ = }}
    read -ra COMP_WORDS <<<"$line_words"
    [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMP_LINE=$line COMP_POINT=${{#line}}
    _ipybox
    printf '%s\\n' "${{COMPREPLY[@]}}" ''
    echo -- end
done
"""

# A line editor that fills in each line in turn, asks for completions, and writes them down.
ZSHRC = r"""
PS1= PS2= LISTMAX=10000
fpath=({completions} $fpath)
autoload -Uz compinit
compinit -u -D
typeset -a lines=("${{(@f)$(<{lines})}}")
compadd() {{
    if [[ ${{@[1,(i)(-|--)]}} == *-(O|A|D)\ * ]]; then
        builtin compadd "$@"
    else
        local -a hits
        builtin compadd -O hits "$@"
        (( $#hits )) && print -rl -- $hits >>{offers}
        builtin compadd "$@"
    fi
}}
next-line() {{
    if (( ! $#lines )); then
        exit
    fi
    BUFFER=$lines[1] CURSOR=$#lines[1]
    shift lines
    zle complete-word
    print -r -- '-- end' >>{offers}
    zle send-break
}}
zle -N zle-line-init next-line
zstyle ':completion:*' menu no
setopt no_beep
"""

FISH = """
source {completions}/ipybox.fish
while read -l line
    complete -C $line | string replace -r '\\t.*' ''
    echo '-- end'
end
"""


def split(text: str) -> list[set[str]]:
    """The completions of each line.

    Names of options come without what follows them. Directories end in a slash, or not.
    """
    parts = text.replace("\r", "").split("-- end\n")
    return [
        {word.strip().rstrip("/") for word in part.splitlines() if word.strip()}
        for part in parts[:-1]
    ]


def ask_bash(lines: list[str], place: harness.Place) -> list[set[str]]:
    script = BASH.format(completions=COMPLETIONS)
    return split(run(["bash", "--norc", "-c", script], lines, place))


def ask_fish(lines: list[str], place: harness.Place) -> list[set[str]]:
    script = FISH.format(completions=COMPLETIONS)
    answers = split(run(["fish", "--no-config", "-c", script], lines, place))
    # For --approve=a it offers --approve=allow; the other shells offer the value alone.
    return [{word.partition("=")[2] or word for word in answer} for answer in answers]


def run(command: list[str], lines: list[str], place: harness.Place) -> str:
    return subprocess.run(
        command,
        input="".join(f"{line}\n" for line in lines),
        cwd=place.workspace,
        env=place.environ,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
    ).stdout


def ask_zsh(lines: list[str], place: harness.Place) -> list[set[str]]:
    home = place.root / "zsh"
    home.mkdir(exist_ok=True)
    (home / "lines").write_text("".join(f"{line}\n" for line in lines))
    (home / "offers").write_text("")
    rc = ZSHRC.format(
        completions=shlex.quote(str(COMPLETIONS)), lines=home / "lines", offers=home / "offers"
    )
    (home / ".zshrc").write_text(rc)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place.workspace)
        os.execvpe(
            "zsh", ["zsh", "-d", "-i"], place.environ | {"ZDOTDIR": str(home), "TERM": "dumb"}
        )
    try:
        wait_for_end(terminal)
    finally:
        os.close(terminal)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return [
        {word.rstrip("=") for word in answer} for answer in split((home / "offers").read_text())
    ]


def wait_for_end(terminal: int) -> None:
    deadline = time.monotonic() + SECONDS
    seen = b""
    while True:
        left = deadline - time.monotonic()
        assert left > 0 and select.select([terminal], [], [], left)[0], seen.decode(
            errors="replace"
        )
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            return
        if not chunk:
            return
        seen += chunk


SHELLS = {"bash": ask_bash, "zsh": ask_zsh, "fish": ask_fish}
