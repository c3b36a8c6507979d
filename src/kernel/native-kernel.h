/* SPDX-License-Identifier: Apache-2.0
 *
 * A native kernel: a process forked from the forkserver, with which the core talks over the kernel
 * wire. The native provider makes them.
 */
#pragma once

#include "kernel/forkserver.h"
#include "kernel/kernel.h"

IpbKernel *ipb_native_kernel_new(IpbLoop *loop, IpbForkserver *forkserver,
                                 const IpbKernelOptions *options, IpbEventFunc on_event,
                                 void *data);
