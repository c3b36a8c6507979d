# SPDX-License-Identifier: Apache-2.0
"""Every way to make, to change and to read a file with a name; see test_names_calls.py.

Follows hand.py, whose actions these are. The argument is the path of the file, in a directory
`deep`. The working directory is the workspace, which has the directories `deep`, `own` and `own2`.
Everything else that an action needs it makes in `own`. The same action is done to a protected name
and to an ordinary one.
"""

import mmap
import threading

W, RW, R = os.O_WRONLY, os.O_RDWR, os.O_RDONLY
NEW = os.O_CREAT | os.O_WRONLY

_counter = iter(range(10**9))


def own(content="evil"):
    """The path of a new ordinary file."""
    path = f"own/{next(_counter)}"
    create(path, content)
    return path


def own_name():
    return f"own/{next(_counter)}"


def own_directory():
    path = own_name()
    os.mkdir(path)
    return path


def nameless():
    fd = os.open("own", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(fd, b"evil")
    return fd


def split(path):
    return os.path.split(path)


def at(path, flags):
    """The descriptor of the file's directory, and its last name."""
    directory, name = split(path)
    return os.open(directory, flags | os.O_DIRECTORY), name


def closing(fd, action, *args):
    try:
        return action(*args)
    finally:
        os.close(fd)


def in_thread(action, *args):
    found = []

    def run():
        try:
            action(*args)
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if found:
        raise found[0]


def in_child(action, *args):
    """In a forked process, which has inherited every descriptor."""
    pid = os.fork()
    if pid == 0:
        number = 0
        try:
            action(*args)
        except OSError as error:
            number = error.errno
        finally:
            os._exit(number)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        raise OSError(status, "in a child")


# --- a file that does not exist gets the name ---


def create_at_descriptor(path, flags):
    fd, name = at(path, flags)
    closing(fd, lambda: put(os.open(name, NEW, 0o644, dir_fd=fd)))


def create_by_inherited_descriptor(path):
    fd, name = at(path, R)
    closing(fd, in_child, lambda: put(os.open(name, NEW, 0o644, dir_fd=fd)))


def create_by_descriptor_of_a_moved_directory(path):
    """The directory had another name when it was opened."""
    directory, name = split(path)
    aside = own_name()
    os.rename(directory, aside)
    fd = os.open(aside, R | os.O_DIRECTORY)
    os.rename(aside, directory)
    closing(fd, lambda: put(os.open(name, NEW, 0o644, dir_fd=fd)))


def create_in_working_directory(path):
    directory, name = split(path)
    before = os.open(".", os.O_PATH)
    os.chdir(directory)
    try:
        put(os.open(name, NEW, 0o644))
    finally:
        os.fchdir(before)
        os.close(before)


def create_by_link_of_directory(path):
    directory, name = split(path)
    link = own_name()
    os.symlink(os.path.abspath(directory), link)
    put(os.open(f"{link}/{name}", NEW, 0o644))


def create_by_dangling_link(path):
    link = own_name()
    os.symlink(os.path.abspath(path), link)
    put(os.open(link, NEW, 0o644))


def create_by_relative_links(path):
    """Four links, each of which leads to the next by `..`."""
    previous = "../" + path
    for _ in range(4):
        link = own_name()
        os.symlink(previous, link)
        previous = "../" + link
    put(os.open(link, NEW, 0o644))


def create_by_fd_of_directory(path, prefix):
    fd, name = at(path, R)
    closing(fd, lambda: put(os.open(f"{prefix}{fd}/{name}", NEW, 0o644)))


def bind(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)


def bind_in_working_directory(path):
    directory, name = split(path)
    before = os.open(".", os.O_PATH)
    os.chdir(directory)
    try:
        bind(name)
    finally:
        os.fchdir(before)
        os.close(before)


def bind_by_fd(path):
    fd, name = at(path, os.O_PATH)
    closing(fd, bind, f"/proc/self/fd/{fd}/{name}")


def link_nameless(path):
    fd = nameless()
    closing(fd, call, 265, AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, path, AT_FOLLOW)


def link_nameless_by_number(path):
    fd = nameless()
    closing(fd, call, 265, fd, b"", AT_FDCWD, path, AT_EMPTY_PATH)


def link_nameless_at(path):
    fd = nameless()
    place, name = at(path, os.O_PATH)
    closing(place, closing, fd, call, 265, AT_FDCWD, f"/proc/self/fd/{fd}", place, name, AT_FOLLOW)


def link_open_file(path):
    fd = os.open(own(), RW)
    closing(fd, call, 265, AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, path, AT_FOLLOW)


def rename_at(path, flags):
    source, place = own(), at(path, os.O_PATH)
    directory = os.open("own", R)
    try:
        call(316, directory, os.path.basename(source), place[0], place[1], flags)
    finally:
        os.close(directory)
        os.close(place[0])


def rename_back(path):
    """Renamed twice within its directory."""
    directory, _ = split(path)
    step = f"{directory}/{next(_counter)}"
    os.rename(own(), step)
    try:
        os.rename(step, path)
    finally:
        if os.path.exists(step):
            os.unlink(step)


def rename_directory(path):
    source = own_directory()
    create(source + "/settings.json")
    os.rename(source, path)


def rename_link(path):
    link = own_name()
    os.symlink("/etc/passwd", link)
    os.rename(link, path)


def rename_socket(path):
    name = own_name()
    bind(name)
    try:
        os.rename(name, path)
    finally:
        if os.path.exists(name):
            os.unlink(name)


def up_and_down(path):
    directory, name = split(path)
    return f"{directory}/../own/.././{directory}//{name}"


MAKE = {
    "open, O_WRONLY": lambda p: put(call(2, p, NEW, 0o644)),
    "open, O_RDWR": lambda p: put(call(2, p, os.O_CREAT | RW, 0o644)),
    "open, only to read": lambda p: os.close(call(2, p, os.O_CREAT | R, 0o644)),
    "open, O_EXCL": lambda p: put(call(2, p, NEW | os.O_EXCL, 0o644)),
    "open, O_APPEND": lambda p: put(call(2, p, NEW | os.O_APPEND, 0o644)),
    "open, O_TRUNC": lambda p: put(call(2, p, NEW | os.O_TRUNC, 0o644)),
    "open, O_NOFOLLOW": lambda p: put(call(2, p, NEW | os.O_NOFOLLOW, 0o644)),
    "open, O_CLOEXEC, O_NONBLOCK": lambda p: put(
        call(2, p, NEW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    ),
    "open, O_SYNC": lambda p: put(call(2, p, NEW | os.O_SYNC | os.O_NOCTTY | os.O_NOATIME, 0o644)),
    "openat": lambda p: put(call(257, AT_FDCWD, p, NEW, 0o644)),
    "openat, high bits of the flags": lambda p: put(call(257, AT_FDCWD, p, NEW | 1 << 40, 0o644)),
    "openat, absolute, no descriptor": lambda p: put(
        call(257, 12345, os.path.abspath(p), NEW, 0o644)
    ),
    "openat, a directory": lambda p: create_at_descriptor(p, R),
    "openat, O_PATH": lambda p: create_at_descriptor(p, os.O_PATH),
    "openat, inherited": create_by_inherited_descriptor,
    "openat, of a moved directory": create_by_descriptor_of_a_moved_directory,
    "open in the working directory": create_in_working_directory,
    "creat": lambda p: put(call(85, p, 0o644)),
    "in a thread": lambda p: in_thread(create, p),
    "in a child": lambda p: in_child(create, p),
    "by ..": lambda p: create(up_and_down(p)),
    "by an absolute path": lambda p: create(os.path.abspath(p)),
    "by slashes": lambda p: create("/" + "/./".join(os.path.abspath(p).split("/"))),
    "by a link to its directory": create_by_link_of_directory,
    "by a dangling link": create_by_dangling_link,
    "by links": create_by_relative_links,
    "by /proc/self/cwd": lambda p: create("/proc/self/cwd/" + p),
    "by /proc/self/root": lambda p: create("/proc/self/root" + os.path.abspath(p)),
    "by /proc/thread-self/cwd": lambda p: create("/proc/thread-self/cwd/" + p),
    "by /proc/PID/cwd": lambda p: create(f"/proc/{os.getpid()}/cwd/{p}"),
    "by /proc/PID/task/TID/cwd": lambda p: create(
        f"/proc/{os.getpid()}/task/{threading.get_native_id()}/cwd/{p}"
    ),
    "by /proc/self/fd": lambda p: create_by_fd_of_directory(p, "/proc/self/fd/"),
    "by /dev/fd": lambda p: create_by_fd_of_directory(p, "/dev/fd/"),
    "by /proc/self/../self": lambda p: create_by_fd_of_directory(p, "/proc/self/../self/fd/"),
    "mknod": lambda p: call(133, p, stat.S_IFREG | 0o644, 0),
    "mknod, no type": lambda p: call(133, p, 0o644, 0),
    "mknod, a socket": lambda p: call(133, p, stat.S_IFSOCK | 0o644, 0),
    "mknodat": lambda p: call(259, AT_FDCWD, p, stat.S_IFREG | 0o644, 0),
    "mkfifo": lambda p: call(133, p, stat.S_IFIFO | 0o644, 0),
    "mkfifoat": lambda p: call(259, AT_FDCWD, p, stat.S_IFIFO | 0o644, 0),
    "bind": bind,
    "bind, absolute": lambda p: bind(os.path.abspath(p)),
    "bind, by ..": lambda p: bind(up_and_down(p)),
    "bind in the working directory": bind_in_working_directory,
    "bind by /proc/self/fd": bind_by_fd,
    "symlink": lambda p: call(88, "/etc/passwd", p),
    "symlinkat": lambda p: call(266, "nowhere", AT_FDCWD, p),
    "link": lambda p: call(86, own(), p),
    "linkat": lambda p: call(265, AT_FDCWD, own(), AT_FDCWD, p, 0),
    "linkat, of an open file": link_open_file,
    "O_TMPFILE, linkat": link_nameless,
    "O_TMPFILE, linkat, AT_EMPTY_PATH": link_nameless_by_number,
    "O_TMPFILE, linkat, into a descriptor": link_nameless_at,
    "rename": lambda p: call(82, own(), p),
    "renameat": lambda p: call(264, AT_FDCWD, own(), AT_FDCWD, p),
    "renameat2": lambda p: rename_at(p, 0),
    "renameat2, NOREPLACE": lambda p: rename_at(p, NOREPLACE),
    "rename within the directory": rename_back,
    "rename of a directory": rename_directory,
    "rename of a link": rename_link,
    "rename of a socket": rename_socket,
    "mkdir": lambda p: call(83, p, 0o755),
    "mkdirat": lambda p: call(258, AT_FDCWD, p, 0o755),
    "mkdir, trailing slashes": lambda p: call(83, p + "//", 0o755),
}


# --- a file that has the name is changed ---


def reopen(path, flags, name, new_flags=W):
    fd = os.open(path, flags)
    closing(fd, lambda: put(os.open(name.format(fd=fd, pid=os.getpid()), new_flags)))


def reopen_in_child(path):
    """By the parent's descriptor."""
    fd, parent = os.open(path, R), os.getpid()
    closing(fd, in_child, lambda: put(os.open(f"/proc/{parent}/fd/{fd}", W)))


def by_descriptor(path, number, *args, flags=R):
    fd = os.open(path, flags)
    closing(fd, call, number, fd, *args)


def by_fd_name(path, number, *args, flags=os.O_PATH):
    fd = os.open(path, flags)
    closing(fd, call, number, f"/proc/self/fd/{fd}", *args)


def write_by_new_link(path):
    """A second name of the same file, which no rule knows."""
    name = own_name()
    os.link(path, name)
    append(name)


def write_by_linkat(path, descriptor_flags):
    name = own_name()
    fd = os.open(path, descriptor_flags)
    closing(fd, call, 265, AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, name, AT_FOLLOW)
    append(name)


def write_by_symlink(path):
    link = own_name()
    os.symlink(os.path.abspath(path), link)
    append(link)


def move_away(path):
    os.rename(path, own_name())


def exchange(path, is_second):
    other = own()
    names = (other, path) if is_second else (path, other)
    call(316, AT_FDCWD, names[0], AT_FDCWD, names[1], EXCHANGE)


def exchange_with_directory(path):
    call(316, AT_FDCWD, own_directory(), AT_FDCWD, path, EXCHANGE)


def flags_of(path):
    """The attributes of ext2, of which one says that names have no case."""
    fd = os.open(path, R)
    value = ctypes.c_long()
    try:
        call(16, fd, 0x80086601, ctypes.byref(value))
        value.value ^= 0x40  # no dump
        call(16, fd, 0x40086602, ctypes.byref(value))
    finally:
        os.close(fd)


def extended_flags_of(path):
    fd = os.open(path, R)
    value = (ctypes.c_uint32 * 7)()
    try:
        call(16, fd, 0x801C581F, value)
        value[0] ^= 0x80  # no dump
        call(16, fd, 0x401C5820, value)
    finally:
        os.close(fd)


def file_setattr(path):
    value = (ctypes.c_uint64 * 3)()
    call(468, AT_FDCWD, path, value, 24, 0)
    value[0] ^= 0x80
    call(469, AT_FDCWD, path, value, 24, 0)


class SetxattrArguments(ctypes.Structure):
    _fields_ = (("value", ctypes.c_uint64), ("size", ctypes.c_uint32), ("flags", ctypes.c_uint32))


def setxattrat(path, flags=0):
    value = ctypes.create_string_buffer(b"1", 1)
    arguments = SetxattrArguments(ctypes.addressof(value), 1, 0)
    if flags:
        fd = os.open(path, R)
        closing(fd, call, 463, fd, b"", flags, b"user.x", ctypes.byref(arguments), 16)
    else:
        call(463, AT_FDCWD, path, 0, b"user.x", ctypes.byref(arguments), 16)


def me():
    return os.getuid(), os.getgid()


CHANGE = {
    "open, O_WRONLY": lambda p: put(call(2, p, W, 0)),
    "open, O_RDWR": lambda p: put(call(2, p, RW, 0)),
    "open, O_APPEND": lambda p: put(call(2, p, W | os.O_APPEND, 0)),
    "open, O_CREAT": lambda p: put(call(2, p, NEW, 0o644)),
    "open, O_NOFOLLOW": lambda p: put(call(2, p, W | os.O_NOFOLLOW, 0)),
    "open, O_TRUNC, to read": lambda p: os.close(call(2, p, R | os.O_TRUNC, 0)),
    "open, O_WRONLY and O_RDWR": lambda p: (os.close(call(2, p, 3, 0)), os.truncate(p, 0)),
    "openat": lambda p: put(call(257, AT_FDCWD, p, W, 0)),
    "openat, high bits of the flags": lambda p: put(call(257, AT_FDCWD, p, W | 1 << 40, 0)),
    "creat": lambda p: put(call(85, p, 0o644)),
    "by a symbolic link": write_by_symlink,
    "by a new hard link": write_by_new_link,
    "by a new hard link of a descriptor": lambda p: write_by_linkat(p, R),
    "by a new hard link of O_PATH": lambda p: write_by_linkat(p, os.O_PATH),
    "by /proc/self/fd": lambda p: reopen(p, R, "/proc/self/fd/{fd}"),
    "by /proc/self/fd, O_PATH": lambda p: reopen(p, os.O_PATH, "/proc/self/fd/{fd}"),
    "by /proc/self/fd, O_CREAT": lambda p: reopen(p, R, "/proc/self/fd/{fd}", NEW),
    "by /dev/fd": lambda p: reopen(p, R, "/dev/fd/{fd}", RW),
    "by /proc/thread-self/fd": lambda p: reopen(p, R, "/proc/thread-self/fd/{fd}"),
    "by /proc/PID/fd": lambda p: reopen(p, R, "/proc/{pid}/fd/{fd}"),
    "by /proc/PID/task/PID/fd": lambda p: reopen(p, R, "/proc/{pid}/task/{pid}/fd/{fd}"),
    "by the parent's /proc/PID/fd": reopen_in_child,
    "by /proc/self/cwd": lambda p: append("/proc/self/cwd/" + p),
    "by /proc/self/root": lambda p: append("/proc/self/root" + os.path.abspath(p)),
    "truncate": lambda p: call(76, p, 0),
    "truncate by /proc/self/fd": lambda p: by_fd_name(p, 76, 0),
    "chmod": lambda p: call(90, p, 0o755),
    "chmod by /proc/self/fd": lambda p: by_fd_name(p, 90, 0o755),
    "fchmod": lambda p: by_descriptor(p, 91, 0o755),
    "fchmodat": lambda p: call(268, AT_FDCWD, p, 0o755),
    "fchmodat2": lambda p: call(452, AT_FDCWD, p, 0o755, 0),
    "fchmodat2, a descriptor": lambda p: by_descriptor(p, 452, b"", 0o755, AT_EMPTY_PATH),
    "fchmodat2, O_PATH": lambda p: by_descriptor(
        p, 452, b"", 0o755, AT_EMPTY_PATH, flags=os.O_PATH
    ),
    "chown": lambda p: call(92, p, *me()),
    "lchown": lambda p: call(94, p, *me()),
    "fchown": lambda p: by_descriptor(p, 93, *me()),
    "fchownat": lambda p: call(260, AT_FDCWD, p, *me(), 0),
    "fchownat, a descriptor": lambda p: by_descriptor(
        p, 260, b"", *me(), AT_EMPTY_PATH, flags=os.O_PATH
    ),
    "setxattr": lambda p: call(188, p, b"user.x", b"1", 1, 0),
    "lsetxattr": lambda p: call(189, p, b"user.x", b"1", 1, 0),
    "fsetxattr": lambda p: by_descriptor(p, 190, b"user.x", b"1", 1, 0),
    "setxattr by /proc/self/fd": lambda p: by_fd_name(p, 188, b"user.x", b"1", 1, 0),
    "setxattrat": setxattrat,
    "setxattrat, a descriptor": lambda p: setxattrat(p, AT_EMPTY_PATH),
    "removexattr": lambda p: call(197, p, b"user.old"),
    "lremovexattr": lambda p: call(198, p, b"user.old"),
    "fremovexattr": lambda p: by_descriptor(p, 199, b"user.old"),
    "removexattrat": lambda p: call(466, AT_FDCWD, p, 0, b"user.old"),
    "unlink": lambda p: call(87, p),
    "unlinkat": lambda p: call(263, AT_FDCWD, p, 0),
    "rename over it": lambda p: call(82, own(), p),
    "renameat over it": lambda p: call(264, AT_FDCWD, own(), AT_FDCWD, p),
    "renameat2 over it": lambda p: rename_at(p, 0),
    "rename away": move_away,
    "rename, to write elsewhere": lambda p: (move_away(p), create(p)),
    "exchange": lambda p: exchange(p, False),
    "exchange, the other way": lambda p: exchange(p, True),
    "exchange with a directory": exchange_with_directory,
    "in a thread": lambda p: in_thread(append, p),
    "in a child": lambda p: in_child(append, p),
    "FS_IOC_SETFLAGS": flags_of,
    "FS_IOC_FSSETXATTR": extended_flags_of,
    "file_setattr": file_setattr,
}


# --- what never works, whatever the name ---


def subvolume(request):
    fd = os.open("own", R)
    closing(fd, call, 16, fd, request, ctypes.create_string_buffer(4096))


def handle(path):
    """A file's handle is enough to open it, without a path."""
    value = ctypes.create_string_buffer(8 + 128)
    ctypes.c_uint32.from_buffer(value).value = 128
    mount = ctypes.c_int()
    call(303, AT_FDCWD, path, value, ctypes.byref(mount), 0)
    os.close(call(304, AT_FDCWD, value, RW))


def ftruncate(path):
    by_descriptor(path, 77, 0)


def map_to_write(path):
    fd = os.open(path, R)
    closing(fd, lambda: mmap.mmap(fd, 1, mmap.MAP_SHARED, mmap.PROT_WRITE))


def make_writable(path):
    """A mapping of a read-only descriptor, made writable afterwards."""
    fd = os.open(path, R)
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))
    os.close(fd)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(4096), 3) < 0:
        raise OSError(ctypes.get_errno(), "mprotect")


