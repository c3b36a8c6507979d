# SPDX-License-Identifier: Apache-2.0
"""The forkserver: a warm Python process that kernels are forked from.

Started as `python -I [-S] forkserver.py`, with the control socket as fd 3
(docs/internals/kernel-wire.md). It runs no user code. A forked child returns from `serve()` and
becomes a kernel, so its stack has no frames of the forkserver.
"""

import gc
import os
import resource
import sys

CONTROL_FD = 3


def main() -> None:
    # What is imported here stays in use, so a collection would cost more than it frees.
    gc.disable()
    # With a limit of file sizes, Python could leave a truncated .pyc file, which can never be
    # imported.
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        sys.dont_write_bytecode = True
    # With -I the script's folder is not on the path. It is needed for one import only, because the
    # package finds its modules through its __path__.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    from ipybox_kernel import forkserver

    sys.path.remove(here)
    forked = forkserver.serve(CONTROL_FD)
    if forked is not None:
        from ipybox_kernel import kernel

        kernel.run(forked)


if __name__ == "__main__":
    main()
