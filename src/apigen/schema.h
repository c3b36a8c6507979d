/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a tool, as tools/list gives it, into the model. Always succeeds: what the model cannot say
 * becomes a looser type with a note.
 */
#pragma once

#include "apigen/model.h"

/* @tool must live as long as the module. Its names are given. */
IpbModule *ipb_schema_read_tool(const IpbJson *tool);
