/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokens of JSON text: strings, numbers, literals, whitespace, and the errors about them.
 *
 * The text is followed by IPB_SCAN_PADDING NUL bytes. A NUL is valid nowhere in JSON, so every loop
 * ends at it and checks no other bound. Decoded strings and numbers are written to @out, each
 * followed by a NUL. @out is never more than one byte ahead of what was read, so a buffer of the
 * text's size plus IPB_SCAN_PADDING is large enough.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/error.h"

#define IPB_SCAN_PADDING 16

typedef struct {
    const char *text, *end;
    /* The next byte */
    const char *at;
    char *out;
} IpbScanner;

/* Fills @error with "invalid JSON at byte N (line N, column N): …" for the place @at. Returns
 * false. */
bool ipb_scan_fail(const IpbScanner *scanner, const char *at, IpyboxError code, GError **error,
                   const char *format, ...) G_GNUC_PRINTF(5, 6);
/* Fills @error with "expected @what but found …", the text at @scanner->at. Returns false. */
bool ipb_scan_fail_expected(const IpbScanner *scanner, GError **error, const char *what);

/* At the opening quote. Escapes are decoded; a lone surrogate becomes its three bytes of WTF-8. */
bool ipb_scan_string(IpbScanner *scanner, const char **ret_string, uint32_t *ret_size,
                     GError **error);
/* At a digit or '-'. */
bool ipb_scan_number(IpbScanner *scanner, const char **ret_number, uint32_t *ret_size,
                     GError **error);
bool ipb_scan_literal(IpbScanner *scanner, const char *literal, GError **error);

static inline bool
ipb_scan_is_space(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static inline void
ipb_scan_space(IpbScanner *scanner)
{
    while (ipb_scan_is_space(*scanner->at))
        scanner->at++;
}
