/* SPDX-License-Identifier: Apache-2.0
 *
 * What ipybox has to know of earlier sessions and of those of other processes: two lists of paths
 * in the state directory, which no sandbox can write:
 *
 * - the directories that sandboxed cells could write
 * - the environments whose Python ran kernels, which no sandbox may write any more
 *
 * The Python of kernels is started outside of sandboxes. If cells could write its environment
 * before ipybox knew it, they may have put code there. So such an environment is used only if the
 * user names it.
 *
 * Paths are absolute and real. Several processes may write at once (flock). Files that cannot be
 * read are an error.
 */
#pragma once

/* In the state directory: environments that kernels have run. */
#define IPB_KNOWN_ENVIRONMENTS_FILE "environments"

#include "sandbox/plan.h"

/* Adds the directories that code in a sandbox with this plan can write. LIMIT: there are too
 * many. */
bool ipb_known_paths_add_plan(const char *state_dir, const IpbSandboxPlan *plan, GError **error);
/* Adds the environment of @python, if it is in one: kernels run it from now on. */
bool ipb_known_paths_add_python(const char *state_dir, const char *python, GError **error);
/* The environments that a sandbox of @workspace has to protect: all but those that contain it.
 * NULL with @error. NULL-terminated; the caller frees it. */
char **ipb_known_paths_environments(const char *state_dir, const char *workspace, GError **error);

/* May files in @directory be run, or say what is run? REFUSED: code in sandboxes could write it. */
bool ipb_known_paths_check_directory(const char *state_dir, const char *directory, GError **error);

/* How the Python of kernels was found. */
typedef enum {
    IPB_PYTHON_IMPLIED, /* VIRTUAL_ENV, PATH */
    IPB_PYTHON_NAMED,   /* an option, or IPYBOX_PYTHON */
    IPB_PYTHON_OWN,     /* of the environment in which ipybox itself is */
} IpbPythonOrigin;

/* May @python run kernels? REFUSED: cells may have changed it, and the user did not name it. If the
 * user named it, *ret_warning says so; else it is NULL. */
bool ipb_known_paths_check_python(const char *state_dir, const char *python, IpbPythonOrigin origin,
                                  char **ret_warning, GError **error);
