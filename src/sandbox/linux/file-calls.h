/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls that make, change or remove names, or open files: the supervisor performs them
 * for the caller, on what the name guard has judged. Each one behaves as the system's kernel would,
 * with the caller's umask, flags and errors. Exceptions:
 *
 * - Opening a terminal never makes it the controlling terminal (TIOCSCTTY does).
 * - A socket that is bound in a writable directory of the host says only the last part of its path
 *   as its address (getsockname).
 * - Opening a file on which a process holds a lease fails with EAGAIN instead of waiting.
 */
#pragma once

#include "sandbox/linux/name-guard.h"
#include "sandbox/linux/notification.h"

typedef struct {
    IpbNameGuard guard;
    IpbCallers callers;
    uint32_t inner_uid, inner_gid, outer_uid, outer_gid;
    uint64_t max_file_bytes; /* limits.fileSize; 0: none */
    /* Landlock keeps code inside from making sockets in directories of the host. So the kernel may
     * perform bind() in other places. */
    bool are_sockets_confined;
} IpbFileCalls;

/* An open() of a FIFO that waits for the other end. */
typedef struct {
    IpbNotification notification;
    int fd;           /* owned; of a reader: the open FIFO; of a writer: O_PATH */
    int writer_flags; /* of a writer: how it is opened; -1: a reader */
    bool close_on_exec;
} IpbFifoWait;

typedef enum {
    IPB_FILE_CALL_ANSWERED,
    IPB_FILE_CALL_WAITS, /* for the other end of a FIFO: *ret_wait */
    IPB_FILE_CALL_OTHER, /* not a call of this file; nothing was answered */
} IpbFileCallState;

IpbFileCallState ipb_file_calls_perform(IpbFileCalls *calls, const IpbNotification *notification,
                                        IpbFifoWait *ret_wait);
/* Tries again. Returns true if the call was answered, and clears @wait. */
bool ipb_fifo_wait_go_on(IpbFileCalls *calls, IpbFifoWait *wait);
/* Answers with @errno_value, and clears @wait. */
void ipb_fifo_wait_end(IpbFifoWait *wait, int errno_value);
