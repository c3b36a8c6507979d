# SPDX-License-Identifier: Apache-2.0
"""What calls about names do if nothing forbids them; see test_names_twins.py.

Follows hand.py. Each check runs in a new directory, and returns what came of it. The results must
be the same with and without a sandbox: the modes of files, the flags of descriptors, the errors.
"""

import fcntl
import mmap
import pty
import resource
import select
import signal
import subprocess
import threading
import time

W, RW, R = os.O_WRONLY, os.O_RDWR, os.O_RDONLY
NEW = os.O_CREAT | os.O_WRONLY
PAGE = mmap.PAGESIZE

CHECKS = {}
# What depends on the privileges of root, which code inside does not have.
PRIVILEGED = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def privileged(function):
    PRIVILEGED[function.__name__] = function
    return function


def error_of(action, *args):
    """The name of the errno, "ok", or the value."""
    try:
        result = action(*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return result if isinstance(result, (str, list)) else "ok"


def mode_of(path):
    return oct(os.lstat(path).st_mode)


def made(path="file", content="text"):
    create(path, content)
    return path


def open_close(path, flags, mode=0o666):
    os.close(call(2, path, flags, mode))


def flags_of_descriptor(fd):
    """Without a bit that has no meaning for a descriptor, and which the supervisor needs."""
    return oct(fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NOFOLLOW)


# --- modes and umask ---


def modes():
    """The modes of one new file of each kind."""
    open_close("open", NEW)
    os.close(call(85, "creat", 0o777))
    os.mkdir("directory")
    call(133, "node", stat.S_IFREG | 0o666, 0)
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    os.symlink("x", "link")
    fd = os.open(".", os.O_TMPFILE | RW, 0o666)
    call(265, AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "nameless", AT_FOLLOW)
    os.close(fd)
    names = ("open", "creat", "directory", "node", "fifo", "socket", "link", "nameless")
    found = [mode_of(name) for name in names]
    os.unlink("socket")
    return found


@check
def modes_by_default():
    return modes()


def with_umask(mask, action):
    before = os.umask(mask)
    try:
        return action()
    finally:
        os.umask(before)


@check
def modes_with_umask_0():
    return with_umask(0, modes)


@check
def modes_with_umask_77():
    return with_umask(0o77, modes)


@check
def modes_with_umask_777():
    return with_umask(0o777, modes)


@check
def umask_is_returned():
    first = os.umask(0o27)
    return [oct(first), oct(os.umask(first)), oct(os.umask(first))]


@check
def umask_of_another_thread():
    """It belongs to the process."""
    before = os.umask(0o22)
    os.umask(before)
    thread = threading.Thread(target=os.umask, args=(0o7,))
    thread.start()
    thread.join()
    open_close("file", NEW)
    os.umask(before)
    return mode_of("file")


@check
def umask_in_a_thread():
    def run():
        open_close("in", NEW)

    def work():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    with_umask(0o70, work)
    return mode_of("in")


def fork_and(action):
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


@check
def umask_of_a_child():
    """A child inherits it; what the child changes stays there."""
    found = []
    with_umask(0o70, lambda: fork_and(lambda: open_close("inherited", NEW)))

    def change():
        os.umask(0o77)
        open_close("changed", NEW)

    fork_and(change)
    open_close("after", NEW)
    for name in ("inherited", "changed", "after"):
        found.append(mode_of(name))
    return found


@check
def umask_of_a_program():
    script = "umask 037; : >a; mkdir b; (umask 0; : >c); : >d"
    subprocess.run(["sh", "-c", script], check=True)
    return [mode_of(name) for name in "abcd"]


@check
def umask_of_vfork():
    with_umask(0o57, lambda: subprocess.run(["touch", "file"], check=True, close_fds=False))
    return mode_of("file")


@check
def sticky_and_other_bits():
    os.mkdir("d", 0o1777)
    os.chmod("d", 0o1755)
    made()
    os.chmod("file", 0o1644)
    return [mode_of("d"), mode_of("file")]


@check
def mode_of_a_file_that_cannot_be_opened_again():
    """The mode counts from the next open on."""
    fd = os.open("file", os.O_CREAT | RW, 0)
    os.write(fd, b"x")
    os.close(fd)
    return mode_of("file")


# --- flags and descriptors ---


@check
def flags_of_descriptors():
    found = []
    made()
    for flags in (
        R,
        W,
        RW,
        W | os.O_APPEND,
        W | os.O_NONBLOCK,
        RW | os.O_SYNC,
        RW | os.O_DSYNC,
        W | os.O_TRUNC | os.O_CREAT | os.O_NOCTTY,
        R | os.O_NOFOLLOW,
        RW | os.O_NOATIME,
        W | os.O_DIRECT,
        os.O_PATH,
        os.O_PATH | os.O_NOFOLLOW,
        3,
    ):
        for extra in (0, os.O_CLOEXEC):
            fd = call(2, "file", flags | extra, 0o600)
            found.append([flags_of_descriptor(fd), fcntl.fcntl(fd, fcntl.F_GETFD)])
            os.close(fd)
    fd = os.open(".", os.O_TMPFILE | RW, 0o600)
    found.append([flags_of_descriptor(fd), fcntl.fcntl(fd, fcntl.F_GETFD)])
    os.close(fd)
    return found


@check
def lowest_descriptor():
    """Each open takes the lowest number that is free."""
    base = os.open(".", os.O_PATH)
    fds = [os.open(f"{n}", NEW) for n in range(4)]
    os.close(fds[1])
    again = os.open("again", NEW)
    found = [fd - base for fd in fds] + [again - base]
    for fd in (base, fds[0], again, *fds[2:]):
        os.close(fd)
    return found


@check
def close_on_exec():
    made()
    with open("file", "a") as kept:
        done = subprocess.run(
            ["sh", "-c", f"test -e /proc/self/fd/{kept.fileno()}"], close_fds=False
        )
    return [done.returncode]


@check
def appended_by_two():
    first, second = (os.open("file", NEW | os.O_APPEND) for _ in range(2))
    for n in range(10):
        os.write((first, second)[n % 2], str(n).encode())
    os.close(first)
    os.close(second)
    return read("file")


@check
def shared_offset():
    fd = os.open("file", NEW)
    fork_and(lambda: os.write(fd, b"child"))
    os.write(fd, b"parent")
    os.close(fd)
    return read("file")


@check
def locks():
    first, second = (os.open("file", os.O_CREAT | RW) for _ in range(2))
    fcntl.flock(first, fcntl.LOCK_EX)
    found = [error_of(fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)]
    os.close(first)
    found.append(error_of(fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB))
    fcntl.lockf(second, fcntl.LOCK_EX)
    child = (
        "import fcntl, os\n"
        "try: fcntl.lockf(os.open('file', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB); print('ok')\n"
        "except OSError: print('refused')"
    )
    found.append(execute("/usr/bin/python3", "-I", "-c", child)[1])
    os.close(second)
    return found


@check
def too_many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    keep = os.open(".", os.O_PATH)
    resource.setrlimit(resource.RLIMIT_NOFILE, (keep + 1, hard))
    try:
        found = [error_of(open_close, "file", NEW), error_of(open_close, "/dev/null", RW)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    os.close(keep)
    # POSIX does not say whether the file is there; it must be possible to create it.
    return [*found, error_of(open_close, "file", NEW)]


@check
def mapped_and_sparse():
    with open("file", "w+b") as file:
        file.truncate(100_000)
        with mmap.mmap(file.fileno(), 100_000) as mapping:
            mapping[50_000:50_004] = b"text"
        file.seek(50_000)
        return [file.read(4).decode(), os.stat("file").st_size]


@check
def a_file_that_was_removed():
    fd = os.open("file", os.O_CREAT | RW)
    os.unlink("file")
    os.write(fd, b"text")
    again = os.open(f"/proc/self/fd/{fd}", R)
    found = [os.read(again, 9).decode(), os.stat(fd).st_nlink]
    os.close(fd)
    os.close(again)
    return found


@check
def nameless_files():
    fd = os.open(".", os.O_TMPFILE | RW | os.O_EXCL, 0o600)
    found = [
        error_of(call, 265, AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "x", AT_FOLLOW),
        error_of(os.open, ".", os.O_TMPFILE | R),
        error_of(os.open, "nowhere", os.O_TMPFILE | RW),
        error_of(os.open, made(), os.O_TMPFILE | RW),
        os.stat(fd).st_nlink,
    ]
    os.close(fd)
    return found


@check
def linked_descriptors():
    fd = os.open(".", os.O_TMPFILE | RW, 0o640)
    os.write(fd, b"text")
    link = f"/proc/self/fd/{fd}"
    found = [
        error_of(call, 265, AT_FDCWD, link, AT_FDCWD, "x", AT_FOLLOW),
        error_of(call, 265, AT_FDCWD, link, AT_FDCWD, "x", AT_FOLLOW),
        error_of(call, 265, AT_FDCWD, link, AT_FDCWD, "y", 0),
        error_of(call, 265, AT_FDCWD, link, AT_FDCWD, "z", 0x8000),
        os.stat(fd).st_nlink,
    ]
    os.close(fd)
    return [*found, *read("x")]


# --- errors of open ---


def opens(path, *flags):
    return [error_of(open_close, path, flag) for flag in flags]


ALL = (R, W, RW, NEW, NEW | os.O_EXCL, R | os.O_CREAT, W | os.O_TRUNC, R | os.O_TRUNC)
MORE = (
    *ALL,
    W | os.O_NOFOLLOW,
    NEW | os.O_NOFOLLOW,
    R | os.O_DIRECTORY,
    os.O_PATH,
)


def opened_each_time(prepare, flags=MORE):
    """What opens of a path do that exists again before each of them."""
    found = []
    for number, flag in enumerate(flags):
        directory = f"d{number}"
        os.mkdir(directory)
        os.chdir(directory)
        try:
            found.append([error_of(open_close, prepare(), flag), listing()])
        finally:
            os.chdir("..")
    return found


@check
def open_with_O_PATH():
    """Every other flag is ignored, but for three."""
    os.mkdir("d")
    made()
    flags = (W, NEW, W | os.O_TRUNC, os.O_DIRECTORY | NEW)
    return [opens(path, *(os.O_PATH | flag for flag in flags)) for path in ("file", "d", "none")]


@check
def open_with_O_DIRECTORY():
    """To write: the error depends on what is there."""
    os.mkdir("d")
    made()
    os.symlink("d", "link")
    os.symlink("none", "dangling")
    flags = (W | os.O_DIRECTORY, NEW | os.O_DIRECTORY)
    return [opens(path, *flags) for path in ("file", "d", "none", "link", "dangling", "no/x", "")]


@check
def open_nothing():
    return opened_each_time(lambda: "new")


@check
def open_a_file():
    return opened_each_time(made)


@check
def open_a_directory():
    return opened_each_time(lambda: os.mkdir("x") or "x")


@check
def open_a_directory_with_a_slash():
    return opened_each_time(lambda: os.mkdir("x") or "x/")


@check
def open_a_file_with_a_slash():
    return opened_each_time(lambda: made() + "/")


@check
def open_nothing_with_a_slash():
    return opened_each_time(lambda: "new/")


@check
def open_a_file_as_a_directory():
    return opened_each_time(lambda: made() + "/x")


@check
def open_nothing_in_nothing():
    return opened_each_time(lambda: "no/where")


@check
def open_dots():
    return [opens(path, *ALL) for path in (".", "..", "./", "../", "/", "//", "/..", "...")]


@check
def open_the_empty_path():
    return opens("", *MORE)


@check
def open_a_link():
    return opened_each_time(lambda: os.symlink(made(), "link") or "link")


@check
def open_a_dangling_link():
    return opened_each_time(lambda: os.symlink("target", "link") or "link")


@check
def open_a_dangling_link_into_nothing():
    return opened_each_time(lambda: os.symlink("no/target", "link") or "link")


@check
def open_a_link_with_a_slash():
    return opened_each_time(lambda: os.symlink(made(), "link") or "link/")


@check
def open_a_link_to_a_directory():
    return opened_each_time(lambda: os.mkdir("x") or os.symlink("x", "link") or "link")


@check
def open_a_link_to_a_directory_with_a_slash():
    return opened_each_time(lambda: os.mkdir("x") or os.symlink("x", "link") or "link/")


@check
def open_a_link_that_ends_with_a_slash():
    return opened_each_time(lambda: os.symlink(made() + "/", "link") or "link")


@check
def open_a_link_to_itself():
    return opened_each_time(lambda: os.symlink("link", "link") or "link")


def error_of_links(action, *args):
    """Of a path with 40 links, as many as Linux follows.

    If something is renamed at the same time, anywhere, Linux may walk the path once more. Then it
    counts the links of both walks.
    """
    for _ in range(50):
        error = error_of(action, *args)
        if error != "ELOOP":
            break
    return error


def chain(length):
    create(f"link{0}", "text")
    for number in range(1, length + 1):
        os.symlink(f"link{number - 1}", f"link{number}")
    return f"link{length}"


@check
def open_40_links():
    return [error_of_links(open_close, chain(40), W), read("link1")]


@check
def open_41_links():
    return [error_of(open_close, chain(41), W), error_of_links(open_close, "link40", W)]


@check
def links_of_directories():
    os.mkdir("l0")
    for number in range(1, 42):
        os.symlink(f"l{number - 1}", f"l{number}")
    return [error_of_links(create, "l40/x"), error_of(create, "l41/x"), listing("l0")]


@check
def links_with_dots():
    os.makedirs("a/b")
    os.symlink("../../c", "a/b/link")
    create("a/b/link")
    os.symlink("a/b/..", "up")
    create("up/d")
    return [listing("."), listing("a")]


@check
def long_names():
    name = "n" * 255
    found = [error_of(create, name), error_of(create, name + "n"), error_of(os.mkdir, "m" * 256)]
    deep = "/".join(["d" * 200] * 21)
    found += [error_of(os.open, deep, NEW), error_of(os.open, "x" + "/" * 4000 + "y", NEW)]
    found += [error_of(create, "./" * 2046 + "x"), error_of(create, "./" * 2047 + "xx")]
    found += [error_of(create, "./" * 2047 + "x" * 3)]
    return found


@check
def deep_directories():
    """Deeper than a path can be."""
    depth = 0
    while depth < 20 and error_of(os.mkdir, "d" * 250) == "ok":
        os.chdir("d" * 250)
        depth += 1
    found = [depth, error_of(create, "file"), error_of(os.rename, "file", "other"), listing()]
    for name in listing():
        os.unlink(name)
    for _ in range(depth):
        os.chdir("..")
        os.rmdir("d" * 250)
    return found


@check
def odd_names():
    names = [b"\xff\xfe", b"a\nb", b"\x1b[2J", b" ", b"-rf", b"*", b"\\", "ü".encode(), b"x" * 100]
    for name in names:
        os.close(os.open(name, NEW, 0o600))
    return sorted(name.hex() for name in os.listdir(b"."))


# --- pointers ---

PATH_CALLS = {
    "open": (2, ("p", W, 0)),
    "open, O_CREAT": (2, ("p", NEW, 0o600)),
    "openat": (257, (AT_FDCWD, "p", W, 0)),
    "creat": (85, ("p", 0o600)),
    "mkdir": (83, ("p", 0o700)),
    "mkdirat": (258, (AT_FDCWD, "p", 0o700)),
    "mknod": (133, ("p", 0o100600, 0)),
    "mknodat": (259, (AT_FDCWD, "p", 0o100600, 0)),
    "unlink": (87, ("p",)),
    "unlinkat": (263, (AT_FDCWD, "p", 0)),
    "rmdir": (84, ("p",)),
    "rename": (82, ("p", "p")),
    "renameat2": (316, (AT_FDCWD, "p", AT_FDCWD, "p", 0)),
    "link": (86, ("p", "p")),
    "linkat": (265, (AT_FDCWD, "p", AT_FDCWD, "p", 0)),
    "symlink": (88, ("p", "p")),
    "symlinkat": (266, ("p", AT_FDCWD, "p")),
    "truncate": (76, ("p", 0)),
    "chmod": (90, ("p", 0o600)),
    "fchmodat": (268, (AT_FDCWD, "p", 0o600)),
    "fchmodat2": (452, (AT_FDCWD, "p", 0o600, 0)),
    "chown": (92, ("p", -1, -1)),
    "lchown": (94, ("p", -1, -1)),
    "fchownat": (260, (AT_FDCWD, "p", -1, -1, 0)),
    "setxattr": (188, ("p", b"user.x", b"1", 1, 0)),
    "setxattr, its name": (188, (b".", "p", b"1", 1, 0)),
    "setxattr, its value": (188, (b".", b"user.x", "p", 1, 0)),
    "removexattr": (197, ("p", b"user.x")),
    "removexattr, its name": (197, (b".", "p")),
}


def at_the_end_of_a_page(content):
    """A pointer to bytes after which no memory is mapped."""
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(2 * PAGE), 3, 0x22, -1, ctypes.c_long(0))
    libc.mprotect(ctypes.c_void_p(address + PAGE), ctypes.c_size_t(PAGE), 0)
    start = address + PAGE - len(content)
    ctypes.memmove(start, content, len(content))
    return start


def with_pointer(pointer):
    return {
        name: error_of(call, number, *(pointer if arg == "p" else arg for arg in args))
        for name, (number, args) in PATH_CALLS.items()
    }


@check
def null_pointers():
    return [with_pointer(0)]


@check
def wild_pointers():
    return [with_pointer(1), with_pointer(-1), with_pointer(1 << 62)]


@check
def paths_without_an_end():
    return [with_pointer(at_the_end_of_a_page(b"abc"))]


@check
def paths_at_the_end_of_a_page():
    return [with_pointer(at_the_end_of_a_page(b"abc\0"))]


@check
def endless_paths():
    return [with_pointer(at_the_end_of_a_page(b"a" * PAGE))]


@check
def empty_paths():
    return [with_pointer(at_the_end_of_a_page(b"\0"))]


@check
def bad_descriptors():
    made()
    file = os.open("file", R)
    found = []
    for fd in (-1, 12345, file):
        found += [
            error_of(call, 257, fd, "x", NEW, 0o600),
            error_of(call, 257, fd, "", NEW, 0o600),
            error_of(call, 258, fd, "x", 0o700),
            error_of(call, 259, fd, "x", 0o100600, 0),
            error_of(call, 263, fd, "x", 0),
            error_of(call, 265, fd, "x", AT_FDCWD, "y", 0),
            error_of(call, 265, AT_FDCWD, "file", fd, "y", 0),
            error_of(call, 266, "x", fd, "y"),
            error_of(call, 316, fd, "x", AT_FDCWD, "y", 0),
            error_of(call, 316, AT_FDCWD, "file", fd, "y", 0),
            error_of(call, 268, fd, "x", 0o600),
            error_of(call, 260, fd, "x", -1, -1, 0),
        ]
    for fd in (-1, 12345):
        found += [
            error_of(call, 91, fd, 0o600),
            error_of(call, 93, fd, -1, -1),
            error_of(call, 190, fd, b"user.x", b"1", 1, 0),
            error_of(call, 199, fd, b"user.x"),
            error_of(call, 77, fd, 0),
        ]
    os.close(file)
    return found


@check
def descriptors_without_a_file():
    """Pipes, sockets and memory have attributes too."""
    left, right = socket.socketpair()
    reader, writer = os.pipe()
    memory = os.memfd_create("x")
    found = []
    for fd in (left.fileno(), reader, memory):
        found += [error_of(call, 91, fd, 0o600), error_of(call, 93, fd, -1, -1)]
    found.append(error_of(open_close, f"/proc/self/fd/{memory}", RW))
    found.append(error_of(open_close, f"/proc/self/fd/{writer}", W))
    found.append(error_of(open_close, f"/proc/self/fd/{left.fileno()}", W))
    found.append(error_of(os.ftruncate, memory, 10))
    for fd in (reader, writer, memory):
        os.close(fd)
    left.close()
    right.close()
    return found


@check
def bad_flags():
    made()
    os.mkdir("d")
    fd = os.open("d", R)
    found = [
        error_of(call, 316, AT_FDCWD, "file", AT_FDCWD, "y", 8),
        error_of(call, 316, AT_FDCWD, "file", AT_FDCWD, "y", 3),
        error_of(call, 265, AT_FDCWD, "file", AT_FDCWD, "y", 1),
        error_of(call, 263, AT_FDCWD, "file", 1),
        error_of(call, 452, AT_FDCWD, "file", 0o600, 1),
        error_of(call, 260, AT_FDCWD, "file", -1, -1, 1),
        error_of(call, 188, "file", b"user.x", b"1", 1, 8),
        error_of(call, 2, "file", RW | 1 << 26, 0),
        error_of(call, 2, "new", NEW | 0o40000000, 0o600),
        error_of(call, 83, "m", 0o170777),
        error_of(call, 133, "n", 0o040600, 0),
        error_of(call, 133, "n", 0o160600, 0),
        error_of(call, 133, "n", 0o120600, 0),
    ]
    os.close(fd)
    return found


# --- errors of the other calls ---


@check
def renames():
    made("a")
    made("b", "b")
    os.mkdir("d")
    os.makedirs("full/x")
    os.symlink("a", "link")
    rename = lambda *args: error_of(call, 82, *args)  # noqa: E731
    rename2 = lambda a, b, flags: error_of(call, 316, AT_FDCWD, a, AT_FDCWD, b, flags)  # noqa: E731
    return [
        rename("no", "x"),
        rename("a", "no/x"),
        rename("a", "d"),
        rename("d", "a"),
        rename("d", "full"),
        rename("full", "full/x/y"),
        rename("full/x", "full"),
        rename("a", "a"),
        rename("a", "./a"),
        rename("a", "b/"),
        rename("a/", "c"),
        rename("d/", "e/"),
        rename("e", "f/"),
        rename("a", "g/"),
        rename(".", "x"),
        rename("f", "."),
        rename("f", ".."),
        rename("f/.", "x"),
        rename("f/..", "x"),
        rename("a", ""),
        rename("", "a"),
        rename2("a", "b", NOREPLACE),
        rename2("a", "c", NOREPLACE),
        rename2("c", "no", EXCHANGE),
        rename2("c", "f", EXCHANGE),
        rename2("f", "f", EXCHANGE),
        rename("link", "link2"),
        rename("f", "n" * 256),
        listing(),
        os.readlink("link2"),
    ]


@check
def links():
    made()
    os.mkdir("d")
    os.symlink("file", "s")
    os.symlink("nowhere", "dangling")
    link = lambda *args: error_of(call, 86, *args)  # noqa: E731
    found = [
        link("file", "a"),
        link("file", "a"),
        link("no", "b"),
        link("d", "b"),
        link("file", "d"),
        link("file", "no/b"),
        link("file", "b/"),
        link("file/", "b"),
        link("s", "c"),
        link("dangling", "e"),
        error_of(call, 265, AT_FDCWD, "s", AT_FDCWD, "f", AT_FOLLOW),
        error_of(call, 265, AT_FDCWD, "dangling", AT_FDCWD, "g", AT_FOLLOW),
        link("", "h"),
        link("file", ""),
        os.stat("file").st_nlink,
        os.path.islink("c"),
        os.path.islink("f"),
        error_of(os.symlink, "", "i"),
        error_of(os.symlink, "x", "file"),
        error_of(os.symlink, "x", "d/"),
        error_of(os.symlink, "x", "new/"),
        error_of(os.symlink, "x" * 4095, "long"),
        error_of(os.symlink, "x" * 4096, "longer"),
        error_of(os.symlink, b"\xff\n", "odd"),
        listing(),
    ]
    os.unlink("long")
    return found


@check
def directories():
    made()
    os.makedirs("full/x")
    os.symlink("full", "s")
    os.symlink("nowhere", "dangling")
    return [
        error_of(os.mkdir, "file"),
        error_of(os.mkdir, "full"),
        error_of(os.mkdir, "s"),
        error_of(os.mkdir, "dangling"),
        error_of(os.mkdir, "dangling/"),
        error_of(os.mkdir, "new///"),
        error_of(os.mkdir, "file/x"),
        error_of(os.mkdir, "."),
        error_of(os.mkdir, "/"),
        error_of(os.mkdir, ".."),
        error_of(os.mkdir, "full/."),
        error_of(os.mkdir, "no/x"),
        error_of(os.rmdir, "file"),
        error_of(os.rmdir, "full"),
        error_of(os.rmdir, "s"),
        error_of(os.rmdir, "s/"),
        error_of(os.rmdir, "."),
        error_of(os.rmdir, "full/x/."),
        error_of(os.rmdir, "full/x/.."),
        error_of(os.rmdir, "/"),
        error_of(os.unlink, "full"),
        error_of(os.unlink, "file/"),
        error_of(os.unlink, "."),
        error_of(os.unlink, "s/"),
        error_of(os.rmdir, "new/"),
        error_of(os.unlink, "s"),
        error_of(os.unlink, "dangling"),
        error_of(call, 263, AT_FDCWD, "full/x", AT_REMOVEDIR),
        listing(),
    ]


@check
def truncations():
    made()
    os.mkdir("d")
    os.mkfifo("fifo")
    os.symlink("file", "s")
    return [
        error_of(call, 76, "file", -1),
        error_of(call, 76, "d", 0),
        error_of(call, 76, "fifo", 0),
        error_of(call, 76, "no", 0),
        error_of(call, 76, "file/", 0),
        error_of(call, 76, "s", 2),
        error_of(call, 76, "/dev/null", 0),
        *read("file"),
    ]


@check
def attributes():
    made()
    os.symlink("file", "s")
    os.mkdir("d")
    fd = os.open("file", R)
    path = os.open("file", os.O_PATH)
    found = [
        error_of(call, 90, "s", 0o640),
        error_of(call, 90, "d/", 0o750),
        error_of(call, 90, "file/", 0o600),
        error_of(call, 91, fd, 0o604),
        error_of(call, 91, path, 0o600),
        error_of(call, 93, path, -1, -1),
        error_of(call, 452, AT_FDCWD, "s", 0o600, 0x100),
        error_of(call, 452, path, "", 0o614, AT_EMPTY_PATH),
        error_of(call, 452, path, "", 0o600, 0),
        error_of(call, 260, path, "", -1, -1, AT_EMPTY_PATH),
        error_of(call, 260, AT_FDCWD, "", -1, -1, AT_EMPTY_PATH),
        error_of(call, 94, "s", -1, -1),
        error_of(call, 188, "file", b"user.x", b"1", 1, 0),
        error_of(call, 188, "file", b"user.x", b"1", 1, 1),
        error_of(call, 188, "file", b"user.y", b"1", 1, 2),
        error_of(call, 188, "file", b"nothing.y", b"1", 1, 0),
        error_of(call, 188, "file", b"", b"1", 1, 0),
        error_of(call, 188, "file", b"user." + b"x" * 300, b"1", 1, 0),
        error_of(call, 188, "file", b"user.z", ctypes.create_string_buffer(70000), 70000, 0),
        error_of(call, 189, "s", b"user.x", b"1", 1, 0),
        error_of(call, 190, path, b"user.x", b"1", 1, 0),
        error_of(call, 197, "file", b"user.none"),
        error_of(call, 197, "s", b"user.x"),
        error_of(call, 188, "d", b"user.x", b"", 0, 0),
        mode_of("file"),
        os.listxattr("file"),
    ]
    os.close(fd)
    os.close(path)
    return found


@check
def a_directory_that_was_removed():
    os.mkdir("d")
    fd = os.open("d", os.O_PATH)
    os.rmdir("d")
    found = [
        error_of(call, 257, fd, "x", NEW, 0o600),
        error_of(call, 258, fd, "x", 0o700),
        error_of(call, 266, "x", fd, "y"),
        error_of(call, 257, fd, ".", R | os.O_DIRECTORY, 0),
        error_of(call, 257, fd, "../file", NEW, 0o600),
    ]
    before = os.open(".", os.O_PATH)
    os.mkdir("e")
    os.chdir("e")
    os.rmdir("../e")
    found += [error_of(create, "x"), error_of(os.mkdir, "x"), error_of(create, "../y")]
    os.fchdir(before)
    os.close(before)
    os.close(fd)
    return [*found, listing()]


@check
def a_directory_that_was_moved():
    os.makedirs("a/b")
    os.mkdir("c")
    fd = os.open("a/b", os.O_PATH)
    os.rename("a/b", "c/d")
    create_at(fd, "x")
    create_at(fd, "../y")
    os.close(fd)
    return [listing("a"), listing("c"), listing("c/d")]


@check
def a_program_that_runs():
    """Nobody may write to it."""
    import shutil

    shutil.copy("/bin/sleep", "program")
    process = subprocess.Popen(["./program", "1000"])
    found = [error_of(open_close, "program", W), error_of(os.truncate, "program", 0)]
    process.kill()
    process.wait()
    return [*found, error_of(open_close, "program", W)]


@check
def a_program_that_is_written():
    import shutil

    shutil.copy("/bin/true", "program")
    fd = os.open("program", W)
    try:
        subprocess.run(["./program"])
        found = "ran"
    except OSError as error:
        found = errno.errorcode[error.errno]
    os.close(fd)
    return [found, subprocess.run(["./program"]).returncode]


# --- pipes, terminals and devices ---


@check
def fifo_without_a_reader():
    os.mkfifo("fifo")
    return opens("fifo", W | os.O_NONBLOCK, R | os.O_NONBLOCK, RW, RW | os.O_NONBLOCK)


@check
def fifo_flags():
    """An open that blocks gives a descriptor that blocks."""
    os.mkfifo("fifo")
    found = []
    for ours, theirs in ((W, R), (R, W), (W | os.O_CLOEXEC, R), (NEW, R), (W | os.O_APPEND, R)):
        others = []
        thread = threading.Thread(target=lambda f=theirs, o=others: o.append(os.open("fifo", f)))
        thread.start()
        fd = call(2, "fifo", ours, 0o600)
        thread.join()
        found.append([flags_of_descriptor(fd), fcntl.fcntl(fd, fcntl.F_GETFD)])
        os.close(fd)
        os.close(others[0])
    return found


@check
def fifo_waits_for_the_other_end():
    """Both orders, and several that wait at once, while other calls are made."""
    os.mkfifo("fifo")
    found = []
    for first, second in ((R, W), (W, R)):
        fds = []
        threads = [
            threading.Thread(target=lambda flags=first: fds.append(os.open("fifo", flags)))
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for number in range(100):
            create(f"{first}-{number}")
        found.append(len(fds))
        fd = os.open("fifo", second)
        for thread in threads:
            thread.join()
        os.close(fd)
        found.append(len(fds))
        for one in fds:
            os.close(one)
    return found


@check
def fifo_carries_text():
    os.mkfifo("fifo")
    child = subprocess.Popen(["sh", "-c", "echo text >fifo"])
    found = read("fifo")
    child.wait()
    return found


@check
def fifo_by_a_link():
    os.mkfifo("fifo")
    os.symlink("fifo", "link")
    child = subprocess.Popen(["sh", "-c", "echo text >link"])
    found = read("link")
    child.wait()
    return found


class Interrupted(Exception):
    pass


def interrupted_open(flags, restarts):
    """SIGALRM comes again and again until the open has seen one."""
    seen = []

    def on_signal(number, frame):
        seen.append(number)

    os.mkfifo("fifo")
    before = signal.signal(signal.SIGALRM, on_signal)
    signal.siginterrupt(signal.SIGALRM, not restarts)
    libc.open.argtypes = [ctypes.c_char_p, ctypes.c_int]
    main = threading.main_thread().ident
    is_done = threading.Event()

    def helper():
        while not is_done.wait(0.005):
            signal.pthread_kill(main, signal.SIGALRM)
            if restarts and seen:
                break
        if restarts:
            is_done.wait(0.05)
            os.close(os.open("fifo", R if flags == W else W))

    thread = threading.Thread(target=helper)
    # A handler of Python's runs when the call has ended; the C handler has run before.
    thread.start()
    fd = libc.open(b"fifo", flags)
    number = ctypes.get_errno()
    is_done.set()
    thread.join()
    signal.signal(signal.SIGALRM, before)
    if fd >= 0:
        os.close(fd)
        return "ok"
    return errno.errorcode[number]


@check
def fifo_open_is_interrupted():
    os.mkdir("a")
    os.mkdir("b")
    os.chdir("a")
    first = interrupted_open(R, False)
    os.chdir("../b")
    second = interrupted_open(W, False)
    os.chdir("..")
    return [first, second]


@check
def fifo_open_of_a_killed_process():
    """The opener is killed; the FIFO and other calls continue to work."""
    os.mkfifo("fifo")
    child = subprocess.Popen(["sh", "-c", "echo begun; : <fifo"], stdout=subprocess.PIPE)
    child.stdout.readline()
    child.kill()
    child.stdout.close()
    found = [child.wait()]
    return found + opens("fifo", R | os.O_NONBLOCK, RW)


@check
def fifo_open_of_a_thread_and_exit():
    """A process may exit while one of its threads waits."""
    os.mkfifo("fifo")

    def run():
        threading.Thread(target=lambda: os.open("fifo", R), daemon=True).start()
        create("made")

    pid = os.fork()
    if pid == 0:
        run()
        os._exit(5)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), listing()]


