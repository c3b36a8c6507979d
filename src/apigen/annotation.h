/* SPDX-License-Identifier: Apache-2.0
 *
 * Types of the model as Python annotations.
 */
#pragma once

#include "apigen/model.h"

/* Appends the annotation for @type. @with_bounds: with the bounds of @type itself. Without them the
 * caller writes them in a Field(). The bounds of types in @type are always written. */
void ipb_annotation_append(GString *out, const IpbType *type, bool with_bounds);
/* Appends the type that run returns. Values that can carry the contents of the tool's answer have a
 * type that does (ipybox.tool_exec.content). */
void ipb_annotation_append_result(GString *out, const IpbType *type);
/* Appends the type of an argument of run: without bounds, and with an enum's values. */
void ipb_annotation_append_argument(GString *out, const IpbType *type);
/* Appends "ge=1, le=100", or nothing if @type has no bounds. */
void ipb_annotation_append_bounds(GString *out, const IpbType *type);
