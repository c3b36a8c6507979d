/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a call again and again while a second thread changes the text of its path between an
 * ordinary name and a protected one. Prints how many calls worked and how many were refused.
 *
 * usage: swap open|rename|link|symlink|chmod|truncate ORDINARY PROTECTED TIMES
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char buffer[4096];
static const char *texts[2];
static atomic_bool is_done;

/* The texts have the same length, so each byte is written, and the end never moves. */
static void *
swap(void *data)
{
    size_t size = strlen(texts[0]);
    while (!is_done)
        for (int i = 0; i < 2; i++)
            for (size_t n = 0; n < size; n++)
                ((volatile char *) buffer)[n] = texts[i][n];
    return NULL;
}

static int
make_source(void)
{
    int fd = open("own/source", O_CREAT | O_WRONLY, 0644);
    return fd < 0 ? -1 : close(fd);
}

static int
attempt(const char *name)
{
    if (strcmp(name, "rename") == 0)
        return make_source() == 0 ? rename("own/source", buffer) : -1;
    if (strcmp(name, "link") == 0) {
        unlink(texts[0]);
        return make_source() == 0 ? link("own/source", buffer) : -1;
    }
    if (strcmp(name, "symlink") == 0) {
        unlink(texts[0]);
        return symlink("/etc/passwd", buffer);
    }
    if (strcmp(name, "chmod") == 0)
        return chmod(buffer, 0600);
    if (strcmp(name, "truncate") == 0)
        return truncate(buffer, 0);
    int fd = open(buffer, O_CREAT | O_WRONLY, 0644);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, "evil", 4);
    return close(fd) == 0 && n == 4 ? 0 : -1;
}

int
main(int argc, char **argv)
{
    if (argc != 5 || strlen(argv[2]) != strlen(argv[3]) || strlen(argv[2]) >= sizeof buffer)
        return 2;
    texts[0] = argv[2];
    texts[1] = argv[3];
    strcpy(buffer, texts[0]);
    pthread_t thread;
    if (pthread_create(&thread, NULL, swap, NULL) != 0)
        return 1;
    long worked = 0, refused = 0;
    for (long i = 0; i < atol(argv[4]); i++) {
        if (attempt(argv[1]) == 0)
            worked++;
        else if (errno == EACCES)
            refused++;
    }
    is_done = true;
    pthread_join(thread, NULL);
    printf("%ld %ld\n", worked, refused);
    return 0;
}
