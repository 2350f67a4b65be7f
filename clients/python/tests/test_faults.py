"""A worker whose server answers late, wrongly or not at all."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from delayq import App, Context, InvalidInput, Retry

Answer = Callable[[int], "str | float | int"]


class Server:
    """A server that has some tasks. `how` says what the nth request of a kind is answered: text,
    a status, or the seconds that the answer is late."""

    def __init__(self, tasks: list[str], **how: Answer) -> None:
        self.tasks, self.how = tasks, how
        self.seen: dict[str, list[str]] = {}
        self.guard = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                what = self.path.partition("?")[0].rpartition("/")[2]
                status, answer = outer.answer(what.replace("-", "_"), self.path + body.decode())
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, what: str, request: str) -> tuple[int, bytes]:
        with self.guard:
            seen = self.seen.setdefault(what, [])
            seen.append(request)
            number, ids = len(seen), []
            if what == "claim":
                ids, self.tasks = self.tasks[:1], self.tasks[1:]
        how = self.how.get(what, lambda n: "")(number)
        if isinstance(how, float):
            time.sleep(how)
        if isinstance(how, int):
            return how, b"no"
        if isinstance(how, str) and how:
            return 200, how.encode()
        more = {"fence": 1, "attempt": 1, "due_at": 0, "submitted_at": 0, "headers": {}}
        tasks = [{"type": "a", "id": id, "lock": "1-0", "message": "1", **more} for id in ids]
        return 200, json.dumps({"outcome": "extended", "tasks": tasks}).encode()


@pytest.fixture
def work() -> Iterator[Callable[..., Server]]:
    apps: list[App] = []

    def begin(tasks: list[str], handler: Callable[..., Any], **how: Answer) -> Server:
        server = Server(tasks, **{"claim": lambda n: 0.0 if n <= len(tasks) else 0.3, **how})
        app = App(server.url, "t", grace="100ms", patience="3s")
        app.task("a", lock="2s", retry=Retry(max=3))(handler)
        app.start()
        apps.append(app)
        return server

    yield begin
    for app in apps:
        app.close()


def until(what: Callable[[], object], seconds: float = 8) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("fault", [20.0, "<html>", 500, 503])
def test_one_bad_extension_does_not_cost_the_lock(
    work: Callable[..., Server], fault: str | float
) -> None:
    lost = []

    async def handler(cx: Context) -> None:
        cx.on_stop(lost.append)
        await asyncio.sleep(5)

    server = work(["x"], handler, extend=lambda n: fault if n == 1 else "")
    until(lambda: "done" in server.seen)
    assert not lost and len(server.seen["extend"]) >= 3


def test_a_handler_that_leaves_the_program_fails_and_the_next_one_runs(
    work: Callable[..., Server],
) -> None:
    async def handler(cx: Context) -> None:
        if cx.id == "x":
            sys.exit("no")

    server = work(["x", "y"], handler)
    until(lambda: "done" in server.seen)
    assert "SystemExit: no" in server.seen["fail"][0]


def test_an_end_that_is_refused_is_a_failure_by_the_retry_of_the_handler(
    work: Callable[..., Server],
) -> None:
    server = work(["x"], lambda: "long", done=lambda n: 413)
    until(lambda: "fail" in server.seen)
    assert "max_attempts=3" in server.seen["fail"][0] and "dead" not in server.seen["fail"][0]
    assert "retry_after" in server.seen["fail"][0]


def test_a_server_that_answers_at_once_is_not_asked_without_a_pause(
    work: Callable[..., Server],
) -> None:
    server = work([], lambda: None, claim=lambda n: "")
    time.sleep(1)
    assert 1 <= len(server.seen["claim"]) <= 12


@pytest.mark.parametrize("token", ["sec ret", "sec\nret", "secrét"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        App("http://127.0.0.1:1", token)
    assert token not in str(refused.value) and "token" in str(refused.value)
