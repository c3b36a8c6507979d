/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbNotification: a system call of code inside that waits for the supervisor's answer (seccomp's
 * user notification). Each one is answered once. If its process was killed in the meantime, an
 * answer has no effect.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    int notify_fd; /* borrowed */
    uint64_t id;
    pid_t pid;  /* of the thread that called */
    int number; /* of the system call */
    uint64_t args[6];
} IpbNotification;

typedef enum {
    IPB_NOTIFICATION_RECEIVED,
    IPB_NOTIFICATION_NONE,  /* its process was killed */
    IPB_NOTIFICATION_ENDED, /* no process is left that could ask */
} IpbNotificationState;

IpbNotificationState ipb_notification_receive(int notify_fd, IpbNotification *ret_notification);
/* Is the caller still waiting? If so, what was read from its process before belongs to it. */
bool ipb_notification_is_valid(const IpbNotification *notification);
/* The call returns 0, or fails with @errno_value. */
void ipb_notification_answer(const IpbNotification *notification, int errno_value);
/* The system's kernel performs the call. It reads the arguments again: whatever was checked of the
 * caller's memory may have changed. */
void ipb_notification_continue(const IpbNotification *notification);
/* The call returns a new descriptor, which is a copy of @fd. Takes @fd, and closes it.
 * @is_closed_first: before the call returns, which takes longer. If a program's file is opened for
 * writing, this is needed. Otherwise the caller could not execute what it has written and closed,
 * since it might still be open here. */
void ipb_notification_inject(const IpbNotification *notification, int fd, bool is_closed_first,
                             bool close_on_exec);
/* The caller and this thread share a processor while one waits for the other. That halves the
 * time, with Linux 6.6 or later. */
void ipb_notification_share_processor(int notify_fd);
