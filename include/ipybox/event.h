/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief Events of cells and sessions, and results of cells.
 *
 * All text is valid UTF-8 and comes from untrusted code: escape control characters before you write
 * it to a terminal.
 */
#pragma once

#include <stdint.h>

#include <glib.h>

#include <ipybox/macros.h>

G_BEGIN_DECLS

/** An event. Opaque; valid, with its texts, until the callback that gets it returns. */
typedef struct IpyboxEvent IpyboxEvent;

/** What happened. More types may be added: ignore those that you do not know. */
typedef enum {
    /** Text written to standard output, in pieces as they come. */
    IPYBOX_EVENT_STDOUT,
    /** Text written to standard error, in pieces as they come. */
    IPYBOX_EVENT_STDERR,
    /** Text that was written after its cell had ended. It comes in a later cell, usually first, for
     * programs that do not look at late events of the session, which have it, too: see
     * ipybox_event_get_is_late(). */
    IPYBOX_EVENT_LATE_OUTPUT,
    /** A display: a MIME bundle; it may have a display id and an image path. */
    IPYBOX_EVENT_DISPLAY,
    /** A display is replaced: a MIME bundle with the id of the display. */
    IPYBOX_EVENT_UPDATE,
    /** Earlier output is to be cleared. */
    IPYBOX_EVENT_CLEAR_OUTPUT,
    /** The value of the last expression: a MIME bundle. */
    IPYBOX_EVENT_RESULT,
    /** A Python exception: a name and a value; the text is the traceback. */
    IPYBOX_EVENT_ERROR,
    /** Progress of a tool call, as its MCP server reports it: "server.tool: 3/10 message". */
    IPYBOX_EVENT_TOOL_PROGRESS,
    /** A message of ipybox for people, "[ipybox] …". It is not output of the cell. */
    IPYBOX_EVENT_NOTICE,
    /** Of a session, not of a cell: a kernel is ready for cells. */
    IPYBOX_EVENT_READY,
    /** Of a session, not of a cell: no kernel could be started. The text is the cause. The next
     * cell tries again. */
    IPYBOX_EVENT_START_FAILED,
    /** The cell waits for input, by input(), getpass() or a debugger: the text is the prompt. It
     * comes only if the cell's options have allow_input. Answer with
     * ipybox_session_answer_input(). */
    IPYBOX_EVENT_INPUT_REQUEST,
    /** The cell waits no longer for the input, because it was interrupted or the time limit of the
     * input was exceeded. A cell that ends does not send this. */
    IPYBOX_EVENT_INPUT_WITHDRAWN,
} IpyboxEventType;

/**
 * @brief The event's type.
 *
 * @param event the event
 * @return the type
 */
IPYBOX_EXPORT IpyboxEventType ipybox_event_get_type(const IpyboxEvent *event);

/**
 * @brief The event's text: output, traceback, progress or notice.
 *
 * @param event the event
 * @return the text, or NULL for types that have none; borrowed
 */
IPYBOX_EXPORT const char *ipybox_event_get_text(const IpyboxEvent *event);

/**
 * @brief One representation from the event's MIME bundle.
 *
 * @param event the event
 * @param mime_type such as "text/plain", "text/html", "image/png" (in Base64)
 * @return the representation; its JSON text if it is not a string. NULL if there is none; borrowed
 */
IPYBOX_EXPORT const char *ipybox_event_get_data(const IpyboxEvent *event, const char *mime_type);

/**
 * @brief The event's MIME bundle as text.
 *
 * This is its "text/plain", unless that only names the object's class, such as
 * `<IPython.core.display.Markdown object>`. In that case it is the source of the Markdown or LaTeX,
 * or else the text of the HTML without tags.
 *
 * @param event the event
 * @return the text, or NULL if there is none; borrowed
 */
IPYBOX_EXPORT const char *ipybox_event_get_bundle_text(const IpyboxEvent *event);

/**
 * @brief The event's whole MIME bundle.
 *
 * @param event the event
 * @return a JSON object from MIME type to representation; NULL if the event has none; borrowed
 */
IPYBOX_EXPORT const char *ipybox_event_get_bundle(const IpyboxEvent *event);

/**
 * @brief The metadata of the event's representations, as the display gave it.
 *
 * @param event the event
 * @return a JSON object, or NULL; borrowed
 */
IPYBOX_EXPORT const char *ipybox_event_get_metadata(const IpyboxEvent *event);

/**
 * @brief The id with which a display can be updated.
 *
 * @param event the event
 * @return the id, or NULL; borrowed
 */
