/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's Python environment for kernels, which `ipybox doctor --setup` makes.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Makes the environment, or brings it up to date. It gets what kernels need, and @packages.
 * Progress is printed to stderr. @asked: the interpreter to make it with, or NULL. UNAVAILABLE,
 * NOT_FOUND: the message says what to do. */
bool ipb_python_setup_run(const char *asked, const char *const *packages, GError **error);
