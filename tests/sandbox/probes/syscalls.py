# SPDX-License-Identifier: Apache-2.0
"""Tries each system call that a sandbox denies, and similar harmless calls.

Each runs in a forked child, with arguments that do no harm if the call is not denied. Prints a JSON
object: name → name of the errno, "ok", or the signal that ended the child.
"""

import ctypes
import errno
import json
import mmap
import os
import signal
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# A pointer and a descriptor that are not valid.
BAD = 1
NONE = -1

DENIED = {
    "ptrace": (101, 16, 0x7FFFFFFF, 0, 0),
    "process_vm_readv": (310, 0x7FFFFFFF, BAD, 1, BAD, 1, 0),
    "process_vm_writev": (311, 0x7FFFFFFF, BAD, 1, BAD, 1, 0),
    "pidfd_getfd": (438, NONE, 0, 0),
    "kcmp": (312, 0x7FFFFFFF, 0x7FFFFFFF, 0, 0, 0),
    "bpf": (321, 0xFFFF, BAD, 16),
    "perf_event_open": (298, BAD, 0, 0, NONE, 0),
    "userfaultfd": (323, 0x7FFFFFFF),
    "io_uring_setup": (425, 1, BAD),
    "io_uring_enter": (426, NONE, 0, 0, 0, 0, 0),
    "io_uring_register": (427, NONE, 0x7FFFFFFF, 0, 0),
    "io_setup": (206, 0, BAD),
    "io_submit": (209, BAD, 1, BAD),
    "io_getevents": (208, BAD, 1, 1, BAD, 0),
    "io_pgetevents": (333, BAD, 1, 1, BAD, 0, 0),
    "io_cancel": (210, BAD, BAD, BAD),
    "io_destroy": (207, BAD),
    "init_module": (175, BAD, 0, BAD),
    "finit_module": (313, NONE, BAD, 0xFFFF),
    "delete_module": (176, BAD, 0),
    "create_module": (174, BAD, 0),
    "kexec_load": (246, 0, 0x7FFFFFFF, BAD, 0),
    "kexec_file_load": (320, NONE, NONE, 0, BAD, 0xFFFF),
    "modify_ldt": (154, 0x7FFF, BAD, 0),
    "iopl": (172, 99),
    "ioperm": (173, 0xFFFFFF, 1, 1),
    "keyctl": (250, 0x7FFF, 0, 0, 0, 0),
    "add_key": (248, BAD, BAD, 0, 0, 0),
    "request_key": (249, BAD, BAD, BAD, 0),
    "mount": (165, BAD, BAD, BAD, 0, 0),
    "umount2": (166, BAD, 0),
    "pivot_root": (155, BAD, BAD),
    "chroot": (161, BAD),
    "open_tree": (428, NONE, BAD, 0),
    "move_mount": (429, NONE, BAD, NONE, BAD, 0),
    "fsopen": (430, BAD, 0),
    "fsconfig": (431, NONE, 0x7FFF, 0, 0, 0),
    "fsmount": (432, NONE, 0x7FFF, 0),
    "fspick": (433, NONE, BAD, 0),
    "mount_setattr": (442, NONE, BAD, 0, BAD, 0),
    "open_tree_attr": (467, NONE, BAD, 0, BAD, 0),
    "landlock_create_ruleset": (444, 0, 0, 1),
    "setxattrat": (463, NONE, BAD, 0, BAD, BAD, 0),
    "removexattrat": (466, NONE, BAD, 0, BAD),
    "file_setattr": (469, NONE, BAD, BAD, 0, 0),
    "open_by_handle_at": (304, NONE, BAD, 0),
    "quotactl": (179, 0x7FFF, BAD, 0, 0),
    "quotactl_fd": (443, NONE, 0x7FFF, 0, 0),
    "swapon": (167, BAD, 0),
    "swapoff": (168, BAD),
    "nfsservctl": (180, 0, 0, 0),
    "uselib": (134, BAD),
    "ustat": (136, 0, BAD),
    "sysfs": (139, 0x7FFF, 0, 0),
    "_sysctl": (156, BAD),
    "lookup_dcookie": (212, 0, BAD, 0),
    "setns": (308, NONE, 0),
    "clone3": (435, BAD, 0),
    "acct": (163, BAD),
    "syslog": (103, 0x7FFF, 0, 0),
    "reboot": (169, 0, 0, 0, 0),
    "sethostname": (170, BAD, NONE),
    "setdomainname": (171, BAD, NONE),
    "settimeofday": (164, BAD, 0),
    "clock_settime": (227, 0x7FFF, BAD),
    "vhangup": (153,),
    "fanotify_init": (300, 0xFFFF, 0),
    "openat2": (437, NONE, BAD, BAD, 0),
    "from the future": (470, 0, 0, 0),
}