IPYBOX_EXPORT const char *ipybox_event_get_display_id(const IpyboxEvent *event);

/**
 * @brief Where the image of the event's bundle was saved.
 *
 * @param event the event
 * @return an absolute path in the session's images directory, or NULL; borrowed
 */
IPYBOX_EXPORT const char *ipybox_event_get_image_path(const IpyboxEvent *event);

/**
 * @brief The class of the exception of an #IPYBOX_EVENT_ERROR.
 *
 * @param event the event
 * @return such as "ValueError", or NULL; borrowed
 */
IPYBOX_EXPORT const char *ipybox_event_get_error_name(const IpyboxEvent *event);

/**
 * @brief The message of the exception of an #IPYBOX_EVENT_ERROR.
 *
 * @param event the event
 * @return the message, or NULL; borrowed
 */
IPYBOX_EXPORT const char *ipybox_event_get_error_value(const IpyboxEvent *event);

/**
 * @brief Whether an #IPYBOX_EVENT_CLEAR_OUTPUT waits for the next output before it clears.
 *
 * @param event the event
 * @return whether it waits
 */
IPYBOX_EXPORT gboolean ipybox_event_get_wait(const IpyboxEvent *event);

/**
 * @brief Which input an #IPYBOX_EVENT_INPUT_REQUEST or #IPYBOX_EVENT_INPUT_WITHDRAWN is about.
 *
 * @param event the event
 * @return a number that the session uses only once; 0 for other types
 */
IPYBOX_EXPORT guint64 ipybox_event_get_input(const IpyboxEvent *event);

/**
 * @brief Whether an #IPYBOX_EVENT_INPUT_REQUEST asks for a password.
 *
 * @param event the event
 * @return whether what is typed must not be shown or kept
 */
IPYBOX_EXPORT gboolean ipybox_event_get_is_password(const IpyboxEvent *event);

/**
 * @brief Whether the event is output of a cell that has ended, by code that still runs.
 *
 * Threads and tasks may write and display something after the end of the cell that started them. A
 * session's `on_event` gets that at once, with the types #IPYBOX_EVENT_STDOUT,
 * #IPYBOX_EVENT_STDERR, #IPYBOX_EVENT_DISPLAY, #IPYBOX_EVENT_UPDATE and
 * #IPYBOX_EVENT_CLEAR_OUTPUT. The cell that runs then, or the next one, gets the text again, as
 * #IPYBOX_EVENT_LATE_OUTPUT, and displays while it runs, as late events.
 *
 * @param event the event
 * @return whether it is late
 */
IPYBOX_EXPORT gboolean ipybox_event_get_is_late(const IpyboxEvent *event);

/**
 * @brief The cell whose output a late event is.
 *
 * @param event the event
 * @return the number of the cell in its kernel, as ipybox_result_get_execution_count() had it; 0 if
 *     the cell is not known, or the event is not late
 */
IPYBOX_EXPORT int64_t ipybox_event_get_execution_count(const IpyboxEvent *event);

/** How a cell ended. */
typedef enum {
    /** It ran to its end. */
    IPYBOX_STATUS_OK,
    /** It raised an exception. */
    IPYBOX_STATUS_ERROR,
    /** Its time limit was exceeded. The message says whether the state is kept. */
    IPYBOX_STATUS_TIMEOUT,
    /** It was cancelled, before or while it ran; or it was interrupted and did not handle that. */
    IPYBOX_STATUS_CANCELLED,
    /** The kernel has ended, and its state is lost; the next cell gets a new kernel. */
    IPYBOX_STATUS_LOST,
} IpyboxStatus;

/** The result of a cell. Opaque and immutable; free it with ipybox_result_free(). */
typedef struct IpyboxResult IpyboxResult;

/**
 * @brief How the cell ended.
 *
 * @param result the result
 * @return the status
 */
IPYBOX_EXPORT IpyboxStatus ipybox_result_get_status(const IpyboxResult *result);

/**
 * @brief What the cell printed, displayed and returned, as one text.
 *
 * @param result the result
 * @return the text, "" if there is none; owned by the result
 */
IPYBOX_EXPORT const char *ipybox_result_get_text(const IpyboxResult *result);

/**
 * @brief Whether the text was cut to the maximum of the options.
 *
 * A text that was cut has its beginning (three fifths of the maximum), its end (two fifths), and a
 * line between them that says how much was left out of how much. This line does not count towards
 * the maximum.
 *
 * @param result the result
 * @return whether it was cut
 */