def status_of(path):
    pid = os.posix_spawn(path, [path], {})
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@check
def programs_that_were_just_written():
    """A file that is open for writing anywhere cannot be executed."""
    found = set()
    for n in range(60):
        for mode in (0o755, 0o644):
            path = f"program{n}-{mode}"
            fd = os.open(path, NEW | os.O_TRUNC, mode)
            os.write(fd, b"#!/bin/sh\nexit 7\n")
            os.close(fd)
            if mode == 0o644:
                os.chmod(path, 0o755)
            found.add(status_of(f"./{path}"))
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.close(fd)
        found.add(status_of(f"./{path}"))
        os.unlink(path)
    return sorted(found)


@check
def sockets():
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        listener.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("socket")
            accepted, _ = listener.accept()
            accepted.close()
        with socket.socket(socket.AF_UNIX) as second:
            found = [error_of(second.bind, "socket"), error_of(second.bind, "no/socket")]
            found.append(error_of(second.bind, "x" * 107))
            found.append(error_of(second.bind, "again"))
        found += [listener.getsockname(), error_of(open_close, "socket", RW)]
    for name in ("socket", "x" * 107):
        os.unlink(name)
    return [*found, listing()]


@check
def abstract_and_nameless_sockets():
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        one.bind("\0ipybox-test-of-names")
        one.listen()
        two.connect("\0ipybox-test-of-names")
        found = [str(one.getsockname())]
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("")  # a name that the system's kernel chooses
        found.append(len(one.getsockname()))
    with socket.create_server(("127.0.0.1", 0)) as server:
        found.append(server.getsockname()[0])
    return found


