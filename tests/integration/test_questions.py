# SPDX-License-Identifier: Apache-2.0
"""Questions at the terminal.

What a person approves is exactly what runs, and nothing else is on the screen until the answer.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys

import pytest
import scripted_server
from terminal import Terminal

ALLOW = "[a]lways for this tool: "
ALLOW_PAGED = "[a]lways for this tool, [v]iew again: "
MORE = "[Enter] more, [n]o: "
ENTER = "Press Enter to see it: "

BEGIN = """
from mcptools.fake import CLIENT
import asyncio, threading

def call(tool="echo_json", **arguments):
    try:
        return CLIENT.run_sync(tool, arguments)
    except Exception as error:
        return type(error).__name__

def say(name):
    open(name, "w").close()

def wait_for(name):
    open(name).read()
"""


@pytest.fixture
def run(ipybox, place, run_ipybox):
    """run(code, …) is a Terminal in which the cell runs."""
    params = scripted_server.params("results", "prompt-tool", "log=calls")
    done = run_ipybox("apigen", "--server-name", "fake", "--server-params", json.dumps(params))
    assert done.returncode == 0, done.stderr
    terminals = []

    def start(code: str, *options: str, **kinds) -> Terminal:
        terminals.append(Terminal([ipybox, "run", *options, "-c", BEGIN + code], place, **kinds))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.__exit__()


@pytest.fixture
def fifo(workspace):
    """fifo(name, …) makes pipes between the test and the cell."""

    def make(*names: str) -> None:
        for name in names:
            os.mkfifo(workspace / name)

    return make


def question(terminal: Terminal, end: str = ALLOW) -> str:
    """The text of the question, without the terminal's reset and line ends."""
    before = terminal.expect(end)
    return before[before.index("Tool call: ") :].replace("\r\n", "\n").rpartition("\n")[0]


def refuse(terminal: Terminal, expected: str = "") -> None:
    """Answers no to the last question; the cell prints what is expected and ends well."""
    answer(terminal, "n", expected)


def allow(terminal: Terminal, expected: str = "") -> None:
    answer(terminal, "y", expected)


def answer(terminal: Terminal, key: str, expected: str) -> None:
    terminal.type(key + "\n")
    if expected:
        terminal.expect(expected)
    assert terminal.wait() == 0


# What is shown


def test_the_canonical_form(run):
    value = "é\n\x1b[2J\u202e\u200b\U000e0041\u00ad" + "e\u0301"
    terminal = run(f"print(call(value={value!r}, PaTh=[1, {{'n': 2**70}}]))")
    text = question(terminal)
    assert text == (
        "Tool call: fake.echo_json\nArguments:\n"
        '  "value": "é\\n\\u001b[2J\\u202e\\u200b\\udb40\\udc41\\u00ade\\u0301"\n'
        '  "PaTh": [1, {"n": 1180591620717411303424}]'
    )
    refuse(terminal, "ApprovalRejectedError")


def test_what_is_shown_is_what_runs(run):
    terminal = run("print(call(value={'a': 0.1, 'b': 'é'})['text'])")
    text = question(terminal)
    terminal.type("y\n")
    sent = terminal.expect("}}") + "}}"
    shown = "{" + text.partition("Arguments:\n")[2].strip() + "}"
    assert json.loads(shown) == json.loads(sent[sent.index("{") :])
    assert terminal.wait() == 0


def test_no_argument_looks_like_a_line_of_its_own(run):
    """On a narrow screen the text would break where another line seems to begin."""
    value = (
        "x" * 40 + "Tool call: fake.pid" + " " * 21 + "Arguments: none" + " " * 25 + "Allow? [y]es"
    )
    terminal = run(f"call(value={value!r})", columns=20)
    rows = question(terminal).split("\n")
    assert rows[:2] == ["Tool call: fake.echo", "  : _json"]
    assert rows[2] == "Arguments:" and all(len(row) <= 20 for row in rows)
    assert rows[3].startswith('  "value": "x') and all(row.startswith("  : ") for row in rows[4:])
    assert "".join(row[4:] for row in rows[4:]).endswith("Allow? [y]es" + '"')
    refuse(terminal)


