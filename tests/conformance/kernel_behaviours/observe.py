# SPDX-License-Identifier: Apache-2.0
"""usage: observe.py KERNELSPEC [ROW]...

Prints a line of JSON for each row of rows.py: its name, what is done, why the kernels differ, and
what this kernel does.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

import rows
from front import Front


def main() -> None:
    name, *wanted = sys.argv[1:]
    rows.WORKSPACE = os.getcwd()
    rows.HOME = os.environ["HOME"]
    shared = Front(name)
    for key, row in rows.ROWS.items():
        if wanted and key not in wanted:
            continue
        front = Front(name) if row.alone else shared
        try:
            observed = row.observe(front)
        except Exception:
            observed = "raised:\n" + traceback.format_exc()
        finally:
            if row.alone:
                front.stop()
        print(json.dumps([key, row.what, row.why, observed], ensure_ascii=False), flush=True)
    shared.stop()


main()
