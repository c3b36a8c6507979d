/* SPDX-License-Identifier: Apache-2.0
 *
 * The signature of a function in a Python source that agents have written: a saved code action, an
 * output parser. The source is only read as text, and nothing of it runs. It may be hostile: it can
 * hide its function from this reader, or show another one, but it cannot do more.
 */
#pragma once

#include <stdbool.h>

/* A plain struct, all zero if nothing was found. */
typedef struct {
    char *signature; /* "def run(a: int) -> str", on one line, without comments */
    char *summary;   /* the first line of its docstring, or NULL */
} IpbPythonFunction;

/* Finds the function @name at the top level of @source (UTF-8); the last one, if there are several.
 * Returns false if there is none. The caller clears *ret. */
bool ipb_python_function_find(const char *source, const char *name, IpbPythonFunction *ret);
void ipb_python_function_clear(IpbPythonFunction *function);
