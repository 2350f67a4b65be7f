"""The application's side of a delayq server."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import json
import os
import queue
import signal
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Union

from . import tracing
from .context import log
from .errors import DelayqError, NotFound, Unavailable, lost, of_answer
from .handler import Around, Handler
from .transport import Backoff, LoopThread, Transport, address, repeats, segment
from .values import (
    Batch, BatchState, Changed, Job, Life, Receipt, Recurring, Reply, Retry, Span, Task, Time, read,
    seconds,
)  # fmt: skip
from .worker import Worker

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .values import Options

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Operation = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
Sent = Union[Receipt, DelayqError]
LINES, LINE_BYTES = 1000, 1 << 20
LARGE = 50  # seconds that a large request may take beyond the time limit of others


def blocking(work: Operation[P, T]) -> Callable[Concatenate[Any, P], T]:
    """The form of an operation for plain code: it blocks until the server has answered."""

    @functools.wraps(work)
    def call(self: App, /, *args: P.args, **named: P.kwargs) -> T:
        if asyncio._get_running_loop():
            text = f"app.{call.__name__} blocks the event loop: write await app.a{call.__name__}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return self._run(work(self, *args, **named))

    call.__name__ = work.__name__[1:]
    return call


def awaited(work: Operation[P, T]) -> Operation[P, T]:
    """The form of an operation for `async` code."""

    @functools.wraps(work)
    async def call(self: App, /, *args: P.args, **named: P.kwargs) -> T:
        return await self._wait(work(self, *args, **named))

    call.__name__ = f"a{work.__name__[1:]}"
    return call


def place(type: str, id: str, rest: str = "") -> str:
    return f"/types/{segment(type)}/tasks/{segment(id)}{rest}"


class App:
    """Sends tasks, changes them, and works on them.

    Each operation has two forms: `app.send(..)` blocks, and `await app.asend(..)` is for `async`
    code. An app may be used from all threads, and may be made before a fork.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, namespace: str | None = None,
        timeout: Span = 10, patience: Span = 30, grace: Span = 20,
        tls: ssl.SSLContext | None = None, trace_own_ids: bool = False,
    ) -> None:  # fmt: skip
        place, spans = address(url, token, namespace), (seconds(timeout), seconds(patience))
        self._make = functools.partial(Transport, *place, *spans, tls)
        self._grace, self._trace_own_ids = seconds(grace), trace_own_ids
        self._handlers: dict[str, Handler] = {}
        self._around: list[Around] = []
        self._thread: LoopThread | None = None
        self._worker: Worker | None = None
        self._guard = threading.RLock()

    def _io(self) -> LoopThread:
        with self._guard:
            if self._thread is None or self._thread.pid != os.getpid():  # after a fork
                self._thread, self._transport = LoopThread("delayq"), self._make()
            return self._thread

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._io().run(work)

    async def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._io().wait(work)

    async def _call(self, method: str, path: str, **parts: Any) -> Any:
        answer = await self._transport.call(method, path, **parts)
        return answer.json() if answer.content else None

    # Sending.

    async def _send(
        self, type: str, message: Any = None, *, wait: Span | None = None,
        **options: Unpack[Options],
    ) -> Receipt:  # fmt: skip
        """Sends a task, and with `wait` waits so long for its reply.

        Without an `id` the task gets a random one, so that a lost answer does no harm.
        """
        job = self._ready(Job(type, message, **options))
        names = {
            name if name == "content-type" else f"delayq-header-{name}": value
            for name, value in job.headers.items()
        }
        facts = await self._call(
            "PUT", place(type, job.id or ""), params=job.options, content=job.content, headers=names
        )
        if wait is None:
            return read(Receipt, facts)
        try:
            reply = await self._reply(type, facts["id"], wait)
        except DelayqError as error:  # it is accepted all the same
            reply = Reply("pending", error=error.detail)
        state = facts.get("state") if reply.state == "pending" else reply.state
        return read(Receipt, {**facts, "state": state, "reply": reply})

    def _ready(self, job: Job) -> Job:
        # The same request with another trace would be another one, and a conflict.
        is_traced = job.id is None or self._trace_own_ids
        return job.with_id(tracing.of_current_span() if is_traced else {})

    async def _send_all(self, jobs: Iterable[Job]) -> list[Sent]:
        """Sends many tasks. Each has a receipt or an error, in the order of the tasks."""
        jobs = [self._ready(job) for job in jobs]
        lines = [json.dumps(job.line(typed=False)).encode() + b"\n" for job in jobs]
        answers: list[Sent] = [lost("it was not sent", False)] * len(jobs)
        end, backoff = time.monotonic() + self._transport.patience, Backoff()
        while True:
            left = [index for index, answer in enumerate(answers) if repeats(answer)]
            for chunk in chunks(left, jobs, lines):
                await self._send_chunk(jobs[chunk[0]].type, chunk, lines, answers)
                if isinstance(answers[chunk[-1]], Unavailable):
                    break  # the others fare no better
            again = [answer for answer in answers if repeats(answer)]
            wait = max(map(backoff.next, again[:1] + again[-1:]), default=0)
            if not again or time.monotonic() + wait > end:
                return answers
            await asyncio.sleep(wait)

    async def _send_chunk(
        self, type: str, chunk: list[int], lines: list[bytes], answers: list[Sent]
    ) -> None:
        path, headers = f"/types/{segment(type)}/bulk", {"content-type": "application/x-ndjson"}
        body, said = b"".join(lines[index] for index in chunk), b""
        problem: DelayqError = lost("there was no answer for it", True)
        try:
            sent = self._transport.once("POST", path, content=body, headers=headers, longer=LARGE)
            said = (await sent).content
        except DelayqError as error:
            problem = error
        found: dict[int, Sent] = dict.fromkeys(chunk, problem)
        for facts in map(json.loads, said.splitlines()):
            index, refusal = chunk[min(facts["line"], len(chunk)) - 1], facts.get("problem")
            found[index] = (
                of_answer(refusal["status"], refusal) if refusal else read(Receipt, facts)
            )
        for index, answer in found.items():
            if isinstance(answer, DelayqError):
                answer = copy.copy(answer)
                answer.is_in_doubt |= getattr(answers[index], "is_in_doubt", False)
            answers[index] = answer

    # Tasks that were sent.

    async def _cancel(self, type: str, id: str) -> Changed:
        """Cancels a task. The outcome is `cancelled`, or `running`: it is asked to stop."""
        return read(Changed, await self._call("DELETE", place(type, id)))

    async def _reschedule(
        self, type: str, id: str, *, after: Span | None = None, at: Time | None = None
    ) -> Changed:
        """Moves a scheduled task to another time."""
        params = Job(type, after=after, at=at).options
        return await self._change("POST", place(type, id, "/reschedule"), params=params)

    async def _run_now(self, type: str, id: str) -> Changed:
        """Makes a scheduled task due now."""
        return await self._change("POST", place(type, id, "/run-now"))

    async def _update(self, type: str, id: str, message: Any) -> Changed:
        """Replaces the message of a scheduled task."""
        job, path = Job(type, message), place(type, id, "/message")
        return await self._change("PUT", path, content=job.content, headers=job.headers)

    async def _change(self, method: str, path: str, **parts: Any) -> Changed:
        return read(Changed, await self._call(method, path, **parts), outcome="changed")

    async def _find(self, type: str, id: str) -> Task | None:
        """The task, or None if it is unknown or forgotten."""
        try:
            return read(Task, await self._call("GET", place(type, id)))
        except NotFound:
            return None

    async def _reply(self, type: str, id: str, wait: Span = 0) -> Reply:
        """The reply of a task's worker; waits so long for its end. See `Reply.state`."""
        end = time.monotonic() + seconds(wait)
        while True:
            left = max(0.0, min(end - time.monotonic(), 30.0))
            params, path = {"wait": round(left * 1000)}, place(type, id, "/reply")
            try:
                answer = await self._transport.call("GET", path, params=params, longer=left)
            except DelayqError as error:
                if error.status not in (410, 424):
                    raise
                return Reply(error.kind, error=error.detail)
            if answer.status_code == 204:
                return Reply("done")
            if answer.status_code != 202:
                is_json = answer.headers.get("content-type", "").startswith("application/json")
                value = answer.json() if is_json else answer.content
                return Reply("done", value, body=answer.content)
            if time.monotonic() >= end:
                return Reply("pending")

    async def _history(self, type: str, id: str) -> list[Life]:
        """The ended lives of a task, latest first."""
        fate = await self._call("GET", place(type, id, "/history"))
        return [read(Life, life) for life in fate["lives"]]

    # Batches and recurring tasks.

    async def _send_batch(
        self, name: str, tasks: Iterable[Job], then: Job, *, wait_for_dead: bool = False
    ) -> Batch:
        """Sends tasks of any types, and one more that is created once all of them have ended."""
        form: dict[str, Any] = {"tasks": [job.line() for job in tasks], "then": then.line()}
        form["wait_for_dead"], path = wait_for_dead, f"/batches/{segment(name)}"
        return read(Batch, await self._call("PUT", path, json=form, longer=LARGE))

    async def _batch(self, name: str) -> BatchState | None:
        """How far a batch is, or None if it is unknown or forgotten."""
        try:
            return read(BatchState, await self._call("GET", f"/batches/{segment(name)}"))
        except NotFound:
            return None

    async def _cancel_batch(self, name: str) -> int:
        """Cancels what has not ended of a batch, and says how many; no task follows then."""
        said = await self._call("DELETE", f"/batches/{segment(name)}", longer=LARGE)
        return int(said["changed"])

    async def _set_recurring(
        self, id: str, type: str, every: str, message: Any = None, *, zone: str | None = None,
        headers: dict[str, str] | None = None, group: str | None = None, paused: bool = False,
    ) -> Recurring:  # fmt: skip
        """Declares or changes a recurring task. `every` is five fields of cron, or such as 15m."""
        line = Job(type, message, headers=headers, group=group).line()
        form = {**line, "every": every, "zone": zone, "paused": paused}
        return read(Recurring, await self._call("PUT", f"/recurring/{segment(id)}", json=form))

    async def _pause_recurring(self, id: str) -> Recurring:
        """Sends no occurrences until it is resumed, and cancels the waiting one."""
        return read(Recurring, await self._call("POST", f"/recurring/{segment(id)}/pause"))

    async def _resume_recurring(self, id: str) -> Recurring:
        """Sends occurrences again."""
        return read(Recurring, await self._call("POST", f"/recurring/{segment(id)}/resume"))

    async def _remove_recurring(self, id: str) -> bool:
        """Removes a recurring task and its waiting occurrence; false if there was none."""
        try:
            await self._call("DELETE", f"/recurring/{segment(id)}")
        except NotFound:
            return False
        return True

    async def _list_recurring(self) -> list[Recurring]:
        """The recurring tasks that were declared to the server."""
        params: dict[str, Any] = {"limit": 128}
        found: list[Recurring] = []
        while True:
            page = await self._call("GET", "/recurring", params=params)
            found += [read(Recurring, one) for one in page["recurring"]]
            if not page.get("next"):
                return found
            params["cursor"] = page["next"]

    send, asend = blocking(_send), awaited(_send)
    send_all, asend_all = blocking(_send_all), awaited(_send_all)
    cancel, acancel = blocking(_cancel), awaited(_cancel)
    reschedule, areschedule = blocking(_reschedule), awaited(_reschedule)
    run_now, arun_now = blocking(_run_now), awaited(_run_now)
    update, aupdate = blocking(_update), awaited(_update)
    find, afind = blocking(_find), awaited(_find)
    reply, areply = blocking(_reply), awaited(_reply)
    history, ahistory = blocking(_history), awaited(_history)
    send_batch, asend_batch = blocking(_send_batch), awaited(_send_batch)
    batch, abatch = blocking(_batch), awaited(_batch)
    cancel_batch, acancel_batch = blocking(_cancel_batch), awaited(_cancel_batch)
    set_recurring, aset_recurring = blocking(_set_recurring), awaited(_set_recurring)
    pause_recurring, apause_recurring = blocking(_pause_recurring), awaited(_pause_recurring)
    resume_recurring, aresume_recurring = blocking(_resume_recurring), awaited(_resume_recurring)
    remove_recurring, aremove_recurring = blocking(_remove_recurring), awaited(_remove_recurring)
    list_recurring, alist_recurring = blocking(_list_recurring), awaited(_list_recurring)

    # Working.

    def task(
        self, type: str, *, concurrency: int = 1, lock: Span = "60s", retry: Retry | None = None
    ) -> Callable[[F], F]:
        """Registers a handler, `async def` or `def`, for the tasks of a type.

        It gets the message, as the type of its first parameter, and a `Context` as `cx`. What it
        returns is the reply. `concurrency` of them run at a time; a `def` runs in a thread.
        """

        def register(function: F) -> F:
            handler = Handler(type, function, concurrency, lock, retry)
            with self._guard:
                if self._handlers.setdefault(type, handler) is not handler:
                    raise ValueError(f"the type {type} has a handler already")
                if self._worker:
                    self._worker.add(handler)
            return function

        return register

    def around(self, hook: Around) -> Around:
        """Runs each attempt within the context manager that this function makes of its `cx`."""
        self._around.append(hook)
        return hook

    def run(self) -> None:
        """Works until SIGTERM or SIGINT; then ends gracefully. A second signal ends at once."""
        told: queue.SimpleQueue[int] = queue.SimpleQueue()  # an event has a lock
        names = ("SIGTERM", "SIGINT", "SIGBREAK")
        signals = [getattr(signal, name) for name in names if hasattr(signal, name)]

        def stop(number: int, _frame: object) -> None:
            for one in signals:
                signal.signal(one, signal.SIG_DFL)
            told.put(number)

        before = [signal.signal(one, stop) for one in signals]
        try:
            self.start()
            while told.empty():  # in steps, because no signal ends a wait on Windows
                with contextlib.suppress(queue.Empty):
                    told.put(told.get(timeout=1))
            log.info("stopping: %s s for the tasks that run", self._grace)
            self.stop()
        finally:
            for one, former in zip(signals, before, strict=True):
                signal.signal(one, former)

    def start(self) -> None:
        """Works in the background. Coroutines run on an event loop in a thread of their own."""
        self._start(None)

    def stop(self) -> None:
        """Claims no more, waits for what runs, gives back what does not end within `grace`."""
        if self._worker:
            self._run(self._worker.stop(self._grace))
        self._worker = None

    async def astart(self) -> None:
        """Works in the background. Coroutines run on the event loop of the caller."""
        self._start(asyncio.get_running_loop())

    async def astop(self) -> None:
        """As `stop`, for `async` code."""
        if self._worker:
            await self._wait(self._worker.stop(self._grace))
        self._worker = None

    def _start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if self._worker:
            raise RuntimeError("the app works already")
        if not self._handlers:
            raise RuntimeError("there is no handler: register one with @app.task(..)")
        io = self._io()
        with self._guard:
            self._worker = Worker(self._transport, io.loop, self._around, loop)
            for handler in self._handlers.values():
                self._worker.add(handler)

    def close(self) -> None:
        """Stops working and closes the connections. Another call opens them again."""
        self.stop()
        if self._thread and self._thread.pid == os.getpid():
            self._run(self._transport.http.aclose())
            self._thread.stop()
        self._thread = None

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def chunks(left: list[int], jobs: list[Job], lines: list[bytes]) -> Iterator[list[int]]:
    """The jobs by type, in requests that are not too long."""
    chunk: list[int] = []
    size = 0
    for index in sorted(left, key=lambda one: jobs[one].type):
        is_other = bool(chunk) and jobs[chunk[0]].type != jobs[index].type
        if chunk and (is_other or len(chunk) == LINES or size + len(lines[index]) > LINE_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(index)
        size += len(lines[index])
    if chunk:
        yield chunk
