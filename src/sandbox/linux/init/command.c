/* SPDX-License-Identifier: Apache-2.0
 *
 * Forks the command. The child gives up its rights and executes it. The parent learns whether that
 * worked.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define FALLBACK_PATH "/usr/local/bin:/usr/bin:/bin"

static const char *
find_path(char *const *env)
{
    for (; *env != NULL; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return FALLBACK_PATH;
}

/* An empty or relative entry of PATH means the working directory. Nothing is executed from
 * there. */
static bool
join(char path[static PATH_MAX], const char *directory, size_t size, const char *name)
{
    size_t name_size = strlen(name);
    if (size == 0 || *directory != '/' || size + 1 + name_size >= PATH_MAX)
        return false;
    memcpy(path, directory, size);
    path[size] = '/';
    memcpy(path + size + 1, name, name_size + 1);
    return true;
}

/* Executes @name in one directory of PATH. */
static void
try_directory(const char *directory, size_t size, const char *name, char *const *argv,
              char *const *env)
{
    char path[PATH_MAX];
    errno = ENOENT;
    if (join(path, directory, size, name))
        execve(path, argv, env);
}

/* Is the file itself closed, and not its directory? */
static bool
is_file_in(const char *directory, size_t size, const char *name)
{
    char path[PATH_MAX];
    return join(path, directory, size, name) && faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) == 0;
}

void
ipb_exec_search(char *const *argv, char *const *env)
{
    const char *name = argv[0];
    if (strchr(name, '/') != NULL || *name == '\0') {
        execve(name, argv, env);
        return;
    }
    bool was_denied = false;
    for (const char *path = find_path(env);; path++) {
        size_t size = strcspn(path, ":");
        try_directory(path, size, name, argv, env);
        if (errno == EACCES)
            was_denied = was_denied || is_file_in(path, size, name);
        else if (errno != ENOENT && errno != ENOTDIR)
            return;
        path += size;
        if (*path == '\0')
            break;
    }
    errno = was_denied ? EACCES : ENOENT;
}

/* Fills @room with pointers to the strings. */
static char *const *
list_strings(const uint8_t *blob, IpbBlobTable table, char **room)
{
    const uint32_t *offsets = ipb_blob_at(blob, table);
    for (uint32_t i = 0; i < table.count; i++)
        room[i] = (char *) (uintptr_t) ipb_blob_string(blob, offsets[i]);
    room[table.count] = NULL;
    return room;
}

static void
reset_signals(void)
{
    for (int number = 1; number < 32; number++)
        signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool
become_command(const IpbInit *init, IpbStepError *error)
{
    static char *argv[IPB_BLOB_MAX_STRINGS + 1], *env[IPB_BLOB_MAX_STRINGS + 1];
    const IpbBlobHeader *header = init->header;
    if ((header->flags & IPB_BLOB_KEEP_GROUP) == 0 && setsid() < 0)
        return ipb_step_fail(error, IPB_STEP_SESSION, 0);
    reset_signals();
    if ((header->flags & IPB_BLOB_WEAKER) != 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return ipb_step_fail(error, IPB_STEP_PREPARE, 0);
    if (!ipb_lockdown_command(init->bytes, init->control, error))
        return false;
    const char *cwd = ipb_blob_string(init->bytes, header->cwd);
    if (cwd != NULL && chdir(cwd) < 0)
        return ipb_step_fail(error, IPB_STEP_CWD, 0);
    ipb_exec_search(list_strings(init->bytes, header->argv, argv),
                    list_strings(init->bytes, header->env, env));
    return ipb_step_fail(error, IPB_STEP_EXEC, 0);
}

bool
ipb_command_start(const IpbInit *init, pid_t *ret_pid, IpbStepError *error)
{
    int result[2];
    if (pipe2(result, O_CLOEXEC) < 0)
        return ipb_step_fail(error, IPB_STEP_FORK, 0);
    pid_t pid = fork();
    if (pid < 0)
        return ipb_step_fail(error, IPB_STEP_FORK, 0);
    if (pid == 0) {
        become_command(init, error);
        (void) !write(result[1], error, sizeof *error);
        _exit(127);
    }
    close(result[1]);
    ssize_t n;
    do
        n = read(result[0], error, sizeof *error);
    while (n < 0 && errno == EINTR);
    close(result[0]);
    if (n != 0)
        return false;
    *ret_pid = pid;
    return true;
}