def in_a_ring():
    os.close(call(425, 1, ctypes.create_string_buffer(256)))


def openat2(path):
    how = (ctypes.c_uint64 * 3)(W, 0, 0)
    os.close(call(437, AT_FDCWD, path, ctypes.byref(how), 24))


NEVER = {
    "ftruncate, a descriptor to read": ftruncate,
    "a writable mapping": map_to_write,
    "a mapping made writable": make_writable,
    "write, a descriptor to read": lambda p: by_descriptor(p, 1, b"evil", 4),
    "fallocate, a descriptor to read": lambda p: by_descriptor(p, 285, 0, 0, 100),
    "F_SETFL": lambda p: by_descriptor(p, 72, 4, RW) or by_descriptor(p, 1, b"e", 1),
}
GONE = {
    "openat2": openat2,
    "io_uring": lambda p: in_a_ring(),
    "clone3": lambda p: call(435, ctypes.create_string_buffer(88), 88),
    "open_by_handle_at": handle,
    "btrfs, a subvolume": lambda p: subvolume(0x5000940E),
    "btrfs, a snapshot": lambda p: subvolume(0x50009401),
    "btrfs, subvolume 2": lambda p: subvolume(0x50009418),
    "btrfs, snapshot 2": lambda p: subvolume(0x50009417),
    "btrfs, destroy": lambda p: subvolume(0x5000940F),
}


