/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether this is a build with AddressSanitizer, of gcc or of clang. It keeps freed memory for a
 * while, so a test cannot measure memory then.
 */
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_SANITIZER true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER true
#endif
#endif
#ifndef HAS_ADDRESS_SANITIZER
#define HAS_ADDRESS_SANITIZER false
#endif
