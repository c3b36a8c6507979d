/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief What the other headers are made with.
 */
#pragma once

/** Marks what the shared library exports. */
#define IPYBOX_EXPORT __attribute__((visibility("default")))
