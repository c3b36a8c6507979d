/* SPDX-License-Identifier: Apache-2.0
 *
 * The source of a generated package: its modules and its __init__.py.
 */
#pragma once

#include "apigen/model.h"

/* The module of a tool. Ends in one newline. */
char *ipb_emit_module(const IpbModule *module, bool async_api);
/* The package's __init__.py. */
char *ipb_emit_init(const char *server_name, const char *registration_id);
