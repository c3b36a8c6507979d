/* SPDX-License-Identifier: Apache-2.0
 *
 * Where Jupyter looks for kernelspecs.
 */
#pragma once

/* The user's folder: in JUPYTER_DATA_DIR, or in the data directory. The caller frees it. */
char *ipb_jupyter_folders_user(void);
/* The folder of an environment or another prefix. The caller frees it. */
char *ipb_jupyter_folders_of_prefix(const char *prefix);
/* All folders, absolute, those that count first at the beginning: of JUPYTER_PATH, the user's, that
 * of the environment in which this program is, and the system's. NULL-terminated; the caller frees
 * it. */
char **ipb_jupyter_folders_list(void);
