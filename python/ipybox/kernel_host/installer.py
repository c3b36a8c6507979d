# SPDX-License-Identifier: Apache-2.0
"""Runs pip of this interpreter for a sandboxed session: `python -I -S installer.py install …`.

`python -m pip` would run the code of .pth files. It would also run a sitecustomize.py in the folder
of an editable install. If this folder is a workspace, a cell may have written the file.
"""

import os
import runpy
import sys


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    from ipybox_kernel import interpreter

    sys.path.remove(here)
    interpreter.set_up(None)
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
