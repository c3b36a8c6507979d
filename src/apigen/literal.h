/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON values as Python expressions: string literals, numbers, and the defaults of fields.
 */
#pragma once

#include "apigen/model.h"

/* Appends a string literal in double quotes. Characters that a reader cannot see are escaped. */
void ipb_literal_append_string(GString *out, IpbSpan text);
/* Appends a JSON scalar. Returns false, and appends nothing, if Python has no such expression:
 * numbers that no float holds, integers too long for Python to read, arrays and objects. */
bool ipb_literal_append_scalar(GString *out, const IpbJson *value);
/* Appends the text of a JSON number, likewise. */
bool ipb_literal_append_number(GString *out, const char *number);
/* Appends @value as the default of a field of @type. Returns false, and appends nothing, if the
 * value does not fit the type, or if it would be an object of a class, which has no literal.
 * @enums_by_value: write members of enums as their values, not as Class.member. */
bool ipb_literal_append_default(GString *out, const IpbType *type, const IpbJson *value,
                                bool enums_by_value);
