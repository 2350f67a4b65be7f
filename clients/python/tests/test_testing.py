"""The double says the same as a server."""

from __future__ import annotations

import asyncio
import itertools
from datetime import datetime, timedelta, timezone

import pytest

from delayq import App, Conflict, Context, Dead, InvalidInput, Job, Later, NotFound, Receipt, Retry
from delayq.testing import TestApp

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(params=["double", "server"])
def one(request: pytest.FixtureRequest) -> App:
    """The double and a real server, for the sentences that hold for both."""
    if request.param == "double":
        return TestApp()
    app: App = request.getfixturevalue("app")
    return app


def test_sends(one: App) -> None:
    kind = "t.sends"
    assert one.send(kind, {"a": 1}, id="x", after="1h").outcome == "accepted"
    assert one.send(kind, {"a": 1}, id="x", after="1h").outcome == "already_exists"
    with pytest.raises(Conflict) as refused:
        one.send(kind, {"a": 2}, id="x", after="1h")
    assert (refused.value.kind, refused.value.status) == ("conflict", 409)
    assert one.send(kind, {"a": 2}, id="x", on_conflict="keep").state == "scheduled"
    assert one.send(kind, {"a": 2}, id="x", on_conflict="replace", after="2h").outcome == "replaced"
    assert one.reschedule(kind, "x", after="3h").outcome == "changed"
    assert one.update(kind, "x", {"a": 3}).outcome == "changed"
    task = one.find(kind, "x")
    assert task and (task.state, task.decode(dict), task.attempt) == ("scheduled", {"a": 3}, 0)
    assert one.reply(kind, "x").state == "pending"
    assert one.cancel(kind, "x").outcome == "cancelled"
    assert one.cancel(kind, "x").outcome == "cancelled"
    assert one.reply(kind, "x").state == "cancelled"
    with pytest.raises(Conflict) as finished:
        one.run_now(kind, "x")
    assert finished.value.kind == "finished"
    assert one.find(kind, "nobody") is None
    with pytest.raises(NotFound):
        one.cancel(kind, "nobody")
    for options in ({"after": "soon"}, {"at": 1700}, {"at": "1h", "after": "1h"}, {"after": "11000d"}):
        with pytest.raises(InvalidInput):
            one.send(kind, 1, **options)
    with pytest.raises(InvalidInput):
        one.send("no type", 1)
    good, bad = one.send_all([Job(kind, 1, id="m"), Job(kind, 1, id="not valid")])
    assert isinstance(good, Receipt) and isinstance(bad, InvalidInput)
    first = one.send(kind, 1, id="d", debounce="1m", max_wait="1h")
    again = one.send(kind, 2, id="d", debounce="1m", max_wait="1h")
    assert (first.outcome, again.outcome) == ("accepted", "replaced")
    assert one.send(kind, 1, id="t", throttle="1h").id.startswith("t@")
    assert one.send(kind, 2, id="t", throttle="1h").outcome == "already_exists"


def test_the_history() -> None:
    app = TestApp()

    @app.task("a", retry=Retry(max=1))
    def fail() -> None:
        raise RuntimeError("no van")

    app.send("a", id="x")
    app.advance()
    with pytest.raises(Conflict):
        app.cancel("a", "x")
    (life,) = app.history("a", "x")
    assert (life.outcome, life.error) == ("dead", "RuntimeError: no van")


def test_time_and_retries() -> None:
    app = TestApp(now=START)
    ran: list[tuple[str, int, datetime]] = []

    @app.task("t.work", retry=Retry(max=3, wait="10s", max_wait="1m"))
    async def work(message: str, cx: Context) -> str:
        ran.append((cx.id, cx.attempt, app.now))
        if message == "fail":
            raise RuntimeError("no")
        if message == "dead":
            raise Dead("never")
        if message == "later" and len(ran) < 3:
            raise Later("5m")
        if message == "then":
            cx.then("t.plain", "followed", id="f")
            await app.asend("t.plain", "sent", id="s", after="1m")
        return message.upper()

    @app.task("t.plain")
    def plain(message: str) -> str:
        app.send("t.nobody", message, id=message)
        return message

    app.send("t.work", "ok", id="a", after="30m")
    assert app.advance("29m") == 0 and not ran
    assert app.advance("1m") == 1
    assert ran == [("a", 1, START + timedelta(minutes=30))]
    assert app.reply("t.work", "a").value == "OK"

    ran.clear()
    app.send("t.work", "fail", id="b")
    assert app.advance("1h") == 3
    waits = [later[2] - before[2] for before, later in itertools.pairwise(ran)]
    assert [one.total_seconds() for one in waits] == [10, 20]
    task = app.find("t.work", "b")
    assert task and (task.state, task.last_error) == ("dead", "RuntimeError: no")
    app.send("t.work", "dead", id="c")
    assert app.advance() == 1 and app.reply("t.work", "c").error

    ran.clear()
    app.send("t.work", "later", id="d")
    app.advance("1h")
    assert [one[1] for one in ran] == [1, 1, 1]
    app.send("t.work", "then", id="e")
    app.advance("2m")
    assert app.reply("t.plain", "f").value == "followed"
    assert app.find("t.nobody", "sent") and app.find("t.nobody", "followed")
    app.send("t.work", {"not": "text"}, id="g")
    app.advance()
    assert app.reply("t.work", "g").state == "dead"
    asyncio.run(app.aadvance("1m"))
    app.send("t.work", "ok", id="h", after="1m", expires_after="0s")
    app.advance("5m")
    assert app.reply("t.work", "h").state == "done"
