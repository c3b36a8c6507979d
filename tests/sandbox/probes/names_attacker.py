# SPDX-License-Identifier: Apache-2.0
"""For test_names_attacker.py: what the hand can do in addition (see hand.py)."""

import fcntl
import threading


def flock(path):
    """Locks a directory, and keeps it locked."""
    fcntl.flock(os.open(path, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_EX | fcntl.LOCK_NB)


def go_down(depth):
    for _ in range(depth):
        os.makedirs("t", exist_ok=True)
        os.chdir("t")


def create_until(path, end):
    """Creates a file and removes it again, until there is a file called @end."""
    while not os.path.exists(end):
        tried(create, path)
        tried(os.unlink, path)


def complete_repositories(times):
    """Renames "hk" to hooks, and makes a repository of the directory around them, and back.

    Returns how often the repository had a hook then.
    """
    won = 0
    os.mkdir("d")
    create("d/HEAD")
    for _ in range(times):
        os.rename("hk", "d/hooks")
        if tried(os.mkdir, "d/objects") == "ok":
            won += "pre-commit" in os.listdir("d/hooks")
            if won:
                break
            os.rmdir("d/objects")
        tried(os.unlink, "d/hooks/pre-commit")
        os.rename("d/hooks", "hk")
    create("end")
    return [won]


def bind_while_it_changes(own, wanted, times):
    """Binds sockets to @own while a thread writes @wanted to the address."""
    header = (1).to_bytes(2, "little")
    texts = [header + os.fsencode(path) + b"\0" for path in (own, wanted)]
    room = ctypes.create_string_buffer(110)
    done = []

    def flip():
        while not done:
            for each in texts:
                ctypes.memmove(room, each, len(each))

    thread = threading.Thread(target=flip)
    thread.start()
    made = False
    for _ in range(times):
        with socket.socket(socket.AF_UNIX) as unix:
            libc.bind(unix.fileno(), room, 110)
        tried(os.unlink, own)
        made = os.path.lexists(wanted)
        if made:
            break
    done.append(True)
    thread.join()
    return [made]


def tried(function, *args):
    try:
        function(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


ACTIONS |= {
    "flock": flock,
    "go_down": go_down,
    "create_until": create_until,
    "complete_repositories": complete_repositories,
    "bind_while_it_changes": bind_while_it_changes,
}
