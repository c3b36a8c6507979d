# SPDX-License-Identifier: Apache-2.0
"""Suite H where names are judged: programs that make, replace and remove many files.

git is in test_names_git.py, Python's libraries in test_software.py.
"""

from __future__ import annotations

import harness
import pytest
from box import Box, make_settings
from names_hand import hand

WORK = {
    "archives": """
        mkdir -p tree/a/b; for n in $(seq 200); do echo $n >tree/a/b/$n; done; ln -s a tree/link
        mkfifo tree/fifo; tar -czf t.tar.gz tree; mkdir out; tar -C out -xpf t.tar.gz
        test -p out/tree/fifo; rm tree/fifo out/tree/fifo; diff -r tree out/tree
        cp -a tree copy; diff -r tree copy; rm -r tree out copy
        /usr/bin/python3 -c 'import shutil; shutil.make_archive("z", "zip", "."); import zipfile
zipfile.ZipFile("z.zip").extractall("unzipped")'
        """,
    "atomic saves": """
        echo one >file; sed -i s/one/two/ file; test "$(cat file)" = two
        cp file file~; echo three >.file.new; mv -f .file.new file; ln file second; cp -l file third
        /usr/bin/python3 -c 'import os, tempfile
for n in range(100):
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as f:
        f.write(str(n)); f.flush(); os.fsync(f.fileno())
    os.replace(f.name, "file")'
        test "$(cat file)" = 99; install -m 755 file installed; test -x installed
        touch -d yesterday file; truncate -s 3 file; test $(stat -c %s file) = 3; rm -f file
        """,
    "make": """
        printf 'all: a b\\n%%: %%.in\\n\\tcp $< $@\\n' >Makefile; echo a >a.in; echo b >b.in
        make -sj2; test -f a -a -f b; make -s; printf 'int main(void) { return 0; }\\n' >x.c
        cc -o x x.c; ./x
        """,
    "SQLite": """
        /usr/bin/python3 -c 'import sqlite3
for mode in ("delete", "truncate", "persist", "wal"):
    c = sqlite3.connect(mode + ".db")
    c.execute("PRAGMA journal_mode=" + mode)
    c.execute("CREATE TABLE t (x)")
    for n in range(100):
        with c: c.execute("INSERT INTO t VALUES (?)", (n,))
    assert c.execute("SELECT sum(x) FROM t").fetchone() == (4950,)
    c.execute("VACUUM"); c.close()'
        """,
    "an environment": """
        /usr/bin/python3 -m venv --without-pip --symlinks env; env/bin/python -c 'import sys
assert sys.prefix.endswith("/env")'; env/bin/python -m compileall -q env; rm -r env
        """,
    "pip": """
        /usr/bin/python3 -m venv env
        mkdir -p source/things; cd source
        for n in $(seq 300); do echo "n = $n" >things/m$n.py; done
        echo 'def run(): pass' >>things/m1.py
        printf '[project]\\nname = "things"\\nversion = "1"\\n
scripts.thing = "things.m1:run"\\n
[build-system]\\nrequires = []\\nbuild-backend = "backend"\\n
backend-path = ["."]\\n' >pyproject.toml
        cat >backend.py <<'END'
import pathlib, zipfile
def build_wheel(directory, *_):
    name, info = "things-1-py3-none-any.whl", "things-1.dist-info/"
    with zipfile.ZipFile(pathlib.Path(directory, name), "w") as wheel:
        for path in pathlib.Path("things").iterdir(): wheel.write(path)
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: things\\nVersion: 1\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(info + "entry_points.txt", "[console_scripts]\\nthing = things.m1:run\\n")
        wheel.writestr(info + "RECORD", "")
    return name
END
        cd ..; pip() { env/bin/python -m pip --disable-pip-version-check "$@"; }
        pip wheel -q --no-index --no-cache-dir -w wheels ./source
        pip install -q --no-index --no-cache-dir wheels/*.whl; env/bin/thing
        env/bin/python -c 'from things.m300 import n; assert n == 300'
        pip install -q --no-index --no-cache-dir --force-reinstall wheels/*.whl
        pip uninstall -qy things; ! test -e env/bin/thing
        """,
    "processes": """
        cat >m.py <<'END'
import asyncio, multiprocessing
from multiprocessing import Manager, Pool, shared_memory
def double(n): return 2 * n
async def talk():
    async def serve(reader, writer):
        writer.write(await reader.readline()); writer.close()
    server = await asyncio.start_unix_server(serve, "/tmp/x.sock")
    reader, writer = await asyncio.open_unix_connection("/tmp/x.sock")
    writer.write(b"hello\\n")
    assert await reader.readline() == b"hello\\n"
    writer.close(); server.close()
if __name__ == "__main__":
    with Pool(2) as pool: assert pool.map(double, range(3)) == [0, 2, 4]
    with Manager() as manager: assert list(manager.list([1])) == [1]
    memory = shared_memory.SharedMemory(create=True, size=99); memory.close(); memory.unlink()
    asyncio.run(talk())
END
        /usr/bin/python3 m.py
        """,
}


