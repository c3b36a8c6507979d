/* SPDX-License-Identifier: Apache-2.0
 *
 * Short texts without stdio: paths in /proc and numbers.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#define IPB_MAX_TEXT 64

typedef struct {
    char bytes[IPB_MAX_TEXT];
    size_t size;
} IpbText;

/* Text that does not fit is dropped. Callers stay far below the size. */
static inline void
ipb_text_add(IpbText *text, const char *more)
{
    while (*more != '\0' && text->size < IPB_MAX_TEXT - 1)
        text->bytes[text->size++] = *more++;
    text->bytes[text->size] = '\0';
}

static inline void
ipb_text_add_number(IpbText *text, uint64_t number)
{
    char digits[21];
    size_t i = sizeof digits;
    digits[--i] = '\0';
    do
        digits[--i] = (char) ('0' + number % 10);
    while ((number /= 10) > 0);
    ipb_text_add(text, digits + i);
}
