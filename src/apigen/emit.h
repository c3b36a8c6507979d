/* SPDX-License-Identifier: Apache-2.0
 *
 * Model → Python text.
 */
#pragma once

#include "apigen/model.h"

/* The annotation for @type, without the bounds of @type itself if @is_bare (they stand in a Field then). */
void ipb_emit_annotation(GString *out, const IpbType *type, bool is_bare);
/* The type of what run returns: values that can carry what came beside them do (ipybox.tool_exec.content). */
void ipb_emit_result(GString *out, const IpbType *type);
/* The type of an argument of run, without bounds; of an enum also its values. */
void ipb_emit_argument(GString *out, const IpbType *type);
/* "ge=1, le=100", "" if there are none. */
void ipb_emit_bounds(GString *out, const IpbType *type);
/* The whole module; ends in one newline. */
char *ipb_emit_module(const IpbModule *module, bool async_api);
/* The tool on one line of Python: "def run(*, query: str, page: int | None = None) -> str: ...  # srv.search: Finds things." */
char *ipb_emit_signature(const IpbModule *module, bool async_api);
/* The tool's classes and run, a line for each field; ends in one newline. */
char *ipb_emit_stub(const IpbModule *module, bool async_api);
/* The package's __init__.py. */
char *ipb_emit_init(const char *server_name, const char *registration_id);