@check
def sockets_in_tmp():
    with socket.socket(socket.AF_UNIX) as listener:
        name = f"/tmp/ipybox-test-{os.getpid()}"
        listener.bind(name)
        listener.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(name)
        os.unlink(name)
    return "ok"


@check
def no_terminal():
    """In a session without a terminal."""
    script = (
        "import errno, os\nfor f in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):\n"
        " try: os.open('/dev/tty', f); print('opened')\n"
        " except OSError as e: print(errno.errorcode[e.errno])"
    )
    return [execute("setsid", "-w", "/usr/bin/python3", "-I", "-c", script)[1]]


@check
def devices():
    found = opens("/dev/null", R, W, RW, NEW, W | os.O_TRUNC, W | os.O_APPEND)
    found += opens("/dev/zero", R, RW) + opens("/dev/full", W) + opens("/dev/urandom", R)
    fd = os.open("/dev/full", W)
    found.append(error_of(os.write, fd, b"x"))
    os.close(fd)
    return found


@check
def standard_streams():
    script = (
        "echo a >/dev/stdout; echo b >/dev/stderr; cat /dev/stdin; "
        "echo c >/dev/fd/1; echo d >/proc/self/fd/2"
    )
    done = subprocess.run(["bash", "-c", script], input="in\n", capture_output=True, text=True)
    return [done.stdout, done.stderr, done.returncode]


