/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions of JSON Schema (ECMA-262) as those of pydantic (Rust's regex crate), where both mean the same.
 */
#pragma once

#include "apigen/model.h"

/* An equal expression, bounded in what it costs; NULL where there is none, or nobody has shown that it is equal: look-around,
 * back references, \p, \B, and whatever is no plain syntax. */
char *ipb_pattern_translate(IpbSpan pattern);
