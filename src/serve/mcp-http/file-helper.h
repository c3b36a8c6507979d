/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbFileHelper: the program that reads or writes files of a workspace for one request
 * (kernel_host/workspace_files.py, which describes what is sent). It runs in a sandbox like that of
 * a cell, or without one, if kernels have none. So it can read and write exactly what a cell can,
 * also while cells change the files at the same time, and what an archive does to its reader stays
 * in the sandbox. What it reports is untrusted.
 *
 * Ownership: the owner frees it, of its functions only in on_end. They are called from the loop.
 */
#pragma once

#include "session/session.h"

/* Bytes of a line that it reports. */
#define IPB_FILE_HELPER_MAX_REPORT (8 * 1024 * 1024)

typedef struct IpbFileHelper IpbFileHelper;

typedef struct {
    IpbRuntime *runtime;
    /* Its workspace and its sandbox; borrowed for the call */
    IpbSession *session;
    bool is_sandboxed;
    /* What it does: "read"; and a JSON object */
    const char *action;
    const char *params;
    void (*on_report)(const IpbJson *report, void *data);
    /* Content; fewer bytes were taken than @size: no more comes until ipb_file_helper_resume(). */
    size_t (*on_content)(const char *bytes, size_t size, void *data);
    /* All that was sent is written. */
    void (*on_written)(void *data);
    /* It has ended, and all of its output was passed on; once. @is_ok: it did all that it had to.
     * @why: what was denied, or why it could not run, for people; or NULL */
    void (*on_end)(bool is_ok, const char *why, void *data);
    void *data;
} IpbFileHelperOptions;

/* Errors that are found at once; others come by on_end. */
IpbFileHelper *ipb_file_helper_new(const IpbFileHelperOptions *options, GError **error);
/* Its output is content from now on. */
void ipb_file_helper_expect_content(IpbFileHelper *helper);
void ipb_file_helper_resume(IpbFileHelper *helper);
/* A line, or content that the owner has framed. False: it does not read any more, so it ends. */
bool ipb_file_helper_send(IpbFileHelper *helper, const char *bytes, size_t size);
/* Does something wait to be written? */
bool ipb_file_helper_is_writing(const IpbFileHelper *helper);
/* It ends without doing more, and removes what it has begun. Its output is dropped. If it does not
 * end soon, it is killed. on_end follows. */
void ipb_file_helper_cancel(IpbFileHelper *helper);
/* Kills it if it still runs. */
void ipb_file_helper_free(IpbFileHelper *helper);
