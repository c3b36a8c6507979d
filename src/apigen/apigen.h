/* SPDX-License-Identifier: Apache-2.0
 *
 * Generates a Python package from the tools of an MCP server: JSON Schema → model → source. Pure
 * functions on text; generated-package.h writes the files. All of @tools is untrusted.
 */
#pragma once

#include "json/json.h"

/* What ipb_apigen_generate() returns about each tool. */
typedef enum {
    IPB_APIGEN_MODULES,    /* the module's name */
    IPB_APIGEN_SIGNATURES, /* one line: the call and its result */
    IPB_APIGEN_STUBS,      /* its classes and run(); ends in a newline */
    /* the module's name, a newline, the signature */
    IPB_APIGEN_NAMED_SIGNATURES,
} IpbApigenListing;

typedef struct {
    const char *server_name;     /* a Python identifier, not a keyword */
    const char *registration_id; /* the id in the package (tools/registry.h) */
    bool async_api;              /* run() is a coroutine function */
    IpbApigenListing listing;
    bool is_application; /* no MCP server has the tools, but the application */
} IpbApigenOptions;

typedef struct {
    char *name;   /* in the package: "search_repositories.py", "__init__.py", the catalog's */
    char *source; /* UTF-8, ends in one newline */
} IpbApigenFile;

/* Checks the name of a server. INVALID: the message says what is allowed. */
bool ipb_apigen_check_server_name(const char *name, GError **error);
/* The name of a tool's module: [^a-zA-Z0-9_] becomes "_", the rest lower case, and the result a
 * usable identifier. */
char *ipb_apigen_module_name(const char *tool_name);
/* @tools: an array as tools/list gives it. Returns IpbApigenFile pointers. *ret_modules gets the
 * names of the modules, or what the options' listing asks for, in the order of the tools. Errors:
 * INVALID for a bad server name, PROTOCOL for a list that is malformed, LIMIT for too many or too
 * large tools. */
GPtrArray *ipb_apigen_generate(const IpbJson *tools, const IpbApigenOptions *options,
                               char ***ret_modules, GError **error);