def test_names_of_tools_are_quoted(run):
    terminal = run("call('pid   Allow? [y]es, [n]o: y')")
    assert question(terminal) == 'Tool call: fake."pid   Allow? [y]es, [n]o: y"\nArguments: none'
    refuse(terminal)


@pytest.mark.parametrize(
    ("locale", "shown"),
    [
        ("C", '"\\u00e9\\u20ac\\ud83d\\ude00"'),
        ("de_DE.ISO-8859-1", '"\\u00e9\\u20ac\\ud83d\\ude00"'),
        ("xx_YY.utf8", '"é€😀"'),
    ],
)
def test_terminals_of_other_character_sets(run, locale, shown):
    terminal = run("call(value='é€😀')", LC_ALL=locale)
    assert question(terminal).endswith(f'"value": {shown}')
    refuse(terminal)


def test_a_dumb_terminal(run):
    terminal = run("call(value=1); call(value='x' * 5000)", TERM="dumb")
    assert "\x1b" not in terminal.expect(ALLOW)
    terminal.type("y\n")
    assert "\x1b" not in terminal.expect(MORE)
    terminal.type("n\n")
    assert terminal.wait() == 0 and "\x1b" not in terminal.seen


# All of it


def test_a_yes_counts_only_after_all_was_shown(run):
    terminal = run("print(type(call(value='x' * 5000 + 'END')))")
    seen = question(terminal, MORE)
    for answer in ("y", "yes", "a", "?"):
        terminal.type(answer + "\n")
        terminal.expect("Not all of it was shown yet. " + MORE)
    for _ in range(2):
        terminal.type("\n")
        seen += terminal.expect(MORE)
    terminal.type("\n")
    seen += terminal.expect(ALLOW_PAGED)
    assert seen.count("x") == 5000 and 'END"' in seen
    allow(terminal, "<class 'dict'>")


def test_the_question_again(run):
    terminal = run("print(call(value='x' * 2000))", rows=20)
    terminal.expect(MORE)
    terminal.type("\n")
    terminal.expect(ALLOW_PAGED)
    terminal.type("v\n")
    assert question(terminal, MORE).startswith("Tool call: fake.echo_json")
    terminal.type("y\n")  # shown again, it must be read again
    terminal.expect("Not all of it")
    refuse(terminal, "ApprovalRejectedError")


def test_ten_thousand_arguments(run):
    terminal = run("print(call(**{f'argument_{i}': i for i in range(10_000)}))")
    assert "of 10002 lines" in terminal.expect(MORE)
    refuse(terminal, "ApprovalRejectedError")


def test_what_nobody_reads_is_refused(run):
    terminal = run("print(call(value='x' * (1 << 20)))\nprint(type(call('pid')))")
    terminal.expect("A tool call was refused: its question is too long to read.")
    assert "ApprovalRejectedError" in terminal.expect(ALLOW)
    allow(terminal, "<class 'str'>")


# Nothing else


HOLD = """
answers = []
thread = threading.Thread(target=lambda: answers.append(call("pid").isdigit()))
thread.start()
wait_for("asked")
"""


def test_output_is_held_back_while_a_question_stands(run, fifo, workspace):
    fifo("asked", "printed")
    terminal = run(
        HOLD
        + """
import sys
print("on stdout", flush=True)
print("on stderr", file=sys.stderr, flush=True)
display("displayed")
say("printed")
thread.join()
print(*answers, "after")
"""
    )
    terminal.expect(ALLOW)
    (workspace / "asked").write_text("")
    (workspace / "printed").read_text()
    terminal.type("?\n")
    assert terminal.expect("Please answer") == "?\r\n"
    assert terminal.expect("y, n or a: ") == " "
    terminal.type("y\n")
    shown = terminal.expect("after")
    assert re.sub(r"\s+", " ", shown) == "y on stdout on stderr 'displayed' True "
    assert terminal.wait() == 0


def test_much_output_waits_and_is_whole(run, fifo, workspace):
    """It is more than ipybox holds back, so the kernel waits in its write."""
    fifo("asked")
    terminal = run(HOLD + "for i in range(400_000): print(i)\nthread.join()\nprint('after')")
    terminal.expect(ALLOW)
    (workspace / "asked").write_text("")
    terminal.type("y\n")
    lines = [line for line in terminal.expect("after").split("\r\n") if line.isdigit()]
    assert lines == [str(i) for i in range(400_000)]
    assert terminal.wait() == 0


