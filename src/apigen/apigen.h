/* SPDX-License-Identifier: Apache-2.0
 *
 * Generates a Python package from the tools of an MCP server: JSON Schema → model → source. Pure
 * functions on text but for the last one, which writes files. Everything in @tools is untrusted.
 */
#pragma once

#include "json/json.h"

/* What ipb_apigen_generate tells of each tool. */
typedef enum {
    IPB_APIGEN_MODULES,    /* the module's name */
    IPB_APIGEN_SIGNATURES, /* one line: the call and what it returns */
    IPB_APIGEN_STUBS,      /* classes and run, without notes; ends in a newline */
} IpbApigenListing;

typedef struct {
    const char *server_name;     /* a valid Python identifier and no keyword: INVALID otherwise */
    const char *registration_id; /* the id that the package carries (tools/registry.h) */
    bool async_api;              /* run is a coroutine function */
    IpbApigenListing listing;
} IpbApigenOptions;

typedef struct {
    char *name;   /* file name in the package: "search_repositories.py", "__init__.py" */
    char *source; /* UTF-8, one final newline */
} IpbApigenFile;

/* Checks a server name: INVALID says what is allowed. */
bool ipb_apigen_check_server_name(const char *name, GError **error);
/* The module's name for a tool's name: [^a-zA-Z0-9_] → "_", lower-cased, made a usable identifier. */
char *ipb_apigen_module_name(const char *tool_name);
/* @tools: array as tools/list gives it. Returns IpbApigenFile pointers; ret_modules gets the
 * modules' names, or what else the options' listing says, in the order of the tools. LIMIT for too many or too large tools. */
GPtrArray *ipb_apigen_generate(const IpbJson *tools, const IpbApigenOptions *options,
                               char ***ret_modules, GError **error);
