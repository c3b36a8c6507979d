/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the tree; see the header.
 */
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#include "json/json-private.h"

/* Objects up to this many members are searched for duplicates pair by pair, larger ones by
 * sorting. */
#define MAX_PAIRWISE 16

const IpbJson *
ipb_json_root(const IpbJsonDoc *doc)
{
    return doc->values;
}

bool
ipb_json_is(const IpbJson *value, IpbJsonType type)
{
    return value != NULL && value->type == type;
}

IpbJsonType
ipb_json_type(const IpbJson *value)
{
    return value->type;
}

IpbSpan
ipb_json_raw(const IpbJson *value)
{
    return value != NULL ? (IpbSpan){value->raw, value->raw_size} : (IpbSpan){NULL, 0};
}

bool
ipb_json_bool(const IpbJson *value, bool fallback)
{
    return ipb_json_is(value, IPB_JSON_BOOL) ? *value->raw == 't' : fallback;
}

const char *
ipb_json_string(const IpbJson *value, size_t *ret_size)
{
    if (!ipb_json_is(value, IPB_JSON_STRING))
        return NULL;
    if (ret_size != NULL)
        *ret_size = value->length;
    return value->text;
}

const char *
ipb_json_number(const IpbJson *value)
{
    return ipb_json_is(value, IPB_JSON_NUMBER) ? value->text : NULL;
}

bool
ipb_json_double(const IpbJson *value, double *ret_value)
{
    if (!ipb_json_is(value, IPB_JSON_NUMBER))
        return false;
    *ret_value = g_ascii_strtod(value->text, NULL);
    return true;
}

/* A valid number as ±0.DDD × 10^point; the digits have no zeros around them. */
typedef struct {
    bool is_negative;
    const char *first, *last; /* first and last digit that is not 0; NULL: the number is zero */
    /* Number of digits from @first to the decimal point */
    int64_t point;
} Decimal;

/* The exponent, clamped far above the size of any text, but far from overflow. */
static int64_t
read_exponent(const char *at)
{
    bool is_negative = *at == '-';
    int64_t exponent = 0;
    for (at += *at == '-' || *at == '+'; *at != '\0'; at++)
        exponent = MIN(exponent * 10 + (*at - '0'), INT64_MAX / 100);
    return is_negative ? -exponent : exponent;
}

static Decimal
read_decimal(const char *text)
{
    Decimal decimal = {.is_negative = *text == '-'};
    bool in_fraction = false;
    const char *at;
    for (at = text + decimal.is_negative; *at != '\0' && (*at | 0x20) != 'e'; at++) {
        if (*at == '.') {
            in_fraction = true;
            continue;
        }
        if (*at != '0') {
            decimal.last = at;
            if (decimal.first == NULL)
                decimal.first = at;
        }
        if (!in_fraction && decimal.first != NULL)
            decimal.point++;
        else if (in_fraction && decimal.first == NULL)
            decimal.point--;
    }
    if (*at != '\0')
        decimal.point += read_exponent(at + 1);
    return decimal;
}

bool
ipb_json_int64(const IpbJson *value, int64_t *ret_value)
{
    if (!ipb_json_is(value, IPB_JSON_NUMBER))
        return false;
    Decimal decimal = read_decimal(value->text);
    int64_t result = 0;
    if (decimal.first != NULL) {
        if (decimal.point < 1 || decimal.point > 19)
            return false;
        const char *at = decimal.first;
        /* As a negative number, because INT64_MIN has no positive counterpart. */
        for (int64_t n = 0; n < decimal.point; n++) {
            if (at <= decimal.last && *at == '.')
                at++;
            int digit = at <= decimal.last ? *at++ - '0' : 0;
            if (__builtin_mul_overflow(result, 10, &result) ||
                __builtin_sub_overflow(result, digit, &result))
                return false;
        }
        if (at <= decimal.last) /* there are digits after the decimal point */
            return false;
        if (!decimal.is_negative && __builtin_sub_overflow(0, result, &result))
            return false;
    }
    *ret_value = result;
    return true;
}

size_t
ipb_json_length(const IpbJson *value)
{
    return ipb_json_is(value, IPB_JSON_ARRAY) || ipb_json_is(value, IPB_JSON_OBJECT) ? value->length
                                                                                     : 0;
}

const IpbJson *
ipb_json_first(const IpbJson *container)
{
    return ipb_json_length(container) > 0 ? container + 1 : NULL;
}

const IpbJson *
ipb_json_next(const IpbJson *item)
{
    return item == NULL || item->is_last ? NULL : item + item->skip;
}

const char *
ipb_json_name(const IpbJson *item, size_t *ret_size)
{
    if (item == NULL || item->name == NULL)
        return NULL;
    if (ret_size != NULL)
        *ret_size = item->name_size;
    return item->name;
}

const IpbJson *
ipb_json_get(const IpbJson *object, const char *name)
{
    if (!ipb_json_is(object, IPB_JSON_OBJECT))
        return NULL;
    size_t size = strlen(name);
    const IpbJson *found = NULL;
    IPB_JSON_FOREACH (member, object) {
        if (member->name_size == size && memcmp(member->name, name, size) == 0)
            found = member;
    }
    return found;
}

const char *
ipb_json_get_string(const IpbJson *object, const char *name)
{
    size_t size;
    const char *text = ipb_json_string(ipb_json_get(object, name), &size);
    return text != NULL && strlen(text) == size ? text : NULL;
}

bool
ipb_json_get_int64(const IpbJson *object, const char *name, int64_t *ret_value)
{
    return ipb_json_int64(ipb_json_get(object, name), ret_value);
}

bool
ipb_json_get_bool(const IpbJson *object, const char *name, bool fallback)
{
    return ipb_json_bool(ipb_json_get(object, name), fallback);
}

static int
compare_names(const IpbJson *a, const IpbJson *b)
{
    if (a->name_size != b->name_size)
        return a->name_size < b->name_size ? -1 : 1;
    return memcmp(a->name, b->name, a->name_size);
}

static int
compare_members(const void *a, const void *b)
{
    return compare_names(*(const IpbJson *const *) a, *(const IpbJson *const *) b);
}

static bool
has_duplicates_pairwise(const IpbJson *object)
{
    IPB_JSON_FOREACH (member, object) {
        for (const IpbJson *other = ipb_json_next(member); other != NULL;
             other = ipb_json_next(other)) {
            if (compare_names(member, other) == 0)
                return true;
        }
    }
    return false;
}

/* Sorting, not hashing, because no choice of names makes it slow. */
static bool
has_duplicates_sorted(const IpbJson *object)
{
    g_autofree const IpbJson **members = g_new(const IpbJson *, object->length);
    size_t n = 0;
    IPB_JSON_FOREACH (member, object)
        members[n++] = member;
    qsort(members, n, sizeof *members, compare_members);
    for (size_t i = 1; i < n; i++) {
        if (compare_names(members[i - 1], members[i]) == 0)
            return true;
    }
    return false;
}

bool
ipb_json_has_duplicates(const IpbJsonDoc *doc)
{
    for (size_t i = 0; i < doc->n_values; i++) {
        const IpbJson *value = &doc->values[i];
        if (value->type == IPB_JSON_OBJECT &&
            (value->length <= MAX_PAIRWISE ? has_duplicates_pairwise(value)
                                           : has_duplicates_sorted(value)))
            return true;
    }
    return false;
}
