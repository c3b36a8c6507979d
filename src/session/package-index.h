/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPackageIndex: what the user has configured for pip and uv: the hosts that an installer must
 * reach, pip's own proxy, and the other settings as variables, so that an installer needs no
 * configuration file of pip.
 *
 * Ownership: the owner frees it.
 */
#pragma once

#include <glib.h>

typedef struct IpbPackageIndex IpbPackageIndex;

/* @env: pip's and uv's variables in it count. */
IpbPackageIndex *ipb_package_index_new(const char *const *env);
/* A line of `pip config list`, such as global.index-url='https://…'. */
void ipb_package_index_take_line(IpbPackageIndex *index, const char *line);
/* As variables of an environment: PIP_INDEX_URL=https://…. Borrowed, NULL-terminated. */
const char *const *ipb_package_index_settings(const IpbPackageIndex *index);
/* Adds the host of the URL in @package, if there is one. */
void ipb_package_index_take_package(IpbPackageIndex *index, const char *package);
/* Host names; PyPI's if nothing else was configured. Borrowed, NULL-terminated. */
const char *const *ipb_package_index_hosts(IpbPackageIndex *index);
/* The same for people: what is known without the installer's files. The caller frees it. */
char *ipb_package_index_describe(IpbPackageIndex *index);
void ipb_package_index_free(IpbPackageIndex *index);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbPackageIndex, ipb_package_index_free)
