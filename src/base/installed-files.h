/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of ipybox itself. They are found relative to this code, which may be in the program or
 * in a library that another program loaded, in a build tree or installed.
 */
#pragma once

#include <glib.h>

/* In an installed Python wheel the program is PREFIX/bin/ipybox. All other files are in the Python
 * package, of any version of Python. */
#define IPB_INSTALLED_FILES_WHEEL "../lib*/python3*/*-packages/ipybox"
/* The same after `pip install --target`. */
#define IPB_INSTALLED_FILES_WHEEL_TARGET "../ipybox"

/* The directory of the program or shared library that holds this code. */
char *ipb_installed_files_directory(GError **error);
/* The path of @file in the first of @candidates that has it. @candidates: directories relative to
 * the one above, NULL-terminated; they may be patterns of glob(3). @what: the name of the file for
 * the error. NOT_FOUND: it is in none; the message lists them. */
char *ipb_installed_files_find(const char *const *candidates, const char *file, const char *what,
                               GError **error);
