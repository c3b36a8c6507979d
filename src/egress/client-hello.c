/* SPDX-License-Identifier: Apache-2.0
 *
 * The ClientHello parser; see the header. It first joins the records to one message, and parses the
 * message when it is complete. RFC 8446, sections 4.1.2 and 5.1, and RFC 6066, section 3.
 */
#include "egress/client-hello.h"

#include <string.h>

#include <glib.h>

#define RECORD_HEADER_SIZE 5
#define RECORD_HANDSHAKE 22
#define MAX_RECORD 16384
#define MESSAGE_HEADER_SIZE 4
#define MESSAGE_CLIENT_HELLO 1
#define MAX_MESSAGE (16 * 1024)
#define RANDOM_SIZE 32
#define MAX_SESSION_ID 32
#define EXTENSION_SERVER_NAME 0
#define NAME_TYPE_HOST 0

/* The bytes that are left to read. After a read beyond the end, all reads fail. */
typedef struct {
    const uint8_t *at;
    size_t left;
    bool has_failed;
} Reader;

static const uint8_t *
take(Reader *reader, size_t size)
{
    if (size > reader->left) {
        reader->has_failed = true;
        reader->left = 0;
        return NULL;
    }
    const uint8_t *bytes = reader->at;
    reader->at += size;
    reader->left -= size;
    return bytes;
}

static size_t
take_number(Reader *reader, size_t size)
{
    const uint8_t *bytes = take(reader, size);
    size_t number = 0;
    for (size_t i = 0; bytes != NULL && i < size; i++)
        number = number << 8 | bytes[i];
    return number;
}

/* A vector: its length in @length_size bytes, then its content. */
static Reader
take_vector(Reader *reader, size_t length_size)
{
    size_t size = take_number(reader, length_size);
    const uint8_t *bytes = take(reader, size);
    return (Reader){bytes, bytes != NULL ? size : 0, bytes == NULL};
}

static IpbClientHelloState
refuse(IpbClientHello *hello, const char *reason)
{
    hello->reason = reason;
    return IPB_CLIENT_HELLO_BAD;
}

static bool
is_visible(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] <= ' ' || bytes[i] >= 0x7f)
            return false;
    return true;
}

/* Accepts exactly one name: the server could choose differently among several names or types. */
static bool
parse_server_name(Reader extension, IpbClientHello *hello)
{
    Reader list = take_vector(&extension, 2);
    size_t type = take_number(&list, 1);
    Reader name = take_vector(&list, 2);
    if (extension.has_failed || list.has_failed || name.has_failed || extension.left > 0 ||
        list.left > 0 || type != NAME_TYPE_HOST || name.left == 0 ||
        name.left > IPB_CLIENT_HELLO_MAX_NAME || !is_visible(name.at, name.left))
        return false;
    memcpy(hello->server_name, name.at, name.left);
    hello->server_name[name.left] = '\0';
    hello->has_server_name = true;
    return true;
}

static IpbClientHelloState
parse_extensions(Reader extensions, IpbClientHello *hello)
{
    while (extensions.left > 0) {
        size_t type = take_number(&extensions, 2);
        Reader extension = take_vector(&extensions, 2);
        if (extensions.has_failed || extension.has_failed)
            return refuse(hello, "an extension of the ClientHello is cut short");
        if (type != EXTENSION_SERVER_NAME)
            continue;
        if (hello->has_server_name)
            return refuse(hello, "the ClientHello has two server_name extensions");
        if (!parse_server_name(extension, hello))
            return refuse(hello, "the server_name extension does not hold exactly one host name");
    }
    return IPB_CLIENT_HELLO_WHOLE;
}

static IpbClientHelloState
parse_message(Reader message, IpbClientHello *hello)
{
    take(&message, 2 + RANDOM_SIZE); /* legacy_version, random */
    Reader session_id = take_vector(&message, 1);
    Reader ciphers = take_vector(&message, 2);
    Reader compressions = take_vector(&message, 1);
    if (message.has_failed || session_id.left > MAX_SESSION_ID || ciphers.left < 2 ||
        ciphers.left % 2 != 0 || compressions.left == 0)
        return refuse(hello, "the ClientHello is malformed");
    if (message.left == 0)
        return IPB_CLIENT_HELLO_WHOLE; /* TLS 1.2 may have no extensions */
    Reader extensions = take_vector(&message, 2);
    if (message.has_failed || extensions.has_failed || message.left > 0)
        return refuse(hello, "the ClientHello is malformed");
    return parse_extensions(extensions, hello);
}

/* Takes the content of the next record; PARTIAL if it is incomplete. */
static IpbClientHelloState
take_record(Reader *input, Reader *ret_content, IpbClientHello *hello)
{
    /* The first bytes are checked before all five have arrived: another protocol may send fewer. */
    if (input->left > 0 && input->at[0] != RECORD_HANDSHAKE)
        return refuse(hello, "this is not TLS");
    if (input->left > 1 && input->at[1] != 3)
        return refuse(hello, "this is not TLS");
    if (input->left < RECORD_HEADER_SIZE)
        return IPB_CLIENT_HELLO_PARTIAL;
    size_t size = (size_t) input->at[3] << 8 | input->at[4];
    if (size == 0 || size > MAX_RECORD)
        return refuse(hello, "a TLS record has an impossible length");
    take(input, RECORD_HEADER_SIZE);
    size_t present = MIN(size, input->left);
    *ret_content = (Reader){take(input, present), present, false};
    return present == size ? IPB_CLIENT_HELLO_WHOLE : IPB_CLIENT_HELLO_PARTIAL;
}

/* The size of the message with its header; 0 while the header is incomplete. */
static size_t
message_size(const uint8_t *message, size_t present)
{
    if (present < MESSAGE_HEADER_SIZE)
        return 0;
    return MESSAGE_HEADER_SIZE +
           ((size_t) message[1] << 16 | (size_t) message[2] << 8 | (size_t) message[3]);
}

IpbClientHelloState
ipb_client_hello_parse(const uint8_t *bytes, size_t size, IpbClientHello *ret_hello)
{
    uint8_t message[MAX_MESSAGE];
    size_t present = 0, whole = 0;
    Reader input = {bytes, size, false};
    ret_hello->has_server_name = false;
    ret_hello->server_name[0] = '\0';
    ret_hello->reason = NULL;
    for (;;) {
        Reader content = {0};
        IpbClientHelloState state = take_record(&input, &content, ret_hello);
        if (state == IPB_CLIENT_HELLO_BAD)
            return state;
        if (content.left > sizeof message - present)
            return refuse(ret_hello, "the ClientHello is larger than 16 KiB");
        if (content.left > 0)
            memcpy(message + present, content.at, content.left);
        present += content.left;
        if (present > 0 && message[0] != MESSAGE_CLIENT_HELLO)
            return refuse(ret_hello, "the first TLS message is not a ClientHello");
        whole = message_size(message, present);
        if (whole > sizeof message)
            return refuse(ret_hello, "the ClientHello is larger than 16 KiB");
        if (whole > 0 && present > whole)
            return refuse(ret_hello, "another message follows within the ClientHello's record");
        if (state == IPB_CLIENT_HELLO_PARTIAL) {
            if (size >= IPB_CLIENT_HELLO_MAX_INPUT)
                return refuse(ret_hello, "the ClientHello comes in too many records");
            return state;
        }
        if (whole > 0 && present == whole)
            break;
    }
    Reader body = {message + MESSAGE_HEADER_SIZE, whole - MESSAGE_HEADER_SIZE, false};
    return parse_message(body, ret_hello);
}
