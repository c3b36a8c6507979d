/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a tool, as tools/list gives it, into the model. Reading always succeeds: a rule that the
 * model cannot express becomes a looser type with a note.
 */
#pragma once

#include "apigen/model.h"

/* @tool must live as long as the module. Classes, enums and fields have their names. */
IpbModule *ipb_schema_read_tool(const IpbJson *tool);