@check
def standard_streams_that_are_files():
    """Opened again, a file is truncated or appended to."""
    script = "echo first; echo second >>/dev/stdout; echo third >>/dev/fd/1"
    with open("out", "a") as out:
        done = subprocess.run(["bash", "-c", script], stdout=out)
    return [done.returncode, *read("out")]


@check
def heredocs_and_substitutions():
    script = (
        "cat <<<text; cat < <(echo sub); echo x > >(cat); read x <<EOF\nline\nEOF\necho $x; wait"
    )
    return [sorted(execute("bash", "-c", script)[1].split())]


# --- /proc ---


@check
def own_proc():
    with open("/proc/self/comm", "w") as file:
        file.write("named")
    found = read("/proc/self/comm") + read("/proc/thread-self/comm")
    found.append(read(f"/proc/{os.getpid()}/comm")[0] == found[0])
    found.append(os.readlink("/proc/self") == str(os.getpid()))
    for name in ("environ", "maps", "status", "stat", "cmdline", "mounts", "limits", "fd", "io"):
        path = f"/proc/self/{name}"
        found.append(bool(os.listdir(path)) if os.path.isdir(path) else bool(read(path)[0]))
    return found


@check
def own_proc_is_that_of_the_caller():
    """Also of threads and children: none sees another's."""
    found = []

    def look(name):
        pid = read("/proc/self/stat")[0].split()[0]
        thread = read("/proc/thread-self/stat")[0].split()[0]
        found.append([name, pid == str(os.getpid()), thread == str(threading.get_native_id())])

    look("main")
    thread = threading.Thread(target=look, args=("thread",))
    thread.start()
    thread.join()
    child = "import os; print(open('/proc/self/stat').read().split()[0] == str(os.getpid()))"
    return [*found, execute("/usr/bin/python3", "-I", "-c", child)[1]]


