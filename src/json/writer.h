/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbJsonWriter: writes JSON on one line, and adds commas and escapes. Strings are WTF-8 with a
 * length: a lone surrogate is written as \udXXX, other invalid bytes as U+FFFD. U+2028 and U+2029
 * are escaped, because some readers split lines at them. Misuse, for example a value without its
 * key, is a programming error and aborts.
 *
 *     IpbJsonWriter *w = ipb_json_writer_new();
 *     ipb_json_begin_object(w);
 *     ipb_json_key(w, "id");
 *     ipb_json_write_int(w, 7);
 *     ipb_json_end_object(w);
 *     g_autofree char *text = ipb_json_writer_finish(w, &size);    (frees the writer)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"

typedef struct IpbJsonWriter IpbJsonWriter;

IpbJsonWriter *ipb_json_writer_new(void);
void ipb_json_writer_free(IpbJsonWriter *writer);
/* The text, NUL-terminated (caller frees), and the writer is freed. ret_size may be NULL. */
char *ipb_json_writer_finish(IpbJsonWriter *writer, size_t *ret_size);

void ipb_json_begin_object(IpbJsonWriter *writer);
void ipb_json_end_object(IpbJsonWriter *writer);
void ipb_json_begin_array(IpbJsonWriter *writer);
void ipb_json_end_array(IpbJsonWriter *writer);
void ipb_json_key(IpbJsonWriter *writer, const char *name);
void ipb_json_key_n(IpbJsonWriter *writer, const char *name, size_t size);

/* NULL writes null. */
void ipb_json_write_string(IpbJsonWriter *writer, const char *text);
void ipb_json_write_string_n(IpbJsonWriter *writer, const char *text, size_t size);
void ipb_json_write_int(IpbJsonWriter *writer, int64_t value);
void ipb_json_write_bool(IpbJsonWriter *writer, bool value);
void ipb_json_write_null(IpbJsonWriter *writer);
/* A value of a tree, byte for byte, but without whitespace outside of strings, and with U+2028 and
 * U+2029 in them escaped. */
void ipb_json_write_value(IpbJsonWriter *writer, const IpbJson *value);
/* The same for text that is known to be one valid JSON value. */
void ipb_json_write_raw(IpbJsonWriter *writer, const char *text, size_t size);

/* "key": value in one call, for the frequent types. */
void ipb_json_member_string(IpbJsonWriter *writer, const char *name, const char *text);
void ipb_json_member_int(IpbJsonWriter *writer, const char *name, int64_t value);
void ipb_json_member_bool(IpbJsonWriter *writer, const char *name, bool value);
void ipb_json_member_value(IpbJsonWriter *writer, const char *name, const IpbJson *value);
/* {} if @object is NULL or no object. */
void ipb_json_member_object(IpbJsonWriter *writer, const char *name, const IpbJson *object);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbJsonWriter, ipb_json_writer_free)
