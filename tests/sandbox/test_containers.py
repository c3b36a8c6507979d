# SPDX-License-Identifier: Apache-2.0
"""In a container that hides parts of /proc no sandbox can be made. The error and `ipybox doctor`
say which options help. scripts/check-image tries real containers.
"""

from __future__ import annotations

import json
import subprocess

from box import Box, make_settings

# As runtimes do. The container's /proc/sys is read-only, too.
HIDE = 'mount --bind /dev/null /proc/version; mount --bind -o ro /proc/sys /proc/sys; exec "$@"'
CONTAINER = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", HIDE, "sh"]


def run(box: Box, *words: str, container: list[str]) -> subprocess.CompletedProcess[str]:
    return box([*container, *box.become("user"), box.program("user"), *words], sandbox=False)


def proc_of(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return {entry["name"]: entry for entry in json.loads(done.stdout)}["proc"]


def test_the_error_says_how_to_show_it(box: Box, workspace) -> None:
    settings = str(box.write_settings(make_settings()))
    command = ["sandbox", "--settings", settings, "--", "touch", "ran"]
    done = run(box, *command, container=CONTAINER)
    assert done.returncode == 3 and "A container hides parts of its /proc" in done.stderr
    for option in ("systempaths=unconfined", "unmask=ALL", "procMount: Unmasked"):
        assert option in done.stderr
    assert not (workspace / "ran").exists()
    assert run(box, *command, container=[]).returncode == 0


def test_doctor_names_what_is_hidden(box: Box) -> None:
    hidden = proc_of(run(box, "doctor", "--json", container=CONTAINER))
    assert hidden["state"] == "optional"
    assert hidden["detail"] == "parts are hidden: /proc/version, /proc/sys"
    assert "systempaths=unconfined" in hidden["hint"]
    shown = proc_of(run(box, "doctor", "--json", container=[]))
    assert shown == {"name": "proc", "state": "ok", "detail": "nothing is hidden", "hint": None}