@check
def names_of_threads():
    """pthread_setname_np of another thread writes to its comm."""
    ready, done = threading.Event(), threading.Event()
    ids = []

    def run():
        ids.append(threading.get_native_id())
        ready.set()
        done.wait()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    path = f"/proc/self/task/{ids[0]}/comm"
    with open(path, "w") as file:
        file.write("other")
    found = read(path)
    done.set()
    thread.join()
    return found


@check
def coredump_filter():
    before = read("/proc/self/coredump_filter")[0]
    with open("/proc/self/coredump_filter", "w") as file:
        file.write("0x1")
    found = read("/proc/self/coredump_filter")
    with open("/proc/self/coredump_filter", "w") as file:
        file.write("0x" + before)
    return found


@check
def descriptors_of_other_kinds():
    """Names below /proc/self/fd that lead to no path."""
    found = []
    reader, writer = os.pipe()
    found.append(error_of(open_close, f"/proc/self/fd/{reader}", R))
    found.append(error_of(open_close, f"/dev/fd/{writer}", W))
    found.append(error_of(open_close, "/proc/self/fd/54321", W))
    found.append(error_of(open_close, "/proc/self/fd/x", W))
    found.append(error_of(open_close, "/dev/fd/", W))
    os.close(reader)
    os.close(writer)
    directory = os.open(".", R)
    found.append(error_of(open_close, f"/proc/self/fd/{directory}", W))
    found.append(error_of(create, f"/proc/self/fd/{directory}/made"))
    found.append(error_of(os.mkdir, f"/dev/fd/{directory}/directory"))
    found.append(
        error_of(create, f"/proc/self/fd/{directory}/../{os.path.basename(os.getcwd())}/b")
    )
    os.close(directory)
    return [*found, listing()]


