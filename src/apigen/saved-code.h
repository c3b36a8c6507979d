/* SPDX-License-Identifier: Apache-2.0
 *
 * What agents save in a workspace, beside the generated packages:
 *
 * - Code actions: gentools/CATEGORY/NAME with api.py, which has the function `run` and its types,
 *   and impl.py. Models read api.py only.
 * - Output parsers: a function `run_parsed`, either after the generated text of the tool's module,
 *   or in mcpparse/SERVER/MODULE.py.
 *
 * Cells can write all of it. It is only read as text here, symbolic links are not followed, and
 * what is read is untrusted.
 */
#pragma once

#include "apigen/tool-catalog.h"

#define IPB_SAVED_CODE_ACTIONS "gentools"

/* Whether @name is CATEGORY.NAME, with or without "gentools." in front. *ret_action gets the part
 * after it, in @name. If not, INVALID. */
bool ipb_saved_code_check_name(const char *name, const char **ret_action, GError **error);
/* Inserts the code actions of @workspace into @tools (IpbCatalogTool), sorted by name, before those
 * that are there: the server of each is "gentools.CATEGORY". Those that cannot be described are
 * added to @unreadable (texts with the reason). */
void ipb_saved_code_add_actions(const IpbBeneath *workspace, GPtrArray *tools,
                                GPtrArray *unreadable);
/* Adds the output parser of @tool, if it has one, to its texts. */
void ipb_saved_code_add_parser(const IpbBeneath *workspace, IpbCatalogTool *tool);
/* Removes the action @name (CATEGORY.NAME) with all of its files. NOT_FOUND: there is none. */
bool ipb_saved_code_remove_action(const IpbBeneath *workspace, const char *name, GError **error);
