"""Sending and changing tasks, on a real server."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from conftest import Server

from delayq import (
    App, Conflict, DelayqError, InvalidInput, Job, LimitExceeded, NotFound, Receipt, Unauthorized,
    Unavailable,
)  # fmt: skip


@dataclasses.dataclass
class Item:
    name: str
    count: int = 1


@dataclasses.dataclass
class Order:
    order: int
    items: list[Item] = dataclasses.field(default_factory=list)


def test_a_task_is_sent_found_moved_updated_and_cancelled(app: App) -> None:
    order = Order(42, [Item("lamp", 2)])
    receipt = app.send("s.order", order, id="order-42", after=timedelta(minutes=30), group="g")
    assert (receipt.id, receipt.outcome, receipt.durability) == ("order-42", "accepted", "disk")
    assert receipt.due_at and 1790 < (receipt.due_at - now()).total_seconds() < 1801
    task = app.find("s.order", "order-42")
    assert task and task.state == "scheduled" and task.decode(Order) == order
    assert task.headers == {"content-type": "application/json", "group": "g"}

    assert app.send("s.order", order, id="order-42", after="30m", group="g").outcome == (
        "already_exists"
    )
    with pytest.raises(Conflict) as conflict:
        app.send("s.order", Order(43), id="order-42")
    assert (conflict.value.kind, conflict.value.status) == ("conflict", 409)
    assert not conflict.value.is_repeatable and "on_conflict" in conflict.value.detail
    assert app.send("s.order", Order(43), id="order-42", on_conflict="keep").outcome == (
        "already_exists"
    )
    assert app.send("s.order", Order(43), id="order-42", on_conflict="replace", after=60).outcome == (
        "replaced"
    )

    moved = app.reschedule("s.order", "order-42", at=datetime(2030, 1, 1, tzinfo=timezone.utc))
    assert moved.outcome == "changed"
    assert moved.due_at == datetime(2030, 1, 1, tzinfo=timezone.utc)
    app.update("s.order", "order-42", Order(44))
    found = app.find("s.order", "order-42")
    assert found and found.decode(Order) == Order(44)
    assert app.run_now("s.order", "order-42").outcome == "changed"
    assert app.cancel("s.order", "order-42").outcome == "cancelled"
    assert app.cancel("s.order", "order-42").outcome == "cancelled"
    with pytest.raises(NotFound):
        app.cancel("s.order", "nobody")
    assert app.find("s.order", "nobody") is None


def now() -> datetime:
    return datetime.now(timezone.utc)


@pytest.mark.parametrize("id", [".", "..", "a/b", "ü"[:0] + "a%2Fb", "a?b#c", "~!*'();:@&=+$,[]"])
def test_every_id_has_its_place(app: App, id: str) -> None:
    assert app.send("s.ids", 1, id=id, after="1h").id == id
    found = app.find("s.ids", id)
    assert found and found.id == id
    assert app.cancel("s.ids", id).outcome == "cancelled"


def test_messages_of_every_kind(app: App) -> None:
    for message, body in (
        (None, b"null"), ("text ü", '"text ü"'.encode()), (b"\x00\xff", b"\x00\xff"), (b"", b""),
        ([1, 2.5, True], b"[1,2.5,true]"), ({"a": {"b": None}}, b'{"a":{"b":null}}'),
    ):  # fmt: skip
        receipt = app.send("s.kinds", message, after="1h")
        task = app.find("s.kinds", receipt.id)
        assert task and task.message == body
        is_json = not isinstance(message, bytes)
        assert task.headers == ({"content-type": "application/json"} if is_json else {})
        (again,) = app.send_all([Job("s.kinds", message, after="1h")])
        assert isinstance(again, Receipt)
        found = app.find("s.kinds", again.id)
        assert found and (found.message, found.headers) == (task.message, task.headers)


def test_what_is_wrong_is_refused(app: App, server: Server) -> None:
    for options in (
        {"after": "soon"}, {"after": -1}, {"after": "5"}, {"at": datetime(2030, 1, 1)}, {"at": 1700},
        {"debounce": "1s", "max_wait": "1m"}, {"throttle": "1h"}, {"after": "1s", "at": 2**42},
        {"headers": {"x": "a\nb"}}, {"on_conflict": "fight", "id": "a"}, {"id": "ü"},
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            app.send("s.wrong", 1, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        app.send("s.wrong", float("nan"))
    with pytest.raises(InvalidInput):
        app.send("s.wrong", {"a": object()})
    with pytest.raises(InvalidInput):
        app.send("not a type", 1)
    with pytest.raises(TypeError):
        app.send("s.wrong", 1, delay="1h")  # type: ignore[call-arg]
    with pytest.raises(LimitExceeded) as too_large:
        app.send("s.wrong", "x" * 300_000)
    assert too_large.value.status == 413
    with App(server.url, "dq_no_token") as other, pytest.raises(Unauthorized) as refused:
        other.send("s.wrong", 1)
    assert refused.value.kind == "unauthorized"


def test_many_are_sent_at_once_and_each_has_an_outcome(app: App) -> None:
    app.send("s.many", 0, id="taken", after="1h")
    jobs = [Job("s.many", index, after="1h") for index in range(1200)]
    jobs[7] = Job("s.many", 1, id="taken")
    jobs[9] = Job("s.other", 1, id="x", after="1h")
    jobs[11] = Job("s.many", "y" * 300_000)
    answers = app.send_all(jobs)
    assert len(answers) == 1200
    assert isinstance(answers[7], Conflict) and isinstance(answers[11], LimitExceeded)
    good = [one for one in answers if isinstance(one, Receipt)]
    assert len({one.id for one in good}) == 1198
    assert app.find("s.other", "x")
    task = app.find("s.many", good[100].id)
    assert task and task.decode(int) == 102
    assert app.send_all([]) == []


def test_debounce_throttle_and_expiry(app: App) -> None:
    first = app.send("s.doc", 1, id="d", debounce="1m", max_wait="10m")
    again = app.send("s.doc", 2, id="d", debounce="1m", max_wait="10m")
    assert (first.outcome, again.outcome) == ("accepted", "replaced")
    window = app.send("s.doc", 1, id="t", throttle="1h")
    assert window.id.startswith("t@")
    assert app.send("s.doc", 2, id="t", throttle="1h").outcome == "already_exists"
    app.send("s.doc", 1, id="e", after="1h", expires_after="5m")
    task = app.find("s.doc", "e")
    assert task and task.expires_at and task.due_at
    assert task.expires_at - task.due_at == timedelta(minutes=5)
    app.send("s.doc", 1, id="e0", after="1h", expires_after=0)
    task = app.find("s.doc", "e0")
    assert task and task.expires_at == task.due_at


def test_the_forms_for_async_code_and_the_warning(app: App) -> None:
    async def all_of_it() -> None:
        receipts = await asyncio.gather(*(app.asend("s.async", n, after="1h") for n in range(20)))
        assert len({one.id for one in receipts}) == 20
        assert await app.afind("s.async", receipts[0].id)
        with pytest.warns(RuntimeWarning, match="await app.asend"):
            app.send("s.async", 1, after="1h")

    asyncio.run(all_of_it())


def test_recurring_tasks(app: App) -> None:
    made = app.set_recurring("daily", "s.daily", "0 9 * * MON-FRI", {"a": 1}, zone="Europe/Berlin")
    assert made.next_at and made.zone == "Europe/Berlin" and made.message == b'{"a":1}'
    assert app.pause_recurring("daily").paused
    assert [one.id for one in app.list_recurring()] == ["daily"]
    assert not app.resume_recurring("daily").paused
    assert app.remove_recurring("daily")
    assert not app.remove_recurring("daily")
    assert app.list_recurring() == []


def test_the_address_and_the_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("", "localhost:7880", "delayq://t@h/default", "http://h/v1/a?x=1", "http://t@h"):
        with pytest.raises(InvalidInput):
            App(url, "t")
    for token in ("", "  "):
        with pytest.raises(InvalidInput):
            App("http://h", token)
    with pytest.raises(InvalidInput):
        App("http://h/v1/a", "t", namespace="b")
    monkeypatch.setenv("DELAYQ_HTTP", server.address)
    monkeypatch.setenv("DELAYQ_TOKEN", server.token)
    with App() as app:
        assert app.find("s.env", "a") is None
    with App(server.url.replace("http:", "https:"), "t") as tls, pytest.raises(InvalidInput):
        tls.send("s.env", 1)
    with App("http://127.0.0.1:9/v1/default", "t", patience="200ms") as away:
        begin = time.monotonic()
        with pytest.raises(Unavailable) as unreached:
            away.send("s.env", 1)
        assert time.monotonic() - begin < 3
        assert unreached.value.is_repeatable and not unreached.value.is_in_doubt


class Proxy(BaseHTTPRequestHandler):
    """Passes requests on, and spoils the first answers."""

    protocol_version = "HTTP/1.1"
    target = ""
    spoil: list[Any]

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        how = self.spoil.pop(0) if self.spoil else "pass"
        if how not in ("refuse", "busy"):
            headers = {n: v for n, v in self.headers.items() if n.lower() != "host"}
            answer = httpx.request(self.command, self.target + self.path, headers=headers, content=body)
        if how == "lose":
            self.connection.close()
            self.close_connection = True
            return
        if how in ("refuse", "busy"):
            self.send_response(503 if how == "busy" else 502)
            self.send_header("retry-after", "0")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"no")
            return
        self.send_response(answer.status_code)
        self.send_header("content-type", answer.headers.get("content-type", ""))
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_POST = do_PUT

    def log_message(self, *_: object) -> None:
        pass


def test_a_call_is_repeated_until_its_end_is_certain(server: Server) -> None:
    spoil = ["lose", "refuse", "busy"]
    kind = type("One", (Proxy,), {"target": server.address, "spoil": spoil})
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    with App(f"http://127.0.0.1:{proxy.server_port}", server.token) as app:
        receipt = app.send("s.lost", 1, after="1h")
        assert receipt.outcome == "already_exists"  # it was taken the first time
        spoil += ["lose", "busy"]
        answers = app.send_all([Job("s.lost", n, after="1h") for n in range(3)])
        assert [one.outcome for one in answers if isinstance(one, Receipt)] == ["already_exists"] * 3
    with App(f"http://127.0.0.1:{proxy.server_port}", server.token, patience=0) as app:
        spoil += ["lose"]
        with pytest.raises(DelayqError) as lost:
            app.send("s.lost", 1)
        assert lost.value.is_in_doubt and lost.value.kind == "in-doubt"
    proxy.shutdown()