# --- with privileges it differs ---


@privileged
def modes_that_forbid():
    made()
    made("none")
    os.chmod("file", 0o444)
    os.chmod("none", 0)
    os.mkdir("d")
    create("d/x")
    os.chmod("d", 0o555)
    found = opens("file", R, W, RW, W | os.O_TRUNC, NEW) + opens("none", R, W)
    found += [
        error_of(create, "d/y"),
        error_of(os.unlink, "d/x"),
        error_of(os.rename, "d/x", "x"),
        error_of(os.rename, "file", "d/z"),
        error_of(os.link, "file", "d/z"),
        error_of(os.mkdir, "d/z"),
        error_of(os.symlink, "x", "d/z"),
        error_of(os.truncate, "file", 0),
        error_of(os.setxattr, "file", "user.x", b"1"),
        error_of(append, "d/x"),
    ]
    os.chmod("d", 0)
    found += [error_of(append, "d/x"), error_of(create, "d/y"), error_of(os.mkdir, "d/e")]
    os.chmod("d", 0o755)
    return found


@privileged
def other_owners():
    made()
    return [
        error_of(os.chown, "file", 12345, -1),
        error_of(os.chown, "file", -1, 12345),
        error_of(os.setxattr, "file", "trusted.x", b"1"),
        error_of(os.setxattr, "file", "security.x", b"1"),
        error_of(call, 133, "device", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
        error_of(call, 133, "device", stat.S_IFBLK | 0o600, os.makedev(1, 3)),
    ]


def run_checks(kind):
    """All checks of a kind, each in a directory of its own."""
    results = {}
    top = os.getcwd()
    for name, function in (CHECKS if kind == "checks" else PRIVILEGED).items():
        directory = f"{top}/{name}"
        os.mkdir(directory)
        os.chdir(directory)
        results[name] = error_of(function)
        os.chdir(top)
    return [results]


ACTIONS["run"] = run_checks
ACTIONS["one"] = lambda name: (
    os.mkdir(name),
    os.chdir(name),
    error_of(CHECKS[name]),
    os.chdir(".."),
)[2]


def use_terminal():
    """A new terminal: the child opens it as /dev/tty, and its parent as what it is."""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            tty = os.open("/dev/tty", RW)
            os.write(tty, f"{os.ttyname(tty)} {os.isatty(tty)}\n".encode())
            os.close(os.open(os.ttyname(0), RW | os.O_NOCTTY))
            os._exit(7)
        except OSError as error:
            os.write(1, repr(error).encode())
            os._exit(1)
    said = b""
    while select.select([fd], [], [], 60)[0]:
        try:
            data = os.read(fd, 1000)
        except OSError:
            break
        if not data:
            break
        said += data
    os.close(fd)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode()]


ACTIONS["terminal"] = use_terminal
