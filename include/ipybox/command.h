/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief How a command ended that ran beside a session's kernel: ipybox_session_run_command().
 *
 * What a command writes is untrusted. It is bytes, which need not be text.
 *
 * @code
 * const char *const argv[] = {"sort", "words.txt", NULL};
 * IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
 * options.timeout_ms = 10000;
 * g_autoptr(IpyboxCommandResult) result =
 *     ipybox_session_run_command(session, argv, &options, NULL, &error);
 * if (result != NULL && ipybox_command_result_get_exit_status(result) == 0)
 *     puts(ipybox_command_result_get_output(result, IPYBOX_COMMAND_STDOUT, NULL));
 * @endcode
 */
#pragma once

#include <glib.h>

#include <ipybox/macros.h>

G_BEGIN_DECLS

/** Where a command writes. */
typedef enum {
    /** Standard output. */
    IPYBOX_COMMAND_STDOUT,
    /** Standard error. */
    IPYBOX_COMMAND_STDERR,
} IpyboxCommandStream;

/** How a command ended, and what of its output was kept. Opaque; free it with
 * ipybox_command_result_free(). */
typedef struct IpyboxCommandResult IpyboxCommandResult;

/**
 * @brief The exit status.
 *
 * @param result the result
 * @return 0 to 255; -1 if a signal ended it
 */
IPYBOX_EXPORT int ipybox_command_result_get_exit_status(const IpyboxCommandResult *result);

/**
 * @brief The signal that ended it.
 *
 * @param result the result
 * @return its number; 0 if the command exited
 */
IPYBOX_EXPORT int ipybox_command_result_get_signal(const IpyboxCommandResult *result);

/**
 * @brief Whether it exceeded its timeout, and was killed with everything that it had started.
 *
 * @param result the result, with what was written until then
 * @return whether it did
 */
IPYBOX_EXPORT gboolean ipybox_command_result_is_timeout(const IpyboxCommandResult *result);

/**
 * @brief The limit of the sandbox that ended it.
 *
 * @param result the result
 * @return a text for people; NULL if there is none. Owned by the result
 */
IPYBOX_EXPORT const char *ipybox_command_result_get_limit(const IpyboxCommandResult *result);

/**
 * @brief What it wrote: the beginning, if it was more than max_output of the options.
 *
 * @param result the result
 * @param stream one of both
 * @param size where to put the number of bytes; may be NULL
 * @return the bytes, with a NUL behind the last one; owned by the result. There are none if
 *     on_output of the options got them
 */
IPYBOX_EXPORT const char *ipybox_command_result_get_output(const IpyboxCommandResult *result,
                                                           IpyboxCommandStream stream, gsize *size);

/**
 * @brief Whether it wrote more than was kept.
 *
 * @param result the result
 * @param stream one of both
 * @return whether it did
 */
IPYBOX_EXPORT gboolean ipybox_command_result_is_output_cut(const IpyboxCommandResult *result,
                                                           IpyboxCommandStream stream);

/**
 * @brief Frees a result.
 *
 * @param result the result, or NULL
 */
IPYBOX_EXPORT void ipybox_command_result_free(IpyboxCommandResult *result);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxCommandResult, ipybox_command_result_free)

G_END_DECLS
