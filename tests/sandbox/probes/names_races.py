# SPDX-License-Identifier: Apache-2.0
"""Many attempts in a row, while the host or another thread changes names; follows hand.py."""

import threading

# A call of Python's interpreter hands the lock over, so that another thread runs in between.
sys.setswitchinterval(0.0001)


def tried(action, *args):
    try:
        return action(*args) or True
    except OSError:
        return None


def storm(names, rounds):
    """Tries to change and to read each name. Counts what worked, and what was read of the host."""
    changed = secrets = 0
    for _ in range(rounds):
        for name in names:
            changed += tried(append, name) is not None
            changed += tried(create, name) is not None
            changed += tried(replace, name) is not None
            found = tried(read, name)
            secrets += found is not None and "secret" in found[0]
    return [changed, secrets]


class NameSwapper:
    """Two names that a thread exchanges all the time."""

    def __init__(self, first, second):
        self.names = (text(first), text(second))
        self.is_done = False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        first, second = self.names
        while not self.is_done:
            libc.renameat2(AT_FDCWD, first, AT_FDCWD, second, EXCHANGE)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_done = True
        self.thread.join()


def swap_names(first, second, path, times):
    """Writes to a path while a second thread exchanges two names on the way to it."""
    worked = refused = 0
    with NameSwapper(first, second):
        for _ in range(times):
            try:
                put(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
                worked += 1
            except OSError:
                refused += 1
    return [worked, refused]


def read_while_names_swap(first, second, path, times):
    found = set()
    with NameSwapper(first, second):
        for _ in range(times):
            got = tried(read, path)
            if got is not None:
                found.add(got[0])
    return sorted(found)


ACTIONS |= {
    "storm": storm,
    "swap_names": swap_names,
    "read_while_names_swap": read_while_names_swap,
}