def test_log_lines_are_held_back(run, fifo, workspace):
    """A server logs while there is a question about another call."""
    fifo("asked", "changed")
    terminal = run(
        HOLD + "call('change'); say('changed')\nthread.join()",
        "--approve",
        "rules.json",
        "--log-level",
        "ERROR",
    )
    terminal.expect(ALLOW)
    (workspace / "asked").write_text("")
    (workspace / "changed").read_text()
    terminal.type("?\n")
    assert terminal.expect("Please answer") == "?\r\n"
    allow(terminal, "spilled")


def test_a_flood_of_progress_is_counted(run, fifo, workspace):
    """The server does not wait, so not all of it is kept."""
    fifo("asked", "flooded")
    terminal = run(HOLD + "call('flood'); say('flooded')\nthread.join()", "--approve", "rules.json")
    terminal.expect(ALLOW)
    (workspace / "asked").write_text("")
    (workspace / "flooded").read_text()
    terminal.type("y\n")
    notice = r"(\d+) lines of servers and notices were dropped while a question was waiting"
    n_left_out = int(terminal.find(re.compile(notice))[1])
    assert 0 < n_left_out < 2000
    assert terminal.wait() == 0


@pytest.fixture(autouse=True)
def rules(workspace):
    (workspace / "rules.json").write_text(
        '{"default": "ask", "rules": [{"tool": "change", "decision": "allow"}, {"tool": '
        '"flood", "decision": "allow"}]}'
    )


def test_a_cell_that_ends_while_its_thread_asks(run, fifo, workspace):
    fifo("asked")
    terminal = run(HOLD + "print('the end')")
    terminal.expect(ALLOW)
    (workspace / "asked").write_text("")
    terminal.expect("(no longer asked)\r\nthe end\r\n")
    assert terminal.wait() == 0


# The answer is to what was shown


def test_what_was_typed_before_is_no_answer(run, fifo, workspace):
    fifo("go")
    terminal = run("print('ready', flush=True); wait_for('go'); print(call('pid'))")
    terminal.expect("ready\r\n")
    terminal.type("y\ny\nyes")  # two whole lines, and the beginning of one
    terminal.expect("y\r\ny\r\nyes")
    (workspace / "go").write_text("")
    terminal.expect(ALLOW)
    terminal.type("\n")
    terminal.expect("Please answer y, n or a: ")
    refuse(terminal, "ApprovalRejectedError")


def test_one_answer_is_for_one_question(run):
    """Several threads ask at once. Text that is pasted after an answer is ignored."""
    terminal = run("""
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(3) as pool:
    results = pool.map(lambda i: call("two_texts"), range(3))
    print(sorted(type(result).__name__ + str(result)[:8] for result in results))
""")
    for answer in ("n\ny\ny\n", "y\n", "n\n"):
        terminal.expect(ALLOW)
        terminal.type(answer)
    assert terminal.expect("]").count("Approval") == 2
    assert terminal.wait() == 0


WITHDRAWN = """
async def race():
    task = asyncio.create_task(CLIENT.run("pid", {}))
    await asyncio.to_thread(wait_for, "asked")
    task.cancel()
    await asyncio.wait([task])
    return await asyncio.to_thread(call, "two_texts")

print(type(await race()), "done")
"""


def test_the_answer_to_a_withdrawn_question_is_for_no_other(run, fifo, workspace):
    """The user types "y" for one call, when it is cancelled and another question appears."""
    fifo("asked")
    terminal = run(WITHDRAWN.replace("type(await race())", "await race()"))
    assert "fake.pid" in terminal.expect(ALLOW)
    terminal.type("y")
    terminal.expect("y")
    (workspace / "asked").write_text("")
    terminal.expect("(no longer asked)\r\n")
    terminal.expect(ENTER)
    terminal.type("\n")  # the rest of the answer
    assert "fake.two_texts" in terminal.expect(ALLOW)
    refuse(terminal, "ApprovalRejectedError done")


