/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbZmqSigner: signs Jupyter's messages by HMAC-SHA256, and accepts each signature once: a message
 * that another program recorded cannot be sent again. It remembers the last 65,536 signatures.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

/* Of a signature: 64 hexadecimal digits and NUL. */
#define IPB_ZMQ_SIGNATURE_SIZE 65

/* What is signed: header, parent_header, metadata, content. */
#define IPB_ZMQ_N_SIGNED 4

typedef struct IpbZmqSigner IpbZmqSigner;

IpbZmqSigner *ipb_zmq_signer_new(const char *key);
void ipb_zmq_signer_sign(const IpbZmqSigner *signer, const IpbSpan parts[static IPB_ZMQ_N_SIGNED],
                         char ret_signature[static IPB_ZMQ_SIGNATURE_SIZE]);
/* Whether it is the signature of the parts, and has not been accepted before. */
bool ipb_zmq_signer_accept(IpbZmqSigner *signer, IpbSpan signature,
                           const IpbSpan parts[static IPB_ZMQ_N_SIGNED]);
void ipb_zmq_signer_free(IpbZmqSigner *signer);
