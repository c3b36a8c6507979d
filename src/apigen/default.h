/* SPDX-License-Identifier: Apache-2.0
 *
 * Defaults of fields as Python text.
 */
#pragma once

#include "apigen/model.h"

/* Appends the expression of @value as the default of a field of @type. False, and nothing appended, if it does not fit, or
 * has no expression: of a class no object is made. @is_plain: members of enums by their values. */
bool ipb_default_append(GString *out, const IpbType *type, const IpbJson *value, bool is_plain);
