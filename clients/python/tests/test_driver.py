"""The driver does what its lines say."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

from conftest import Server

DRIVER = pathlib.Path(__file__).parent.parent / "driver" / "driver.py"


class Driver:
    def __init__(self, server: Server) -> None:
        env = {**os.environ, "DELAYQ_HTTP": server.url, "DELAYQ_TOKEN": server.token}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, DRIVER], stdin=pipe, stdout=pipe, env=env)
        self.number = 0
        self.events: list[dict[str, Any]] = []

    def __call__(self, do: str, **fields: Any) -> Any:
        self.number += 1
        line = {"n": self.number, "do": do, **fields}
        assert self.process.stdin
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            said = self.read()
            if said.get("n") == self.number:
                return said["ok"] if "ok" in said else said
            self.events.append(said)

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        text = self.process.stdout.readline()
        assert text, "the driver has ended"
        said: dict[str, Any] = json.loads(text)
        return said

    def event(self, name: str) -> dict[str, Any]:
        while True:
            for one in self.events:
                if one["event"] == name:
                    self.events.remove(one)
                    return one
            self.events.append(self.read())


def test_it_sends_finds_cancels_and_works(server: Server) -> None:
    driver = Driver(server)
    assert driver("app", grace="1s") == {}
    kind = "driver.first"
    sent = driver("send", type=kind, id="a", message={"do": "ok"}, after="1h")
    assert (sent["id"], sent["outcome"]) == ("a", "accepted")
    assert driver("find", type=kind, id="a")["state"] == "scheduled"
    assert driver("cancel", type=kind, id="a")["outcome"] == "cancelled"
    assert driver("find", type=kind, id="b") is None
    assert driver("cancel", type=kind, id="b")["error"]["kind"] == "not-found"

    assert driver("work", type=kind, concurrency=2) == {}
    answer = driver("send", type=kind, message={"do": "reply", "with": {"x": 1}}, wait="10s")
    assert (answer["reply"], answer["state"]) == ({"x": 1}, "done")
    assert driver.event("start")["message"] == {"do": "reply", "with": {"x": 1}}
    assert driver.event("end")["how"] == "returned"
    driver("send", type=kind, id="s", message={"do": "sleep", "for": "30s"})
    assert driver.event("start")["id"] == "s"
    assert driver("cancel", type=kind, id="s")["outcome"] == "running"
    sent = driver("send_many", items=[{"type": kind, "message": {"do": "ok"}}, {"type": "no type"}])
    assert sent[0]["outcome"] == "accepted" and sent[1]["error"]["kind"] == "bad-request"
    driver.process.send_signal(signal.SIGTERM)
    assert driver.process.wait(30) == 0