CLONE = {
    "NEWNS": 0x20000,
    "NEWCGROUP": 0x2000000,
    "NEWUTS": 0x4000000,
    "NEWIPC": 0x8000000,
    "NEWUSER": 0x10000000,
    "NEWPID": 0x20000000,
    "NEWNET": 0x40000000,
}

S_ISUID, S_ISGID = 0o4000, 0o2000
SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET = 1, 2, 3, 5
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK, AF_XDP = (
    1,
    2,
    10,
    16,
    17,
    38,
    40,
    44,
)
AT_FDCWD = -100
SIGCHLD = 17
PTY = os.openpty()[1]


def call(number, *args):
    """The errno, 0 if it worked."""
    padded = [ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *args)] + [
        ctypes.c_long(0)
    ] * (6 - len(args))
    return ctypes.get_errno() if libc.syscall(*padded) < 0 else 0


def clone(flags):
    result = libc.syscall(
        ctypes.c_long(56),
        ctypes.c_long(flags | SIGCHLD),
        ctypes.c_long(0),
        ctypes.c_long(0),
        ctypes.c_long(0),
    )
    if result == 0:
        os._exit(0)
    if result > 0:
        os.waitpid(result, 0)
    return ctypes.get_errno() if result < 0 else 0


def machine(code):
    """Runs machine code that returns a number."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    result = function()
    return -result if result < 0 else 0


def path(name):
    return ctypes.c_char_p(name.encode())


def make_checks():
    checks = {name: (lambda c=c: call(*c)) for name, c in DENIED.items()}
    for name, flag in CLONE.items():
        checks[f"unshare {name}"] = lambda f=flag: call(272, f)
        checks[f"clone {name}"] = lambda f=flag: clone(f)
    checks["unshare NEWTIME"] = lambda: call(272, 0x80)
    checks["ioctl TIOCSTI"] = lambda: call(16, PTY, 0x5412, ctypes.c_char_p(b"x"))
    checks["ioctl TIOCSTI, high bits"] = lambda: call(16, PTY, 0x100005412, ctypes.c_char_p(b"x"))
    checks["ioctl TIOCLINUX"] = lambda: call(16, PTY, 0x541C, ctypes.c_char_p(b"\3"))
    checks["ioctl TIOCSETD"] = lambda: call(16, PTY, 0x5423, ctypes.c_char_p(b"\0\0\0\0"))
    for bit, mode in (("setuid", S_ISUID | 0o644), ("setgid", S_ISGID | 0o644)):
        checks[f"chmod {bit}"] = lambda m=mode: call(90, path("file"), m)
        checks[f"fchmod {bit}"] = lambda m=mode: call(91, os.open("file", os.O_RDONLY), m)
        checks[f"fchmodat {bit}"] = lambda m=mode: call(268, AT_FDCWD, path("file"), m)
        checks[f"fchmodat2 {bit}"] = lambda m=mode: call(452, AT_FDCWD, path("file"), m, 0)
        checks[f"creat {bit}"] = lambda m=mode: call(85, path(f"creat{m}"), m)
        checks[f"mknod {bit}"] = lambda m=mode: call(133, path(f"mknod{m}"), m | 0o100000, 0)
        checks[f"mknodat {bit}"] = lambda m=mode: call(
            259, AT_FDCWD, path(f"mknodat{m}"), m | 0o100000, 0
        )
        checks[f"open {bit}"] = lambda m=mode: call(
            2, path(f"open{m}"), os.O_CREAT | os.O_WRONLY, m
        )
        checks[f"openat {bit}"] = lambda m=mode: call(
            257, AT_FDCWD, path(f"openat{m}"), os.O_CREAT | os.O_WRONLY, m
        )
        checks[f"openat O_TMPFILE {bit}"] = lambda m=mode: call(
            257, AT_FDCWD, path("."), os.O_TMPFILE | os.O_WRONLY, m
        )
    for name, family in (
        ("packet", AF_PACKET),
        ("alg", AF_ALG),
        ("vsock", AF_VSOCK),
        ("xdp", AF_XDP),
        ("bluetooth", 31),
        ("can", 29),
    ):
        checks[f"socket {name}"] = lambda f=family: call(
            41, f, SOCK_RAW if f != AF_ALG else SOCK_SEQPACKET, 0
        )
    checks["socket inet raw"] = lambda: call(41, AF_INET, SOCK_RAW, 1)
    checks["socket unix dgram"] = lambda: call(41, AF_UNIX, SOCK_DGRAM, 0)
    checks["socket unix dgram, high bits"] = lambda: call(41, 0x100000000 | AF_UNIX, SOCK_DGRAM, 0)
    checks["socket unix raw"] = lambda: call(41, AF_UNIX, SOCK_RAW, 0)
    checks["socketpair unix dgram"] = lambda: call(53, AF_UNIX, SOCK_DGRAM, 0, (ctypes.c_int * 2)())
    checks["socket netlink kobject"] = lambda: call(41, AF_NETLINK, SOCK_RAW, 15)
    checks["socket netlink netfilter"] = lambda: call(41, AF_NETLINK, SOCK_RAW, 12)
    checks["personality READ_IMPLIES_EXEC"] = lambda: call(135, 0x0400000)
    checks["personality LINUX32"] = lambda: call(135, 8)
    checks["personality UNAME26"] = lambda: call(135, 0x20000)
    # mov eax, number; system call; ret
    checks["x32"] = lambda: machine(b"\xb8\x27\x00\x00\x40\x0f\x05\xc3")
    checks["int80"] = lambda: machine(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    return checks


def make_twins():
    return {
        "getpid": lambda: call(39),
        "clone": lambda: clone(0),
        "unshare FILES": lambda: call(272, 0x400),
        "machine code": lambda: machine(b"\xb8\x27\x00\x00\x00\x0f\x05\x31\xc0\xc3"),
        "ioctl TIOCGWINSZ": lambda: call(16, PTY, 0x5413, ctypes.create_string_buffer(64)),
        "ioctl FIOCLEX": lambda: call(16, PTY, 0x5451, 0),
        "chmod": lambda: call(90, path("file"), 0o600),
        "chmod sticky": lambda: call(90, path("directory"), 0o1755),
        "fchmodat": lambda: call(268, AT_FDCWD, path("file"), 0o600),
        "open with garbage for a mode": lambda: call(2, path("file"), os.O_RDONLY, S_ISUID),
        "open O_CREAT": lambda: call(2, path("made"), os.O_CREAT | os.O_WRONLY, 0o600),
        "openat O_TMPFILE": lambda: call(
            257, AT_FDCWD, path("."), os.O_TMPFILE | os.O_WRONLY, 0o600
        ),
        "mknod fifo": lambda: call(133, path("fifo"), 0o010600, 0),
        "socket inet": lambda: call(41, AF_INET, SOCK_STREAM, 0),
        "socket inet udp": lambda: call(41, AF_INET, SOCK_DGRAM, 0),
        "socket inet6": lambda: call(41, AF_INET6, SOCK_STREAM, 0),
        "socket unix": lambda: call(41, AF_UNIX, SOCK_STREAM, 0),
        "socket unix seqpacket": lambda: call(41, AF_UNIX, SOCK_SEQPACKET, 0),
        "socketpair": lambda: call(53, AF_UNIX, SOCK_STREAM, 0, (ctypes.c_int * 2)()),
        "socket netlink route": lambda: call(41, AF_NETLINK, SOCK_RAW, 0),
        "personality asks": lambda: call(135, 0xFFFFFFFF),
        "personality 0": lambda: call(135, 0),
        "personality ADDR_NO_RANDOMIZE": lambda: call(135, 0x0040000),
        "memfd_create": lambda: call(319, path("m"), 0),
        "pidfd_open": lambda: call(434, os.getpid(), 0),
        "inotify_init1": lambda: call(294, 0),
        "eventfd2": lambda: call(290, 0, 0),
        "timerfd_create": lambda: call(283, 1, 0),
        "signalfd4": lambda: call(289, NONE, ctypes.create_string_buffer(8), 8, 0),
        "sched_setaffinity": lambda: call(203, 0, 8, ctypes.create_string_buffer(b"\xff" * 8, 8)),
        "membarrier": lambda: call(324, 0, 0, 0),
        "close_range": lambda: call(436, 500, 600, 0),
        "faccessat2": lambda: call(439, AT_FDCWD, path("file"), 0, 0),
        "statx": lambda: call(
            332, AT_FDCWD, path("file"), 0, 0xFFF, ctypes.create_string_buffer(256)
        ),
        "renameat2": lambda: call(316, AT_FDCWD, path("file"), AT_FDCWD, path("file"), 0),
        "copy_file_range": lambda: call(
            326, os.open("file", 0), 0, os.open("copy", os.O_CREAT | os.O_WRONLY), 0, 1, 0
        ),
        "getrandom": lambda: call(318, ctypes.create_string_buffer(8), 8, 0),
        "semget": lambda: call(64, 0, 1, 0o600),
        "shmget": lambda: call(29, 0, 4096, 0o600),
        "setpriority": lambda: call(141, 0, 0, 19),
    }


def outcome(check):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        # New mounts of a control must not appear in the caller's namespace.
        result = check()
        os.write(writer, (errno.errorcode.get(result, str(result)) if result else "ok").encode())
        os._exit(0)
    os.close(writer)
    text = os.read(reader, 100).decode()
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    return text or (
        signal.Signals(os.WTERMSIG(status)).name
        if os.WIFSIGNALED(status)
        else f"exit {os.WEXITSTATUS(status)}"
    )


def main():
    open("file", "w").write("text")
    os.makedirs("directory", exist_ok=True)
    results = {name: outcome(check) for name, check in make_checks().items()}
    results |= {f"twin: {name}": outcome(check) for name, check in make_twins().items()}
    json.dump(results, sys.stdout)


main()
