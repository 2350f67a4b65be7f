"""Working on tasks, on a real server."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Server

from delayq import App, Context, Dead, Job, Later, Retry, RetryAfter, Stopped

PROGRAM = pathlib.Path(__file__).parent / "programs.py"


@dataclasses.dataclass
class Order:
    order: int


def until(what: Callable[[], Any], seconds: float = 15) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def state(app: App, type: str, id: str) -> str:
    task = app.find(type, id)
    return task.state if task else "none"


def test_what_a_handler_returns_and_raises(app: App) -> None:
    seen: dict[str, list[Context]] = {}

    @app.task("w.ends", concurrency=4, retry=Retry(max=3, wait="10ms", max_wait="20ms"))
    async def handle(order: Order, cx: Context) -> Any:
        seen.setdefault(cx.id, []).append(cx)
        n = len(seen[cx.id])
        if cx.id == "reply":
            return {"order": order.order, "items": [Order(1)]}
        if cx.id == "bytes":
            return b"\x00\xff"
        if cx.id == "dead":
            raise Dead("no such order")
        if cx.id == "later" and n <= 2:
            raise Later("20ms")
        if cx.id == "after" and n == 1:
            raise RetryAfter("20ms", "too many calls")
        if cx.id == "fails":
            raise RuntimeError("no van")
        if cx.id == "bad reply":
            return object()
        return None

    app.start()
    for id in ("reply", "bytes", "dead", "later", "after", "fails", "ok"):
        app.send("w.ends", Order(42), id=id)
    app.send("w.ends", {"order": "many"}, id="undecodable")
    app.send("w.ends", b"{", id="broken")
    reply = app.reply("w.ends", "reply", wait="10s")
    assert (reply.state, reply.value) == ("done", {"order": 42, "items": [{"order": 1}]})
    assert app.reply("w.ends", "bytes", wait=10).value == b"\x00\xff"
    assert app.reply("w.ends", "ok", wait=10).value is None
    dead = app.reply("w.ends", "dead", wait=10)
    assert dead.state == "dead" and "no such order" in (dead.error or "")
    assert len(seen["dead"]) == 1
    for id in ("later", "after"):
        assert app.reply("w.ends", id, wait=10).state == "done"
    assert [cx.attempt for cx in seen["later"]] == [1, 1, 1]
    assert [cx.attempt for cx in seen["after"]] == [1, 2]
    assert seen["after"][1].last_error == "too many calls"
    assert seen["after"][1].fence > seen["after"][0].fence
    assert app.reply("w.ends", "fails", wait=10).state == "dead"
    assert len(seen["fails"]) == 3 and seen["fails"][2].last_error == "RuntimeError: no van"
    for id in ("undecodable", "broken"):
        refused = app.reply("w.ends", id, wait=10)
        assert refused.state == "dead" and "message" in (refused.error or "")
        assert id not in seen
    assert str(seen["ok"][0]) == "w.ends/ok, attempt 1"


def test_plain_functions_run_in_threads_and_only_so_many(app: App) -> None:
    running, most, guard = set[str](), [0], threading.Lock()

    @app.task("w.plain", concurrency=3)
    def handle(message: float, cx: Context) -> str:
        with guard:
            running.add(cx.id)
            most[0] = max(most[0], len(running))
        time.sleep(message)
        running.discard(cx.id)
        return threading.current_thread().name

    app.send_all([Job("w.plain", 0.05, id=str(n)) for n in range(20)])
    app.start()
    names = {app.reply("w.plain", str(n), wait=10).value for n in range(20)}
    assert names == {"delayq-task"} and most[0] == 3


def test_forms_of_handlers(app: App) -> None:
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @app.task("w.none")
    def none() -> None:
        got.put("none")

    @app.task("w.cx")
    async def only_cx(cx: Context) -> None:
        got.put(cx.message)

    @app.task("w.raw")
    def raw(message: bytes, cx: Context) -> None:
        got.put(message)

    @app.task("w.optional")
    async def optional(message: list[Order] | None, context: Context, more: int = 1) -> None:
        got.put(message)

    with pytest.raises(TypeError):
        app.task("w.wrong")(lambda a, b, cx: None)
    with pytest.raises(ValueError):
        app.task("w.none")(none)
    app.start()
    for kind, message, expected in (
        ("w.none", b"\xff", "none"), ("w.cx", {}, b"{}"), ("w.raw", b"\xff", b"\xff"),
        ("w.optional", [{"order": 1}], [Order(1)]), ("w.optional", None, None),
    ):  # fmt: skip
        app.send(kind, message)
        assert got.get(timeout=10) == expected


def test_follow_ups_and_hooks_around(app: App) -> None:
    said: list[str] = []

    @app.around
    @contextlib.contextmanager
    def noted(cx: Context) -> Iterator[None]:
        said.append(f"before {cx.type}")
        try:
            yield
        except RuntimeError as error:
            said.append(f"failed {error}")
            raise
        said.append(f"after {cx.type}")

    @app.task("w.first")
    async def first(cx: Context) -> str:
        if cx.attempt == 1:
            cx.then("w.second", "never")
            raise RuntimeError("once")
        cx.then("w.second", "now", id="second")
        return "first"

    @app.task("w.second")
    def second(message: str) -> str:
        return message

    app.start()
    assert app.send("w.first", wait=10).reply.value == "first"  # type: ignore[union-attr]
    assert until(lambda: app.find("w.second", "second"))
    assert app.reply("w.second", "second", wait=10).value == "now"
    assert said[:2] == ["before w.first", "failed once"]
    assert "after w.first" in said and "after w.second" in said


def test_a_refused_follow_up_or_reply_is_told(app: App) -> None:
    @app.task("w.refused", retry=Retry(max=2, wait="1ms", max_wait="1ms"))
    async def handle(what: str, cx: Context) -> Any:
        if what == "reply":
            return "x" * 70_000
        cx.then("no type at all", 1)
        return None

    app.start()
    for what in ("reply", "then"):
        said = app.send("w.refused", what, wait=10).reply
        assert said and said.state == "dead" and "refused" in (said.error or ""), said


def test_a_cancel_reaches_the_handler(app: App) -> None:
    starts: queue.SimpleQueue[Context] = queue.SimpleQueue()
    ends: dict[str, str] = {}

    @app.task("w.cancel", concurrency=4, lock="1s")
    async def handle(cx: Context) -> str:
        starts.put(cx)
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            ends[cx.id] = cx.stop_reason or ""
            if cx.id == "returns":
                return "finished"
            raise
        return "slept"

    @app.task("w.cancel2", lock="1s")
    def in_thread(cx: Context) -> None:
        starts.put(cx)
        try:
            cx.sleep(20)
        except Stopped:
            assert cx.cancelled.is_set() and not cx.lost.is_set()
            raise

    app.start()
    for kind, id in (("w.cancel", "a"), ("w.cancel", "returns"), ("w.cancel2", "b")):
        app.send(kind, id=id)
        starts.get(timeout=10)
        assert app.cancel(kind, id).outcome == "running"
    assert app.reply("w.cancel", "a", wait=10).state == "cancelled"
    assert app.reply("w.cancel2", "b", wait=10).state == "cancelled"
    assert app.reply("w.cancel", "returns", wait=10).value == "finished"
    assert ends == {"a": "cancelled", "returns": "cancelled"}


def test_a_handler_that_blocks_the_loop_keeps_its_lock(app: App, server: Server) -> None:
    attempts = []

    @app.task("w.block", lock="1s")
    async def handle(cx: Context) -> None:
        attempts.append(cx.attempt)
        time.sleep(3)  # noqa: ASYNC251

    app.start()
    assert app.send("w.block", wait=15).state == "done"
    assert attempts == [1]


def test_a_lost_lock_is_told_and_nothing_is_reported(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path)
    with server.app(patience="1s") as app:
        got: queue.SimpleQueue[Any] = queue.SimpleQueue()
        starts: list[int] = []

        @app.task("w.lost", lock="1500ms")
        async def handle(cx: Context) -> None:
            got.put(("start", len(starts)))
            starts.append(cx.fence)
            try:
                await asyncio.sleep(20 if len(starts) == 1 else 0)
            except asyncio.CancelledError:
                got.put((cx.stop_reason, cx.lost.is_set()))
                raise

        app.start()
        app.send("w.lost", id="a")
        assert got.get(timeout=10) == ("start", 0)
        server.kill()
        begin = time.monotonic()
        assert got.get(timeout=10) == ("lost", True)
        assert time.monotonic() - begin < 2
        time.sleep(1)  # longer than a wait between claims, so that there is trouble
        server.start()
        assert got.get(timeout=20)[0] == "start"
        assert app.reply("w.lost", "a", wait=10).state == "done"
        assert starts[0] < starts[1]
        spells = [one.message for one in caplog.records if "claimed" in one.message]
        assert len(spells) == 2 and spells[1].endswith("can be claimed again"), spells
    server.kill()


def test_ends_are_reported_while_the_server_comes_back(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path)
    with server.app() as app:
        begun, go_on = threading.Event(), threading.Event()
        runs = []

        @app.task("w.back", lock="30s")
        def handle(cx: Context) -> str:
            runs.append(cx.attempt)
            begun.set()
            go_on.wait(10)
            return "it is done"

        app.start()
        app.send("w.back", id="a")
        assert begun.wait(10)
        server.kill()
        go_on.set()
        time.sleep(1)
        server.start()
        assert app.reply("w.back", "a", wait=20).value == "it is done"
        assert runs == [1]
    server.kill()


def test_in_the_loop_of_the_caller(server: Server) -> None:
    async def main() -> None:
        with server.app(grace="1s") as app:
            loops = []

            @app.task("w.embedded", concurrency=2)
            async def handle(cx: Context) -> str:
                loops.append(asyncio.get_running_loop())
                if cx.id == "slow":
                    await asyncio.sleep(20)
                receipt = await app.asend("w.other", after="1h")
                return receipt.id

            await app.astart()
            reply = (await app.asend("w.embedded", wait=10)).reply
            assert reply and reply.state == "done" and loops == [asyncio.get_running_loop()]
            await app.asend("w.embedded", id="slow")
            while len(loops) < 2:
                await asyncio.sleep(0.02)
            await app.astop()
            task = await app.afind("w.embedded", "slow")
            assert task and (task.state, task.attempt) == ("scheduled", 0)
            app.__exit__()

    asyncio.run(main())


def test_batches(app: App) -> None:
    @app.task("w.row", concurrency=3)
    async def row(n: int) -> int:
        return n

    @app.task("w.report")
    async def report(cx: Context) -> str:
        return cx.headers["delayq-batch"]

    rows = [Job("w.row", n) for n in range(3)]
    sent = app.send_batch("import-7", rows, Job("w.report", "7"))
    assert sent.ids == ["import-7/0", "import-7/1", "import-7/2"]
    waiting = app.batch("import-7")
    assert waiting and waiting.state == "waiting" and waiting.counts
    assert waiting.counts["total"] == 3
    app.start()
    until(lambda: app.find(sent.then_type, sent.then_id), 20)
    assert '"done":3' in app.reply(sent.then_type, sent.then_id, wait=20).value.replace(" ", "")
    assert app.batch("nothing") is None
    app.send_batch("import-8", [Job("w.never", 1)], Job("w.report", "8"))
    assert app.cancel_batch("import-8") == 1


def test_the_history(app: App) -> None:
    app.send("w.history", 1, id="h", after="1h")
    app.cancel("w.history", "h")
    (life,) = until(lambda: app.history("w.history", "h"))
    assert life.outcome == "cancelled" and life.submitted_at


programs: list[Program] = []


@pytest.fixture(autouse=True)
def no_program_stays() -> Iterator[None]:
    yield
    while programs:
        programs.pop().process.kill()


class Program:
    def __init__(self, server: Server, **env: str) -> None:
        place = {"DELAYQ_HTTP": server.url, "DELAYQ_TOKEN": server.token}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM], env={**os.environ, **place, **env}, stdout=pipe, text=True
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()
        programs.append(self)

    def read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.put(line.strip())

    def says(self, wanted: str, seconds: float = 15) -> None:
        assert self.lines.get(timeout=seconds) == wanted


@pytest.mark.parametrize("kind", ["p.async", "p.thread"])
def test_a_killed_worker(app: App, server: Server, kind: str) -> None:
    first = Program(server)
    app.send(kind, 1.5, id="k")
    first.says("start k 1")
    first.process.kill()
    first.process.wait()
    second = Program(server)
    second.says("start k 2")
    assert app.reply(kind, "k", wait=10).state == "done"
    second.says("end k 2")
    second.process.send_signal(signal.SIGTERM)
    second.says("over")
    assert second.process.wait(10) == 0


def test_a_stopped_process_loses_its_lock(app: App, server: Server) -> None:
    first = Program(server)
    app.send("p.async", 1.0, id="s")
    first.says("start s 1")
    first.process.send_signal(signal.SIGSTOP)
    second = Program(server)
    # The server may have given the second attempt to the waiting claim of the stopped one.
    started = second.lines.get(timeout=15)
    assert started in ("start s 2", "start s 3")
    second.says(started.replace("start", "end"))
    first.process.send_signal(signal.SIGCONT)
    assert app.reply("p.async", "s", wait=10).value == 1.0
    said = first.lines.get(timeout=10)
    assert said in ("lost s", "end s 1")
    task = app.find("p.async", "s")
    assert task and (task.state, task.attempt) == ("done", int(started[-1]))
    while not first.lines.empty():  # and it has begun no other attempt
        assert first.lines.get() in ("lost s", "end s 1")
    for one in (first, second):
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(10) == 0


@pytest.mark.parametrize("kind", ["p.async", "p.thread"])
def test_a_graceful_end(app: App, server: Server, kind: str) -> None:
    one = Program(server, GRACE="1")
    app.send(kind, 0.5, id="g1")
    one.says("start g1 1")
    app.send(kind, 30, id="g2")
    one.says("start g2 1")
    begin = time.monotonic()
    one.process.send_signal(signal.SIGTERM)
    one.says("end g1 1")
    app.send(kind, 0, id="g3")
    one.says("shutdown g2")
    one.says("over")
    assert one.process.wait(10) == 0
    assert time.monotonic() - begin < 6
    assert app.reply(kind, "g1").state == "done"
    for id in ("g2", "g3"):
        task = app.find(kind, id)
        assert task and (task.state, task.attempt) == ("scheduled", 0)
        app.cancel(kind, id)


def test_a_second_signal_ends_at_once(app: App, server: Server) -> None:
    one = Program(server)
    app.send("p.thread", 30, id="t")
    one.says("start t 1")
    one.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert one.process.poll() is None
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(5) == -signal.SIGTERM


def test_a_fork_has_connections_of_its_own(app: App) -> None:
    app.send("w.fork", 1, after="1h")
    pid = os.fork()
    if pid == 0:
        try:
            app.send("w.fork", 2, id="child", after="1h")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert app.find("w.fork", "child")


def test_the_log_has_the_traceback(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task("w.log", retry=Retry(max=1))
    def handle() -> None:
        raise ZeroDivisionError("of course")

    caplog.set_level(logging.WARNING)
    app.start()
    assert app.send("w.log", wait=10).state == "dead"
    assert "in handle" in caplog.text
