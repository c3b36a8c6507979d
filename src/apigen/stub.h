/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool in few words, for models that must save tokens: a signature on one line, or a stub. Both
 * are valid Python, and both have a maximum size, whatever the schema.
 */
#pragma once

#include "apigen/model.h"

/* The tool on one line:
 *
 *     def run(*, query: str, page: int | None = None) -> str: ...  # srv.search: Finds things.
 */
char *ipb_stub_make_signature(const IpbModule *module, bool async_api);
/* The tool's classes and run, with a line for each field. Ends in one newline. */
char *ipb_stub_make(const IpbModule *module, bool async_api);
/* The same with whole descriptions: the tool's as the docstring of run. */
char *ipb_stub_make_full(const IpbModule *module, bool async_api);
