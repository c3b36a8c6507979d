# SPDX-License-Identifier: Apache-2.0
"""`ipybox rpc` under a random mix of requests.

Each request is answered once, in a way that the model allows.
"""

from __future__ import annotations

import random

import pytest
import scripted_server
from rpc_driver import RpcCore

FAKE = scripted_server.params("results")
SESSIONS = 12
STEPS = 250

# Code, and the statuses that it ends with if nothing interferes.
CELLS = {
    "x = globals().get('x', 0) + 1; print(x)": {"ok"},
    "1 / 0": {"error"},
    "while True: pass": {"timeout"},
    "print('y' * 200_000)": {"ok"},
    "import os; os._exit(1)": {"lost"},
    "from mcptools.fake import two_texts as t; print(t.run(t.Params()))": {"ok", "error"},
    "await __import__('asyncio').sleep(0.01)": {"ok"},
}
# The statuses of a cell after an interference, besides its own.
BY = {
    "cancel": {"cancelled"},
    "interrupt": {"interrupted", "error"},
    "reset": {"lost"},
    "close": {"lost"},
}


class Model:
    def __init__(self, core: RpcCore, chance: random.Random):
        self.core, self.chance = core, chance
        self.sessions: list[str] = []
        self.cells: dict[
            int, tuple[str, set[str]]
        ] = {}  # id → session, statuses that it may end with
        self.others: dict[int, str] = {}  # id → method
        self.answered: set[int] = set()

    def request(self, method: str, **params) -> None:
        self.others[self.core.request(method, **params)] = method

    def interfere(self, by: str, cells: list[int]) -> None:
        for id in cells:
            self.cells[id][1].update(BY[by])

    def of_session(self, session: str) -> list[int]:
        return [id for id, (owner, _) in self.cells.items() if owner == session]

    def step(self) -> None:
        if len(self.sessions) < SESSIONS:
            self.sessions.append(
                self.core.open(approval=self.chance.choice(["ask", "allow", "deny"]))
            )
        session = self.chance.choice(self.sessions)
        mine = self.of_session(session)
        what = self.chance.choices(
            ["execute", "cancel", "interrupt", "reset", "close", "pause", "start"],
            [60, 8, 4, 4, 2, 4, 4],
        )[0]
        if what == "execute":
            code = self.chance.choice(list(CELLS))
            timeout = 0.05 if code.startswith("while") else None
            events = self.chance.random() < 0.5
            id = self.core.request(
                "session.execute", session=session, code=code, timeout=timeout, events=events
            )
            self.cells[id] = (session, set(CELLS[code]))
        elif what == "cancel" and self.cells:
            id = self.chance.choice(list(self.cells))
            self.interfere("cancel", [id])
            self.core.notify("session.cancel", request=id)
        elif what == "interrupt":
            self.interfere("interrupt", mine)
            # An interruption by the client is one of these ends, too.
            for id in mine:
                self.cells[id][1].add("cancelled")
            self.request("session.interrupt", session=session)
        elif what == "reset":
            self.interfere("reset", mine)
            self.request("session.reset", session=session)
        elif what == "close":
            self.interfere("close", mine)
            self.sessions.remove(session)
            self.request("session.close", session=session)
        elif what == "pause":
            self.core.notify("session.pause", session=session)
            self.core.notify("session.resume", session=session)
        elif what == "start":
            self.request("session.start", session=session)

    def check(self) -> None:
        """Removes the answered requests from the model."""
        for id in list(self.core.answers):
            answer = self.core.answers.pop(id)
            assert id not in self.answered, f"answered twice: {answer}"
            self.answered.add(id)
            if id in self.cells:
                _, statuses = self.cells.pop(id)
                assert answer["result"]["status"] in statuses, (answer, statuses)
            else:
                method = self.others.pop(id)
                # A kernel may be reset while the test waits for it.
                assert "result" in answer or method == "session.start", (method, answer)
        self.core.notifications.clear()


@pytest.mark.parametrize("seed", [1, 2])
def test_everything_at_once(ipybox, place, seed):
    chance = random.Random(seed)
    with RpcCore(ipybox, place) as core:
        core.on_approval = lambda params: chance.random() < 0.5
        core.call(
            "sources.generate",
            server_name="fake",
            server_params=FAKE,
            root_dir=core.workspace + "/mcptools",
        )
        model = Model(core, chance)
        for _ in range(STEPS):
            model.step()
            while len(model.cells) + len(model.others) > 60:
                core.receive()
                model.check()
        while model.cells or model.others:
            core.receive()
            model.check()
        for session in model.sessions:
            assert core.execute(session, "1")["text"] == "1"
    with RpcCore(ipybox, place) as core:
        model = Model(core, chance)
        for _ in range(60):
            model.step()  # and the end in the middle