@pytest.mark.parametrize("deny_read", [[], ["**/*.key"]], ids=["writes", "all"])
@pytest.mark.parametrize("work", WORK)
def test_work(box: Box, user: str, work: str, deny_read: list[str]) -> None:
    done = box(["bash", "-exc", WORK[work]], make_settings(denyRead=deny_read), user=user)
    assert done.returncode == 0, done.stderr


NPM = """
    export HOME=$PWD/home PATH={path}:$PATH npm_config_update_notifier=false
    mkdir -p home tool/lib project; cd tool
    for n in $(seq 300); do echo "module.exports = $n" >lib/$n.js; done
    echo '{{"name": "tool", "version": "1.0.0", "bin": "tool.js", "files": ["lib", "tool.js"]}}' \
        >package.json
    printf '#!/usr/bin/env node\\nconsole.log(require("./lib/300"))\\n' >tool.js
    npm pack --silent --pack-destination ..; cd ../project
    npm init -y >/dev/null; npm install --offline --no-audit --no-fund ../tool-1.0.0.tgz
    test "$(node_modules/.bin/tool)" = 300; test "$(npm exec --offline tool)" = 300
    rm -r node_modules; npm ci --offline --no-audit --no-fund; npm uninstall --no-audit tool
    test ! -e node_modules/.bin/tool
"""


@pytest.mark.parametrize("deny_read", [[], ["**/*.key"]], ids=["writes", "all"])
def test_npm(box: Box, deny_read: list[str]) -> None:
    """As root: an ordinary user does not see where the tests keep npm."""
    work = NPM.format(path=harness.CACHE / "node/bin")
    done = box(["bash", "-exc", work], make_settings(denyRead=deny_read))
    assert done.returncode == 0, done.stderr


# Files below /proc: what they lead to without a sandbox is not for the tests to change.
REFUSED = {
    "/proc/1/mem": "EACCES",
    "/proc/1/environ": "EACCES",
    "/proc/1/comm": "EACCES",
    "/proc/1/oom_score_adj": "EACCES",
    "/proc/sys/kernel/core_pattern": "EACCES",
}


@pytest.mark.parametrize("deny_read", [[], ["**/*.key"]], ids=["writes", "all"])
def test_files_of_other_processes(box: Box, user: str, deny_read: list[str]) -> None:
    """The supervisor opens nothing for a caller that the caller could not open itself."""
    with hand(box, make_settings(denyRead=deny_read), user=user) as inside:
        (pid,) = inside("pid")
        found = {path: inside("open", path, 2) for path in REFUSED}
        assert set(found.values()) <= {"EACCES", "EROFS", "EPERM", "ENOENT"}, found
        for name in ("mem", "environ"):
            assert inside("open", f"/proc/1/{name}", 0) in {"EACCES", "EPERM"}
        assert inside("write", f"/proc/{pid}/comm", "named") == "ok"
        assert inside("read", "/proc/self/comm") == ["named\n"]
        # It is as high as it can be.
        assert inside("read", "/proc/self/oom_score_adj") == ["1000\n"]
        for value in ("0", "999", "-1000"):
            assert inside("write", "/proc/self/oom_score_adj", value) == "EACCES"
        assert inside("read", "/proc/self/oom_score_adj") == ["1000\n"]
