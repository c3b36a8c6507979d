/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the Python that runs the kernels, and our own Python files.
 */
#pragma once

#include "command/known-paths.h"

/* The interpreter's path, in this order: @asked (a path, or a name looked up in PATH); the variable
 * IPYBOX_PYTHON; the environment (venv, conda) that this program is installed in; in a build tree
 * its .venv; VIRTUAL_ENV; the user's environment; python3 in PATH. NOT_FOUND says what was
 * tried. @ret_origin may be NULL. */
char *ipb_python_find(const char *asked, IpbPythonOrigin *ret_origin, GError **error);
/* The directory of the virtual environment that `ipybox doctor --setup` makes, whether it exists or
 * not. */
char *ipb_python_user_environment(void);
/* The folder of the kernel host (forkserver.py): @asked, or else found from where this program is:
 * in a build tree, an installation under a prefix, or a wheel. The error NOT_FOUND lists the
 * places. */
char *ipb_python_find_host(const char *asked, GError **error);
/* The file that lists what a kernel's Python needs, for pip. */
char *ipb_python_find_requirements(GError **error);
