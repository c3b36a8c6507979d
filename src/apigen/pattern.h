/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions of JSON Schema (ECMA-262) as those of pydantic (Rust's regex crate).
 */
#pragma once

#include "apigen/model.h"

/* An expression that matches the same texts, with a bounded cost. NULL if there is none, or if we
 * cannot be sure that both match the same texts: look-around, back references, \p, \B, and all
 * syntax that is not basic. */
char *ipb_pattern_translate(IpbSpan pattern);
