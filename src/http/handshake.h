/* SPDX-License-Identifier: Apache-2.0
 *
 * The handshake of a WebSocket (RFC 6455, section 4) from hostile peers, for both sides. Pure: no
 * input, no output.
 */
#pragma once

#include "http/request-head.h"

/* Sizes of a client's key and of the answer to it, in base64, with their NUL. */
#define IPB_HANDSHAKE_KEY_SIZE 25
#define IPB_HANDSHAKE_ACCEPT_SIZE 29

/* Server. Is @head a handshake? @protocols: the supported ones (NULL-terminated; may be NULL).
 * @ret_protocol: the first of the client's list that is among them, or NULL. False: status and
 * reason are set in @head. */
bool ipb_handshake_check_request(IpbHttpHead *head, const char *const *protocols,
                                 const char **ret_protocol,
                                 char ret_accept[IPB_HANDSHAKE_ACCEPT_SIZE]);

/* Client. Is @head the answer to a handshake with the key @key that offered @protocols?
 * @ret_protocol: the chosen one of @protocols, or NULL. False: reason is set in @head. */
bool ipb_handshake_check_answer(IpbHttpHead *head, const char *key, const char *const *protocols,
                                const char **ret_protocol);
