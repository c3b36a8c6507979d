/* SPDX-License-Identifier: Apache-2.0
 *
 * Which library this is; see <ipybox/version.h>.
 */
#include <ipybox/version.h>

const char *
ipybox_get_version(void)
{
    return IPYBOX_VERSION;
}