def test_a_whole_answer_to_a_withdrawn_question(run, fifo, workspace):
    fifo("asked")
    terminal = run(WITHDRAWN)
    terminal.expect(ALLOW)
    (workspace / "asked").write_text("")
    terminal.expect(ENTER)
    terminal.type("y\n")
    terminal.expect(ENTER)
    terminal.type("\n")
    assert "fake.two_texts" in terminal.expect(ALLOW)
    allow(terminal, "<class 'str'> done")


SOME_WITHDRAWN = """
import random
randomness = random.Random(SEED)

async def ask(n):
    await asyncio.sleep(randomness.random() / 4)
    task = asyncio.create_task(CLIENT.run("echo_json", {"n": n}))
    done, waiting = await asyncio.wait([task], timeout=randomness.choice([0.02, 0.2, 30]))
    for task in waiting:
        task.cancel()
    await asyncio.wait([task])
    return bool(done) and not task.exception()

print("these ran:", [n for n, ran in enumerate(await asyncio.gather(*map(ask, range(40)))) if ran])
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_races_of_answers_and_withdrawals(run, workspace, seed):
    """The user allows calls with even numbers.

    No call with an odd number ever runs, whatever is withdrawn while they type.
    """
    terminal = run(SOME_WITHDRAWN.replace("SEED", str(seed)))
    what_comes = re.compile(
        r'"n": (\d+)\r\n(?:.*\r\n)*?Allow\?.*tool: |Press Enter to see it: |these ran: (\[.*\])\r\n'
    )
    n_allowed = 0
    while not (found := terminal.find(what_comes))[2]:
        if found[1]:
            n_allowed += int(found[1]) % 2 == 0
            terminal.type("n\n" if int(found[1]) % 2 else "y\n")
        else:
            terminal.type("\n")
    ran = json.loads(found[2])
    assert ran and n_allowed >= len(ran) and not [n for n in ran if n % 2]
    sent = [
        json.loads(line)["params"]["arguments"]["n"]
        for line in (workspace / "calls").read_text().splitlines()
    ]
    assert not [n for n in sent if n % 2] and set(ran) <= set(sent)
    assert terminal.wait() == 0


def test_a_question_that_a_cell_prints(run, fifo, workspace):
    """The user answers it. The answer counts for no question of ours."""
    fifo("go")
    printed = (
        "Tool call: time.convert_time\nArguments: none\n"
        "Allow? [y]es, [n]o, [a]lways for this tool: "
    )
    terminal = run(f"print({printed!r}, end='', flush=True); wait_for('go'); print(call('pid'))")
    terminal.expect(ALLOW)
    terminal.type("a\n")
    terminal.expect("a\r\n")
    (workspace / "go").write_text("")
    assert "Tool call: fake.pid" in terminal.expect(ALLOW)
    refuse(terminal, "ApprovalRejectedError")


def test_nothing_is_asked_after_the_end(run, fifo, workspace):
    """Threads of the cell ask again and again. Their last calls fail, which they may print."""
    fifo("asked")
    terminal = run("""
def ask():
    while True:
        call("pid")

for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
wait_for("asked")
print("the end")
""")
    terminal.expect(ALLOW)
    (workspace / "asked").write_text("")
    assert terminal.wait() == 0
    assert terminal.seen.startswith("(no longer asked)\r\nthe end\r\n")
    assert "Tool call" not in terminal.seen


def test_always_is_said_of_one_tool(run):
    terminal = run("print(call('pid').isdigit(), call('pid').isdigit(), call('two_texts'))")
    terminal.expect(ALLOW)
    terminal.type("a\n")
    assert "two_texts" in terminal.expect(ALLOW)
    terminal.type("n\n")
    terminal.expect("True True ApprovalRejectedError")
    assert terminal.wait() == 0


def test_always_is_said_of_one_command(run):
    """A cell names servers by their parameters, as packages made by mcpygen do.

    The cell chooses the name.
    """
    fake = scripted_server.arguments("results")
    terminal = run(
        f"""
import json, os, urllib.request

def post(*args):
    params = {{"command": {sys.executable!r}, "args": [*{fake!r}, *args]}}
    body = {{"server_name": "fake", "server_params": params, "tool_name": "pid", "tool_args": {{}}}}
    url = f"http://{{os.environ['TOOL_SERVER_HOST']}}:{{os.environ['TOOL_SERVER_PORT']}}/run"
    headers = {{"Content-Type": "application/json"}}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return "result" in json.load(urllib.request.urlopen(request))

