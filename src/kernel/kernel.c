/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that every backend shares: checks of what comes from the caller, and dispatch.
 */
#include "kernel/kernel.h"

#include <string.h>

#include "base/error.h"

#define MAX_CODE (32u * 1024 * 1024)

void
ipb_kernel_start(IpbKernel *kernel)
{
    kernel->ops->start(kernel);
}

uint64_t
ipb_kernel_execute(IpbKernel *kernel, const char *code, GError **error)
{
    size_t size = strlen(code);
    if (size > MAX_CODE) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the code has %zu bytes, %u are allowed: write it to a file and run that", size,
                    MAX_CODE);
        return 0;
    }
    if (!g_utf8_validate(code, (gssize) size, NULL)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the code is not valid UTF-8");
        return 0;
    }
    uint64_t cell = kernel->last_cell + 1;
    if (!kernel->ops->execute(kernel, code, cell, error))
        return 0;
    return kernel->last_cell = cell;
}

void
ipb_kernel_interrupt(IpbKernel *kernel)
{
    kernel->ops->interrupt(kernel);
}

void
ipb_kernel_reset(IpbKernel *kernel)
{
    kernel->ops->reset(kernel);
}

void
ipb_kernel_stop(IpbKernel *kernel, void (*done)(void *data), void *data)
{
    kernel->ops->stop(kernel, done, data);
}

void
ipb_kernel_set_paused(IpbKernel *kernel, bool paused)
{
    kernel->ops->set_paused(kernel, paused);
}

void
ipb_kernel_free(IpbKernel *kernel)
{
    if (kernel != NULL)
        kernel->ops->free(kernel);
}