# --- a file that has the name is read ---


def read_by_symlink(path):
    link = own_name()
    os.symlink(os.path.abspath(path), link)
    return read(link)


def read_by_new_link(path):
    name = own_name()
    os.link(path, name)
    return read(name)


def read_by_linkat(path):
    name, fd = own_name(), os.open(path, os.O_PATH)
    closing(fd, call, 265, AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, name, AT_FOLLOW)
    return read(name)


def read_moved(path):
    name = own_name()
    os.rename(path, name)
    return read(name)


def read_exchanged(path):
    name = own()
    call(316, AT_FDCWD, path, AT_FDCWD, name, EXCHANGE)
    return read(name)


def read_in_moved_directory(path):
    directory, name = split(path)
    aside = own_name()
    os.rename(directory, aside)
    try:
        return read(f"{aside}/{name}")
    finally:
        os.rename(aside, directory)


def read_at_descriptor(path, flags):
    fd, name = at(path, flags)
    return closing(fd, read_at, fd, name)


def read_fd(fd):
    try:
        return [os.read(fd, 1000).decode()]
    finally:
        os.close(fd)


def read_by_reopening(path, name):
    fd = os.open(path, os.O_PATH)
    return closing(fd, lambda: read(name.format(fd=fd, pid=os.getpid())))