print(call("pid").isdigit(), post("log=one"), post("log=one"), post("log=two\\u200b"))
""",
        "--no-sandbox",
    )
    assert "Server" not in question(terminal)
    terminal.type("a\n")
    assert question(terminal).partition("\n")[2].startswith("Server that is not registered:\n")
    terminal.type("a\n")
    assert 'log=two\\u200b"]' in question(terminal).replace("\n  : ", "")
    terminal.type("n\n")
    terminal.expect("True True True False")
    assert terminal.wait() == 0


def test_questions_that_time_out_one_after_the_other(run):
    """Without a user each is withdrawn, and none is answered."""
    terminal = run("print([call('pid') for i in range(3)])", "--approval-timeout", "0.3")
    terminal.expect(ALLOW)
    terminal.expect(ENTER)
    terminal.expect("['ApprovalTimeoutError', 'ApprovalTimeoutError', 'ApprovalTimeoutError']")
    assert terminal.wait() == 0


# The terminal


@pytest.mark.parametrize("options", [[], ["--no-sandbox"]])
def test_cells_have_no_terminal(run, options):
    """Neither have their children.

    Without a sandbox, code can open every terminal of its user by its path.
    """
    terminal = run(
        """
import subprocess
for who in ("cell", "child"):
    command = "exec 9<>/dev/tty" if who == "child" else ""
    try:
        if who == "cell":
            open("/dev/tty")
        else:
            subprocess.run(["sh", "-c", command], check=True, capture_output=True)
        print(who, "has it")
    except (OSError, subprocess.CalledProcessError):
        print(who, "has none")
print("who asks", call("terminal"))
""",
        *options,
    )
    terminal.expect("cell has none")
    terminal.expect("child has none")
    terminal.expect(ALLOW)
    allow(terminal, "who asks none")


def test_colours_left_by_others_are_reset(run):
    """A program in a pipe with ipybox may have set them; they could hide the question."""
    terminal = run("call('pid')")
    assert "\x1b[0m\x1b(B\x0f\r\nTool call: " in terminal.expect(ALLOW)
    refuse(terminal)


def test_a_resized_terminal_shows_the_question_again(run):
    terminal = run("print(call(value='x' * 100))")
    assert question(terminal).count("\n") == 3
    terminal.resize(40, 24)
    assert question(terminal).count("\n") == 5
    terminal.resize(40, 5)  # it does not fit
    terminal.expect(MORE)
    terminal.type("y\n")
    terminal.expect("Not all of it was shown yet")
    refuse(terminal, "ApprovalRejectedError")


@pytest.mark.parametrize("keys", ["\x04", "y\x04\x04"])
def test_the_end_of_input_is_a_no(run, keys):
    terminal = run("print(call('pid'), call('pid'))")
    terminal.expect(ALLOW)
    terminal.type(keys)
    terminal.expect("(end of input: calls that need an answer are refused from now on)\r\n")
    terminal.expect("ApprovalRejectedError ApprovalRejectedError")
    assert terminal.wait() == 0


def test_an_interrupt_ends_questions_of_threads(run, fifo, workspace):
    """The main thread is blocked in its output, which is held back."""
    fifo("asked")
    terminal = run(HOLD + "while True: print('x' * 1000)")
    terminal.expect(ALLOW)
    (workspace / "asked").write_text("")
    terminal.type("\x03")
    terminal.expect("(no longer asked)")
    assert terminal.wait() == 130


def test_a_terminal_that_goes_away(run):
    terminal = run("call('pid')")
    terminal.expect(ALLOW)
    os.close(terminal.fd)
    _, status = os.waitpid(terminal.pid, 0)
    terminal.status = os.waitstatus_to_exitcode(status)
    assert terminal.status in (-signal.SIGHUP, 1, 128 + signal.SIGHUP)


def test_a_line_that_is_no_answer(run):
    terminal = run("print(call('pid'))")
    for line in ("yy", "y" * 4000, "\x1b[A", "ja"):
        terminal.expect("a: " if line != "yy" else ALLOW)
        terminal.type(line + "\n")
    terminal.expect("y, n or a: ")
    refuse(terminal, "ApprovalRejectedError")