IPYBOX_EXPORT gboolean ipybox_result_is_truncated(const IpyboxResult *result);

/**
 * @brief Whether the cell failed and was undone, by the option undo_on_error.
 *
 * @param result the result
 * @return whether the kernel's state is as it was before the cell
 */
IPYBOX_EXPORT gboolean ipybox_result_is_undone(const IpyboxResult *result);

/**
 * @brief What the cell changed in a staged workspace.
 *
 * What a process or thread of an earlier cell wrote after that cell had ended counts to this cell.
 * At most 100 changes are listed. What was in a directory that was removed is not listed. A
 * directory that was replaced by a new one is "changed".
 *
 * @param result the result
 * @return a JSON array of {"path": below the workspace, "kind": "added", "changed" or "removed",
 *     "type": "file", "directory", "link" or "special"}, by path; NULL: the workspace is not
 *     staged, or the cell did not run. Owned by the result
 */
IPYBOX_EXPORT const char *ipybox_result_get_changes(const IpyboxResult *result);

/**
 * @brief Why ipybox_result_get_changes() is not exactly what the cell changed: it does not have all
 * changes, or other sessions that share the files changed something, too.
 *
 * @param result the result
 * @return a text for people; NULL: it is exact. Owned by the result
 */
IPYBOX_EXPORT const char *ipybox_result_get_changes_cut(const IpyboxResult *result);

/**
 * @brief The images that the cell displayed.
 *
 * @param result the result
 * @return absolute paths of PNG and other image files in order, NULL-terminated; owned by the
 *     result
 */
IPYBOX_EXPORT const char *const *ipybox_result_get_images(const IpyboxResult *result);

/**
 * @brief Messages of ipybox about the cell.
 *
 * They report, for example, that the kernel died before the cell, what a sandbox denied, or that an
 * image could not be saved. They are not in the text, except "[ipybox] cwd reset to DIR".
 *
 * @param result the result
 * @return lines "[ipybox] …", as the events #IPYBOX_EVENT_NOTICE had them, NULL-terminated; owned
 *     by the result
 */
IPYBOX_EXPORT const char *const *ipybox_result_get_notices(const IpyboxResult *result);

/**
 * @brief What the sandbox denied the cell, at most ten lines.
 *
 * @param result the result
 * @return lines "operation not permitted: …" with the rule and how to allow it, NULL-terminated;
 *     owned by the result
 */
IPYBOX_EXPORT const char *const *ipybox_result_get_violations(const IpyboxResult *result);

/**
 * @brief The class of the exception that ended the cell.
 *
 * @param result the result
 * @return such as "ValueError", or NULL; owned by the result
 */
IPYBOX_EXPORT const char *ipybox_result_get_error_name(const IpyboxResult *result);

/**
 * @brief The message of the exception that ended the cell.
 *
 * @param result the result
 * @return the message, or NULL; owned by the result
 */
IPYBOX_EXPORT const char *ipybox_result_get_error_value(const IpyboxResult *result);

/**
 * @brief The traceback of the exception that ended the cell.
 *
 * @param result the result
 * @return several lines, or NULL; owned by the result
 */
IPYBOX_EXPORT const char *ipybox_result_get_traceback(const IpyboxResult *result);

/**
 * @brief What happened, for people, if the cell neither ran to its end nor raised an exception.
 *
 * @param result the result
 * @return the message, or NULL; owned by the result
 */
IPYBOX_EXPORT const char *ipybox_result_get_message(const IpyboxResult *result);

/**
 * @brief The number of the cell in its kernel, which IPython shows as In[1].
 *
 * @param result the result
 * @return a number from 1, or 0 if the cell did not run
 */
IPYBOX_EXPORT int64_t ipybox_result_get_execution_count(const IpyboxResult *result);

/**
 * @brief Converts every status but #IPYBOX_STATUS_OK to an error.
 *
 * @param result the result
 * @param error #IPYBOX_ERROR_CODE with the exception, #IPYBOX_ERROR_TIMEOUT,
 *     #IPYBOX_ERROR_CANCELLED or #IPYBOX_ERROR_KERNEL_DIED
 * @return whether the status is #IPYBOX_STATUS_OK
 */
IPYBOX_EXPORT gboolean ipybox_result_check(const IpyboxResult *result, GError **error);

/**
 * @brief Frees a result.
 *
 * @param result the result, or NULL
 */
IPYBOX_EXPORT void ipybox_result_free(IpyboxResult *result);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxResult, ipybox_result_free)

G_END_DECLS
