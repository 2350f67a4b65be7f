"""The application's side of a delayq server."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import os
import signal
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypedDict, TypeVar

from . import tracing
from .errors import DelayqError, InvalidInput, NotFound, Unavailable, of_problem
from .transport import Backoff, LoopThread, Transport, address, repeats, segment
from .values import (
    Batch, BatchCancelled, BatchState, Changed, Job, Life, Receipt, Recurring, Reply, Retry, Span,
    Task, Time, moment, read, seconds, written_span, written_time,
)  # fmt: skip
from .context import log
from .handler import Around, Handler
from .worker import Worker

if TYPE_CHECKING:
    from typing import Literal

    from typing_extensions import Unpack

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Operation = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
LINES, LINE_BYTES = 1000, 1 << 20


class Options(TypedDict, total=False):
    """The options of a send, which are the fields of a `Job`."""

    id: str | None
    after: Span | None
    at: Time | None
    on_conflict: Literal["reject", "keep", "replace"] | None
    debounce: Span | None
    max_wait: Span | None
    throttle: Span | None
    expires_after: Span | None
    expires_at: Time | None
    group: str | None
    project: str | None
    headers: dict[str, str]
    again_if_running: bool


def blocking(work: Operation[P, T]) -> Callable[Concatenate[Any, P], T]:
    """The form of an operation for plain code: it blocks until the server has answered."""

    @functools.wraps(work)
    def call(self: App, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            name = work.__name__.lstrip("_")
            text = f"app.{name} blocks the event loop: write await app.a{name}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return self._run(work(self, *args, **named))

    return call


def awaited(work: Operation[P, T]) -> Operation[P, T]:
    """The form of an operation for `async` code."""

    @functools.wraps(work)
    async def call(self: App, /, *args: P.args, **named: P.kwargs) -> T:
        return await self._wait(work(self, *args, **named))

    return call


def place(type: str, id: str, rest: str = "") -> str:
    return f"/types/{segment(type)}/tasks/{segment(id)}{rest}"


class App:
    """Sends tasks, changes them, and works on them.

    Each operation has two forms: `app.send(..)` blocks, and `await app.asend(..)` is for `async`
    code. An app may be used from all threads, and may be made before a fork.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        namespace: str | None = None,
        timeout: Span = 10,
        patience: Span = 30,
        grace: Span = 20,
        tls: ssl.SSLContext | None = None,
        trace_own_ids: bool = False,
    ) -> None:
        self._address = address(url, token, namespace)
        self._timeout, self._patience, self._tls = seconds(timeout), seconds(patience), tls
        self._grace, self._trace_own_ids = seconds(grace), trace_own_ids
        self._handlers: dict[str, Handler] = {}
        self._around: list[Around] = []
        self._thread: LoopThread | None = None
        self._worker: Worker | None = None
        self._guard = threading.Lock()

    # The thread of the requests.

    def _io(self) -> LoopThread:
        with self._guard:
            if self._thread is None or self._thread.pid != os.getpid():  # after a fork
                self._thread = LoopThread("delayq")
                patience = (self._timeout, self._patience, self._tls)
                self._transport = Transport(*self._address, *patience)
            return self._thread

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._io().run(work)

    async def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._io().wait(work)

    async def _call(self, method: str, path: str, **parts: Any) -> Any:
        answer = await self._transport.call(method, path, **parts)
        return answer.json() if answer.status_code != 204 else None

    # Sending.

    async def _send(
        self,
        type: str,
        message: Any = None,
        *,
        wait: Span | None = None,
        **options: Unpack[Options],
    ) -> Receipt:
        """Sends a task, and with `wait` waits so long for its reply.

        Without an `id` the task gets a random one, so that a lost answer does no harm.
        """
        job = self._ready(Job(type, message, **options))
        if tidy(job):
            content, headers = job.content()
            names = {name if name == "content-type" else f"delayq-header-{name}": value
                     for name, value in headers.items()}  # fmt: skip
            facts = await self._call(
                "PUT", place(type, str(job.id)), params=job.options(), content=content, headers=names
            )
        else:
            (answer,) = await self._send_many([job])
            if isinstance(answer, DelayqError):
                raise answer
            facts = vars(answer) | {"due_at": answer.due_at and written_time(answer.due_at)}
        receipt = read(Receipt, facts)
        if wait is None:
            return receipt
        reply = await self._reply(type, receipt.id, wait)
        state = receipt.state if reply.state == "pending" else reply.state
        return Receipt(**vars(receipt) | {"reply": reply, "state": state})

    def _ready(self, job: Job) -> Job:
        has_own_id = job.id is not None
        job = job.with_id()
        # The same request with another trace would be another one, and a conflict.
        if not has_own_id or self._trace_own_ids:
            headers = {**tracing.of_current_span(), **job.headers}
            return dataclasses.replace(job, headers=headers)
        return job

    async def _send_many(self, jobs: Iterable[Job]) -> list[Receipt | DelayqError]:
        """Sends many tasks. Each has a receipt or an error, in the order of the tasks."""
        answers: dict[int, Receipt | DelayqError] = {}
        jobs, lines = list(jobs), []
        for index, job in enumerate(jobs):
            try:
                line = json.dumps(self._ready(job).line(), ensure_ascii=False)
                lines.append(line.encode() + b"\n")
            except InvalidInput as error:
                answers[index] = error
                lines.append(b"")
        left = [index for index in range(len(jobs)) if lines[index]]
        end, backoff = time.monotonic() + self._patience, Backoff()
        while True:
            asked = 0.0
            for chunk in chunks(left, jobs, lines):
                await self._send_chunk(jobs[chunk[0]].type, chunk, lines, answers)
            left = []
            for index, answer in answers.items():
                if isinstance(answer, DelayqError) and repeats(answer):
                    left.append(index)
                    asked = max(asked, answer.retry_after or 0)
            wait = backoff.next(asked)
            if not left or time.monotonic() + wait > end:
                return [answers[index] for index in range(len(jobs))]
            await asyncio.sleep(wait)

    async def _send_chunk(
        self,
        type: str,
        chunk: list[int],
        lines: list[bytes],
        answers: dict[int, Receipt | DelayqError],
    ) -> None:
        body = b"".join(lines[index] for index in chunk)
        headers = {"content-type": "application/x-ndjson"}
        path = f"/types/{segment(type)}/bulk"
        said: list[bytes] = []
        problem: DelayqError = Unavailable("there was no answer for it", kind="in-doubt")
        problem.is_in_doubt = problem.is_repeatable = True
        try:
            answer = await self._transport.once(
                "POST", path, content=body, headers=headers, longer=20
            )
            said = answer.content.splitlines()
        except DelayqError as error:
            problem = error
        for index in chunk:
            answers[index] = problem
        for facts in (json.loads(line) for line in said):
            index = facts["line"] - 1
            if index < len(chunk) and "problem" in facts:
                refusal = facts["problem"]
                answers[chunk[index]] = of_problem(refusal["status"], refusal)
            elif index < len(chunk):
                answers[chunk[index]] = read(Receipt, facts)

    # Tasks that were sent.

    async def _cancel(self, type: str, id: str) -> Changed:
        """Cancels a task. The outcome is `cancelled`, or `running`: it is asked to stop."""
        return read(Changed, await self._call("DELETE", place(type, id)))

    async def _reschedule(
        self, type: str, id: str, *, after: Span | None = None, at: Time | None = None
    ) -> Changed:
        """Moves a scheduled task to another time."""
        times = {"delay": written_span(after), "at": written_time(at)}
        params = {name: value for name, value in times.items() if value is not None}
        return await self._change("POST", place(type, id, "/reschedule"), params=params)

    async def _run_now(self, type: str, id: str) -> Changed:
        """Makes a scheduled task due now."""
        return await self._change("POST", place(type, id, "/run-now"))

    async def _update(self, type: str, id: str, message: Any) -> Changed:
        """Replaces the message of a scheduled task."""
        content, headers = Job(type, message).content()
        path = place(type, id, "/message")
        return await self._change("PUT", path, content=content, headers=headers)

    async def _change(self, method: str, path: str, **parts: Any) -> Changed:
        return read(Changed, {"outcome": "changed", **await self._call(method, path, **parts)})

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
            params = {"wait": round(left * 1000)}
            path = place(type, id, "/reply")
            try:
                answer = await self._transport.call("GET", path, params=params, longer=left)
            except DelayqError as error:
                if error.status not in (410, 424):
                    raise
                return Reply(error.kind, error=error.detail)
            if answer.status_code == 204:
                return Reply("done")
            if answer.status_code != 202:
                kind = answer.headers.get("content-type", "")
                is_json = kind.partition(";")[0].strip() == "application/json"
                value = answer.json() if is_json else answer.content
                return Reply("done", value, body=answer.content, content_type=kind)
            if time.monotonic() >= end:
                return Reply("pending")

    async def _history(self, type: str, id: str) -> list[Life]:
        """The ended lives of a task, latest first."""
        fate = await self._call("GET", place(type, id, "/history"))
        return [read(Life, life) for life in fate["lives"]]

    # Batches and recurring tasks.

    async def _batch(
        self, name: str, tasks: Iterable[Job], then: Job, *, wait_for_dead: bool = False
    ) -> Batch:
        """Sends tasks of any types, and one more that is created once all of them have ended."""
        form = {"tasks": [job.typed_line() for job in tasks], "then": then.typed_line()}
        if wait_for_dead:
            form["wait_for_dead"] = True
        path = f"/batches/{segment(name)}"
        return read(Batch, await self._call("PUT", path, json=form, longer=50))

    async def _batch_state(self, name: str) -> BatchState | None:
        """How far a batch is, or None if it is unknown or forgotten."""
        try:
            return read(BatchState, await self._call("GET", f"/batches/{segment(name)}"))
        except NotFound:
            return None

    async def _cancel_batch(self, name: str) -> BatchCancelled:
        """Cancels the tasks of a batch that have not ended; the one that follows does not come."""
        said = await self._call("DELETE", f"/batches/{segment(name)}", longer=50)
        return read(BatchCancelled, said)

    async def _set_recurring(
        self,
        id: str,
        type: str,
        every: str,
        message: Any = None,
        *,
        zone: str | None = None,
        headers: dict[str, str] | None = None,
        group: str | None = None,
        paused: bool = False,
    ) -> Recurring:
        """Declares or changes a recurring task. `every` is five fields of cron, or such as 15m."""
        line = Job(type, message, headers=headers or {}, group=group).typed_line()
        form = {**line, "every": every, "paused": paused} | ({"zone": zone} if zone else {})
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

    async def _recurring(self) -> list[Recurring]:
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
    send_many, asend_many = blocking(_send_many), awaited(_send_many)
    cancel, acancel = blocking(_cancel), awaited(_cancel)
    reschedule, areschedule = blocking(_reschedule), awaited(_reschedule)
    run_now, arun_now = blocking(_run_now), awaited(_run_now)
    update, aupdate = blocking(_update), awaited(_update)
    find, afind = blocking(_find), awaited(_find)
    reply, areply = blocking(_reply), awaited(_reply)
    history, ahistory = blocking(_history), awaited(_history)
    batch, abatch = blocking(_batch), awaited(_batch)
    batch_state, abatch_state = blocking(_batch_state), awaited(_batch_state)
    cancel_batch, acancel_batch = blocking(_cancel_batch), awaited(_cancel_batch)
    set_recurring, aset_recurring = blocking(_set_recurring), awaited(_set_recurring)
    pause_recurring, apause_recurring = blocking(_pause_recurring), awaited(_pause_recurring)
    resume_recurring, aresume_recurring = blocking(_resume_recurring), awaited(_resume_recurring)
    remove_recurring, aremove_recurring = blocking(_remove_recurring), awaited(_remove_recurring)
    recurring, arecurring = blocking(_recurring), awaited(_recurring)

    # Working.

    def task(
        self, type: str, *, concurrency: int = 1, lock: Span = "60s", retry: Retry | None = None
    ) -> Callable[[F], F]:
        """Registers a handler, `async def` or `def`, for the tasks of a type.

        It gets the message, as the type of its first parameter, and a `Context` as `cx`. What it
        returns is the reply. `concurrency` of them run at a time; a `def` runs in a thread.
        """

        def register(function: F) -> F:
            if type in self._handlers:
                raise InvalidInput(f"the type {type} has a handler already")
            handler = Handler(type, function, concurrency, lock, retry)
            self._handlers[type] = handler
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
        told = threading.Event()
        names = ("SIGTERM", "SIGINT", "SIGBREAK")
        signals = [getattr(signal, name) for name in names if hasattr(signal, name)]

        def stop(number: int, _frame: object) -> None:
            for one in signals:
                signal.signal(one, signal.SIG_DFL)
            told.set()

        before = [signal.signal(one, stop) for one in signals]
        try:
            self.start()
            while not told.wait(1):  # Windows has no wait that a signal ends
                pass
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
        self._worker = Worker(self._transport, io.loop, self._around, loop)
        for handler in self._handlers.values():
            self._worker.add(handler)

    def close(self) -> None:
        """Stops working and closes the connections. Another call opens them again."""
        self.stop()
        if self._thread and self._thread.pid == os.getpid():
            self._run(self._transport.close())
            self._thread.stop()
        self._thread = None

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def tidy(job: Job) -> bool:
    """True if the task can be sent as a request of its own; else it takes a line of JSON."""
    names, values = job.headers, job.headers.values()
    is_plain = all(name.isascii() and name.replace("-", "").isidentifier() for name in names)
    is_plain &= all(one.isascii() and one.isprintable() and one == one.strip() for one in values)
    return is_plain and job.id not in (".", "..")


def chunks(left: list[int], jobs: list[Job], lines: list[bytes]) -> Iterable[list[int]]:
    """The jobs by type, in requests that are not too long."""
    kinds: dict[str, list[int]] = {}
    for index in left:
        kinds.setdefault(jobs[index].type, []).append(index)
    for indexes in kinds.values():
        chunk: list[int] = []
        size = 0
        for index in indexes:
            if chunk and (len(chunk) == LINES or size + len(lines[index]) > LINE_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(index)
            size += len(lines[index])
        yield chunk