def read_in_program(*command):
    status, out, _ = execute(*command)
    if status != 0:
        raise OSError(errno.EACCES, "")
    return [out]


READ = {
    "open": lambda p: read_fd(call(2, p, R, 0)),
    "open, O_RDWR": lambda p: read_fd(call(2, p, RW, 0)),
    "open, O_CREAT": lambda p: read_fd(call(2, p, R | os.O_CREAT, 0o600)),
    "open, O_NOFOLLOW": lambda p: read_fd(call(2, p, R | os.O_NOFOLLOW | os.O_NONBLOCK, 0)),
    "openat": lambda p: read_fd(call(257, AT_FDCWD, p, R, 0)),
    "openat, high bits of the flags": lambda p: read_fd(call(257, AT_FDCWD, p, R | 1 << 40, 0)),
    "openat, a directory": lambda p: read_at_descriptor(p, R),
    "openat, O_PATH": lambda p: read_at_descriptor(p, os.O_PATH),
    "by ..": lambda p: read(up_and_down(p)),
    "by a symbolic link": read_by_symlink,
    "by a new hard link": read_by_new_link,
    "by a new hard link of O_PATH": read_by_linkat,
    "renamed": read_moved,
    "exchanged": read_exchanged,
    "by /proc/self/fd, O_PATH": lambda p: read_by_reopening(p, "/proc/self/fd/{fd}"),
    "by /dev/fd, O_PATH": lambda p: read_by_reopening(p, "/dev/fd/{fd}"),
    "by /proc/PID/fd, O_PATH": lambda p: read_by_reopening(p, "/proc/{pid}/fd/{fd}"),
    "by /proc/self/cwd": lambda p: read("/proc/self/cwd/" + p),
    "by /proc/self/root": lambda p: read("/proc/self/root" + os.path.abspath(p)),
    "by /proc/PID/task/PID/cwd": lambda p: read(f"/proc/{os.getpid()}/task/{os.getpid()}/cwd/{p}"),
    "in a program": lambda p: read_in_program("cat", p),
    "as a program's standard stream": lambda p: read_in_program("sh", "-c", 'cat < "$0"', p),
    "in a thread": lambda p: in_thread(read, p) or read(p),
}

for _kind, _table in (("make", MAKE), ("change", CHANGE), ("never", NEVER | GONE), ("read", READ)):
    for _name, _action in _table.items():
        ACTIONS[f"{_kind}: {_name}"] = _action
ACTIONS["names"] = lambda kind: [name for name in ACTIONS if name.startswith(kind + ": ")]
