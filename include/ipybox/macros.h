/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief Macros that the other headers use.
 */
#pragma once

/** Marks a function that the shared library exports. */
#define IPYBOX_EXPORT __attribute__((visibility("default")))
