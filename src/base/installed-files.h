/* SPDX-License-Identifier: Apache-2.0
 *
 * Where our own files are: found from where this code lies, be it in the program, in a library that another program loaded, in a
 * build tree or installed.
 */
#pragma once

#include <glib.h>

/* In an installed Python wheel the program is PREFIX/bin/ipybox, and all else is in the package, of whichever Python. */
#define IPB_INSTALLED_FILES_WHEEL "../lib*/python3*/*-packages/ipybox"
/* The same after `pip install --target`. */
#define IPB_INSTALLED_FILES_WHEEL_TARGET "../ipybox"

/* The directory of the object that holds this code: the program, or the shared library. */
char *ipb_installed_files_directory(GError **error);
/* The path of @file in the first of @candidates (directories relative to that one, in which patterns of glob(3) may be;
 * NULL-terminated) that has it; @what names it in the error. NOT_FOUND: in none, and which were tried. */
char *ipb_installed_files_find(const char *const *candidates, const char *file, const char *what,
                               GError **error);
