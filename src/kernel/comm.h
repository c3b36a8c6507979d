/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbComm: a message of a comm, which is a channel between a widget in a front end of Jupyter and
 * its Python object. Both sides open, use and close comms. What the messages say is between the
 * two; we pass it on and keep nothing of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "json/json.h"

/* Of a message, and bytes of an id or of a target. */
#define IPB_COMM_MAX_BUFFERS 1000
#define IPB_COMM_MAX_NAME 4096

typedef enum {
    IPB_COMM_OPEN,
    IPB_COMM_MSG,
    IPB_COMM_CLOSE,
} IpbCommKind;

/* Everything is borrowed. */
typedef struct {
    IpbCommKind kind;
    const char *comm_id;
    /* OPEN: what is to receive it on the other side */
    const char *target_name;
    /* OPEN: where the target is found; usually NULL */
    const char *target_module;
    /* any value */
    const IpbJson *data;
    /* an object or NULL */
    const IpbJson *metadata;
    /* bytes */
    const IpbSpan *buffers;
    size_t n_buffers;
} IpbComm;

/* "open", "msg", "close"; "comm_open", … */
const char *ipb_comm_kind_name(IpbCommKind kind);
const char *ipb_comm_message_type(IpbCommKind kind);
/* False: there is no such kind. */
bool ipb_comm_kind_parse(const char *name, IpbCommKind *ret_kind);

/* JSON of an object with the message, as frames to a kernel have it. NULL with @error: INVALID (no
 * id, or no target to open), LIMIT (a name, the number of buffers, the size of all). */
GBytes *ipb_comm_write(const IpbComm *comm, GError **error);
