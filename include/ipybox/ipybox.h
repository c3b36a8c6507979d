/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief libipybox: Python code execution for agents. Includes all public headers.
 */
#pragma once

#include <ipybox/approval.h>
#include <ipybox/command.h>
#include <ipybox/error.h>
#include <ipybox/event.h>
#include <ipybox/runtime.h>
#include <ipybox/server.h>
#include <ipybox/session.h>
#include <ipybox/tool-call.h>
#include <ipybox/version.h>
