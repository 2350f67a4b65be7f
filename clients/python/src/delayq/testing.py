"""A double of `App` for tests: no server, and a clock that the test moves."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Coroutine
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx

from .app import App
from .context import Context
from .errors import DelayqError, of_answer
from .handler import Handler, Report
from .values import EPOCH, MS, Retry, Span, millis, moment

T = TypeVar("T")
ENDED = ("done", "cancelled", "expired")
YEARS = 10 * 365 * 86_400_000


class TestApp(App):
    """Keeps what is sent. `advance` runs what is due meanwhile, with the handlers of the app.

    Batches and recurring tasks, locks, and the limits of a server are not there.
    """

    __test__ = False  # no class of tests, for pytest

    def __init__(self, *, now: datetime | None = None, policy: Retry | None = None) -> None:
        super().__init__("http://test", "test")
        self._transport: Any = Store(now or datetime.now(timezone.utc), policy or Retry())

    @property
    def now(self) -> datetime:
        """The time of the double."""
        return moment(self._transport.now)

    def advance(self, span: Span = 0) -> int:
        """Moves the clock, and runs what becomes due, in order. Returns how many attempts ran."""
        return asyncio.run(self.aadvance(span))

    async def aadvance(self, span: Span = 0) -> int:
        """As `advance`, for `async` tests."""
        store, attempts = self._transport, 0
        end = store.now + millis(span)
        while task := store.next(self._handlers, end):
            store.now = max(store.now, task["due_at"])
            if task.get("expires_at", store.now) < store.now:
                store.finish(task, "expired")
                continue
            await self._attempt(task, self._handlers[task["type"]])
            attempts += 1
        store.now = end
        return attempts

    async def _attempt(self, task: dict[str, Any], handler: Handler) -> None:
        handler.jitter = 0
        cx = self._transport.start(task)
        result, error = None, None
        try:
            if handler.is_async:
                result = await handler.acall(cx, self._around)
            else:
                result = await asyncio.to_thread(handler.call, cx, self._around)
        except (Exception, asyncio.CancelledError) as raised:
            error = raised
        if task["cancel_requested"] and error:
            cx._stop("cancelled")
        self._transport.end(task, handler.report(cx, result, error))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            work.send(None)  # it awaits nothing
        except StopIteration as end:
            result: T = end.value
            return result
        raise RuntimeError("a TestApp does not wait")

    async def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def _start(self, loop: object) -> None:
        raise RuntimeError("a TestApp works in advance(..)")

    def close(self) -> None:
        pass


class Store:
    """The server of the double, below the requests of the app."""

    patience = 0.0

    def __init__(self, now: datetime, policy: Retry) -> None:
        self.now, self.policy, self.fence = round((now - EPOCH) / MS), policy, 0
        self.tasks: dict[tuple[str, str], dict[str, Any]] = {}

    async def once(self, method: str, path: str, **parts: Any) -> httpx.Response:
        return await self.call(method, path, **parts)

    async def call(self, method: str, path: str, **parts: Any) -> httpx.Response:
        _, kind, task_type, *rest = (*map(unquote, path.split("/")), "", "")
        parts.pop("longer", None)
        if kind != "types":
            raise refused(501, "unsupported", "a TestApp has no batches and no recurring tasks")
        if not re.fullmatch(r"[A-Za-z0-9._:-]{1,100}", task_type):
            raise refused(400, "bad-request", f"{task_type!r} is no name of a type")
        if rest[0] == "bulk":
            return self.bulk(task_type, parts["content"])
        what = f"{method} {rest[2]}".strip()
        if what == "PUT":
            return answer(200, self.put(task_type, rest[1], **parts))
        task = self.tasks.get((task_type, rest[1]))
        if task is None:
            raise refused(404, "not-found", f"there is no task {rest[1]} of type {task_type}")
        return self.change(what, task, **parts)

    def bulk(self, task_type: str, content: bytes) -> httpx.Response:
        lines = []
        for number, line in enumerate(map(json.loads, content.splitlines()), 1):
            body = line.pop("message", "").encode()
            try:
                facts = self.put(task_type, line.pop("id"), line, body, line.pop("headers"))
            except DelayqError as error:
                facts = {"problem": {**vars(error), "type": getattr(error, "kind", "")}}
            lines.append(json.dumps({"line": number, **facts}))
        return httpx.Response(200, text="\n".join(lines))

    def put(
        self, task_type: str, id: str, params: dict[str, Any], content: bytes,
        headers: dict[str, str],
    ) -> dict[str, Any]:  # fmt: skip
        """Creates a task, or says what is there already."""
        if not re.fullmatch(r"[!-~]{1,128}", id):
            raise refused(400, "bad-request", f"{id!r} is no id: 1 to 128 visible characters")
        headers = {name.removeprefix("delayq-header-"): one for name, one in headers.items()}
        headers |= {name: params[name] for name in ("group", "project") if name in params}
        conflict, due_at = params.get("on_conflict", "reject"), self.due(params)
        old = self.tasks.get((task_type, id))
        if "throttle" in params:
            window = millis_of(params["throttle"])
            due_at, conflict = (self.now // window + 1) * window, "keep"
            id = f"{id}@{moment(due_at).isoformat(timespec='milliseconds')[:-6]}Z"
            old = self.tasks.get((task_type, id))
        if "debounce" in params:
            first = old["submitted_at"] if old and old["state"] == "scheduled" else self.now
            latest = first + millis_of(params["max_wait"])
            due_at, conflict = min(self.now + millis_of(params["debounce"]), latest), "replace"
        request = (content, headers, params)
        is_same = old is not None and old["request"] == request and "debounce" not in params
        new: dict[str, Any] = {
            "type": task_type, "id": id, "state": "scheduled", "due_at": due_at, "attempt": 0,
            "submitted_at": self.now, "headers": headers, "content": content, "request": request,
            "cancel_requested": False,
        }  # fmt: skip
        if "expires_after" in params:
            new["expires_at"] = due_at + millis_of(params["expires_after"])
        if "expires_at" in params:
            new["expires_at"] = self.time(params["expires_at"])
        outcome = "accepted"
        if old and old["state"] == "running" and params.get("again_if_running"):
            old["again"], outcome = new, "runs_again"
            return {"id": id, "outcome": outcome, "due_at": due_at, "durability": "memory"}
        is_open = old is not None and old["state"] not in ENDED
        if old and (is_same or (is_open and conflict == "keep")):
            found = {"id": id, "outcome": "already_exists", "state": old["state"]}
            return {**found, "durability": "memory"}
        if old and is_open:
            if conflict != "replace" or old["state"] == "running":
                text = f"another task {id} of {task_type} is {old['state']}"
                raise refused(409, "conflict", text)
            if "debounce" in params and old["state"] == "scheduled":
                new["submitted_at"] = old["submitted_at"]
            outcome = "replaced"
        new["lives"] = old["lives"] if old else []
        self.tasks[task_type, id] = new
        return {"id": id, "outcome": outcome, "due_at": due_at, "durability": "memory"}

    def due(self, params: dict[str, Any]) -> int:
        if "delay" in params and "at" in params:
            raise refused(400, "bad-request", "delay and at exclude each other")
        at = self.time(params["at"]) if "at" in params else self.now
        if at - self.now > YEARS or millis_of(params.get("delay", 0)) > YEARS:
            raise refused(400, "bad-request", "it is beyond the limit of 10 years")
        return max(at, self.now + millis_of(params.get("delay", 0)))

    def time(self, time: str | int) -> int:
        if isinstance(time, str) and not time.isdigit():
            try:
                read = datetime.fromisoformat(time.replace("Z", "+00:00"))
                time = round((read - EPOCH) / timedelta(milliseconds=1))
            except (ValueError, TypeError):
                raise refused(400, "bad-request", f"{time!r} is no time") from None
        if int(time) < 978_307_200_000:
            raise refused(400, "bad-request", "it is before 2001: times are milliseconds")
        return int(time)

    def change(
        self, what: str, task: dict[str, Any], params: Any = None, content: bytes = b"",
        headers: Any = None,
    ) -> httpx.Response:  # fmt: skip
        state, name = task["state"], f"{task['id']} of {task['type']}"
        if what == "GET":
            hidden = ("content", "request", "again", "reply", "lives")
            shown = {key: one for key, one in task.items() if key not in hidden}
            shown["message_base64"] = base64.b64encode(task["content"]).decode()
            return answer(200, {**shown, "at": task.get("ended_at", task["due_at"])})
        if what == "GET reply":
            return self.replied(task)
        if what == "GET history":
            return answer(200, {"lives": task.get("lives", [])})
        if what == "DELETE" and state in ("running", "scheduled", "cancelled"):
            task["cancel_requested"] = state == "running"
            if state == "scheduled":
                self.finish(task, "cancelled")
            return answer(200, {"outcome": "running" if state == "running" else "cancelled"})
        if state != "scheduled":
            kind = "running" if state == "running" else "finished"
            raise refused(409, kind, f"{name} is {state}: nothing was changed")
        if what == "PUT message":
            task["content"] = content
        else:
            task["due_at"] = self.due(params or {})
        return answer(200, {"due_at": task["due_at"]})

    def replied(self, task: dict[str, Any]) -> httpx.Response:
        state = task["state"]
        if state in ("cancelled", "expired"):
            raise refused(410, state, f"{task['id']} was {state}")
        if state == "dead":
            raise refused(424, "dead", f"{task['id']} is dead: {task.get('last_error')}")
        if state != "done":
            return httpx.Response(202)
        content, headers = task.get("reply") or (b"", {})
        return httpx.Response(200 if content else 204, content=content, headers=headers)

    def next(self, handlers: dict[str, Handler], end: int) -> dict[str, Any] | None:
        """The next task that is due until then and has a handler."""
        is_due = (
            one
            for one in self.tasks.values()
            if one["state"] == "scheduled" and one["type"] in handlers and one["due_at"] <= end
        )
        return min(is_due, key=lambda one: one["due_at"], default=None)

    def start(self, task: dict[str, Any]) -> Context:
        self.fence += 1
        task.update(state="running", attempt=task["attempt"] + 1)
        cx = Context({**task, "fence": self.fence})
        cx.message = task["content"]
        return cx

    def finish(self, task: dict[str, Any], state: str) -> None:
        task.update(state=state, ended_at=self.now)
        life = {"outcome": state, "ended_at": self.now, "attempts": task["attempt"]}
        more = {"submitted_at": task["submitted_at"], "error": task.get("last_error")}
        task["lives"].insert(0, life | more)

    def end(self, task: dict[str, Any], report: Report) -> None:
        """Carries out the end of an attempt."""
        what, parts = report
        params, error = parts.get("params", {}), parts.get("content", b"").decode(errors="replace")
        if what == "done-then":
            for index, line in enumerate(parts["json"]["then"]):
                id = line.get("id", f"{task['id']}+{index}")
                body = line.pop("message", "").encode()
                more = {"on_conflict": "keep", **line}
                self.put(line["type"], id, more, body, line["headers"])
            reply = parts["json"].get("reply")
            parts = {"content": json.dumps(reply).encode() if "reply" in parts["json"] else b"",
                     "headers": {"content-type": "application/json"}}  # fmt: skip
        if what.startswith("done"):
            task.update(state="done", reply=(parts["content"], parts["headers"]))
        elif what == "release":
            due_at = self.now + params.get("after", 0)
            task.update(state="scheduled", attempt=task["attempt"] - 1, due_at=due_at)
        else:
            wait = params.get("retry_after", self.policy.wait_after(task["attempt"]))
            is_dead = params.get("dead") or task["attempt"] >= params.get(
                "max_attempts", self.policy.max
            )
            task.update(state="dead" if is_dead else "scheduled", last_error=error)
            task["due_at"] = self.now + (0 if is_dead else wait)
        if task["cancel_requested"] and task["state"] == "scheduled":
            task["state"] = "cancelled"
        if task["state"] != "scheduled":
            self.finish(task, task["state"])
            if "again" in task and task["state"] != "cancelled":
                again = task["again"]
                again["due_at"] = max(again["due_at"], self.now)
                self.tasks[task["type"], task["id"]] = again | {"lives": task["lives"]}


def millis_of(span: str | int) -> int:
    return span if isinstance(span, int) else millis(span)


def answer(status: int, facts: dict[str, Any]) -> httpx.Response:
    return httpx.Response(status, json=facts)


def refused(status: int, kind: str, detail: str) -> DelayqError:
    return of_answer(status, {"type": kind, "detail": detail, "is_repeatable": False})
