"""The loops that claim tasks, extend their locks and report their ends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from .context import Context, log
from .errors import DelayqError, LockLost, lost
from .handler import RELEASE, Around, Handler, Report
from .transport import Backoff, LoopThread, Transport, checked, repeats, segment

WAIT, MOST = 30, 128  # of a claim: seconds, tasks
AFTER_STOP, TO_REPORT = 2, 5  # seconds for handlers that were told to stop, and for the last ends


class Threads:
    """Threads for plain handlers. The program may end while they run."""

    def __init__(self) -> None:
        self.work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.idle = threading.Semaphore(0)

    def run(self, function: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                future.set_result(context.run(function))
            except BaseException as error:
                future.set_exception(error)

        self.work.put(work)
        if not self.idle.acquire(blocking=False):
            threading.Thread(target=self.serve, name="delayq-task", daemon=True).start()
        return future

    def serve(self) -> None:
        while True:
            self.work.get()()
            self.idle.release()


class Worker:
    """Works on the tasks of some handlers. Its coroutines run on the thread of the requests."""

    def __init__(
        self, transport: Transport, io: asyncio.AbstractEventLoop, around: list[Around],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:  # fmt: skip
        self.transport, self.io, self.around, self.loop = transport, io, around, loop
        self.thread: LoopThread | None = None
        self.threads = Threads()
        self.claims: set[asyncio.Task[None]] = set()
        self.attempts: dict[asyncio.Task[None], Context] = {}
        self.stopping, self.giving_up = asyncio.Event(), asyncio.Event()
        self.last = math.inf  # when the last end has to be reported

    def add(self, handler: Handler) -> None:
        """Begins to work on the tasks of a type. May be called on any thread."""
        if handler.is_async and not self.loop:
            self.thread = LoopThread("delayq-handlers")
            self.loop = self.thread.loop
        begin = lambda: self.claims.add(self.io.create_task(self.serve(handler)))  # noqa: E731
        self.io.call_soon_threadsafe(begin)

    async def stop(self, grace: float) -> None:
        """Ends the work; what does not end within `grace` is given back."""
        self.stopping.set()
        await ended(self.claims, self.transport.timeout)
        await ended(self.attempts, grace)
        for cx in self.attempts.values():
            cx._stop("shutdown")
        await ended(self.attempts, AFTER_STOP)
        self.last = time.monotonic() + TO_REPORT
        self.giving_up.set()
        await ended(self.attempts, TO_REPORT + 1)
        if self.thread:
            self.thread.stop()

    async def serve(self, handler: Handler) -> None:
        """Claims tasks of a type, never more than can start at once."""
        running: set[asyncio.Task[None]] = set()
        stop = asyncio.ensure_future(self.stopping.wait())
        backoff: Backoff | None = None  # while there is trouble
        while not stop.done():
            free = handler.places - len(running)
            if not free:
                await asyncio.wait({*running, stop}, return_when=asyncio.FIRST_COMPLETED)
                continue
            asked_at = time.monotonic()
            try:
                claimed, at = await self.claim(handler, min(free, MOST), stop)
                attempts = [Attempt(self, handler, facts, at) for facts in claimed]
            except Exception as error:
                if not backoff:
                    log.warning("tasks of %s cannot be claimed: %s", handler.type, error)
                backoff = backoff or Backoff()
                await asyncio.wait({stop}, timeout=backoff.next(error))
                continue
            if backoff:
                log.warning("tasks of %s can be claimed again", handler.type)
            backoff = None
            for attempt in attempts:
                task = self.io.create_task(attempt.run())
                running.add(task)
                task.add_done_callback(running.discard)
            if not claimed and time.monotonic() < asked_at + 1:  # such as by a server that ends
                await asyncio.wait({stop}, timeout=0.5)

    async def claim(
        self, handler: Handler, limit: int, stop: asyncio.Future[Any]
    ) -> tuple[list[dict[str, Any]], float]:
        """Waits for tasks. Returns them, and a time that is not after the begin of their locks."""
        http, span = self.transport.http, WAIT + self.transport.timeout
        url = f"{self.transport.base}/types/{segment(handler.type)}/claim"
        params = {"limit": limit, "wait": WAIT * 1000, "lock_for": handler.lock}
        with self.transport.errors(span):
            request = http.build_request("POST", url, params=params)
            sent = asyncio.ensure_future(http.send(request, stream=True))
            before = at = time.monotonic()
            end, step, first = at + span, min(1, handler.lock / 8000), asyncio.FIRST_COMPLETED
            # In steps, to know how old the answer may be. It may be there since the step before,
            # if the process was stopped in that one.
            while not (sent.done() or stop.done()) and at < end:
                before, at = at, time.monotonic()
                await asyncio.wait({sent, stop}, timeout=step, return_when=first)
            if not sent.done():
                sent.cancel()  # closes the connection: the server counts no attempt
                await asyncio.wait({sent})
            if sent.cancelled() and stop.done():
                return [], before
            if sent.cancelled():
                raise lost(f"no answer within {span:g} s", True)
            answer = sent.result()
            try:
                await asyncio.wait_for(answer.aread(), self.transport.timeout)
            finally:
                await answer.aclose()
        return checked(answer).json()["tasks"], before


async def ended(tasks: Iterable[asyncio.Task[None]], span: float) -> None:
    if some := set(tasks):
        await asyncio.wait(some, timeout=span)


class Attempt:
    """One attempt, from the claim to the report of its end."""

    def __init__(
        self, worker: Worker, handler: Handler, facts: dict[str, Any], at: float
    ) -> None:
        self.worker, self.handler, self.transport = worker, handler, worker.transport
        self.cx, self.lock = Context(facts), facts["lock"]
        self.path = f"/types/{segment(self.cx.type)}/tasks/{segment(self.cx.id)}"
        self.until = at + handler.lock / 1000
        self.is_ending = False

    async def run(self) -> None:
        task = asyncio.current_task()
        assert task
        self.worker.attempts[task] = self.cx
        keeper = asyncio.ensure_future(self.keep())
        try:
            if time.monotonic() >= self.until:  # the process was stopped
                self.cx._stop("lost")
            is_over = self.worker.stopping.is_set() or self.cx.lost.is_set()
            report = RELEASE if is_over else await self.perform()
            if self.cx.lost.is_set():
                log.warning("%s: its end is not reported, because its lock was lost", self.cx)
                return
            self.is_ending = True
            await self.settle(*report)
        except Exception:
            log.exception("%s: a defect of delayq", self.cx)
        finally:
            keeper.cancel()
            del self.worker.attempts[task]

    async def perform(self) -> Report:
        """Calls the handler, and waits for it, or for the end of the program."""
        cx, worker, handler = self.cx, self.worker, self.handler
        if handler.is_async and worker.loop:
            work = handler.acall(cx, worker.around)
            future = asyncio.run_coroutine_threadsafe(work, worker.loop)
        else:
            future = worker.threads.run(lambda: handler.call(cx, worker.around))
        returned = asyncio.wrap_future(future)
        give_up = asyncio.ensure_future(worker.giving_up.wait())
        await asyncio.wait({returned, give_up}, return_when=asyncio.FIRST_COMPLETED)
        give_up.cancel()
        if not returned.done():
            log.warning("%s: it did not end in time, and is given back", cx)
            return RELEASE
        error = asyncio.CancelledError() if returned.cancelled() else returned.exception()
        return handler.report(cx, None if error else returned.result(), error)

    async def keep(self) -> None:
        """Extends the lock every third of its time, until it is lost."""
        params = {"lock": self.lock, "lock_for": self.handler.lock}
        span = self.handler.lock / 1000
        wait, backoff = span / 3, Backoff()
        while True:
            await asyncio.sleep(min(wait, self.until - time.monotonic()))
            asked_at = time.monotonic()
            if asked_at >= self.until:
                return self.lose("no extension was answered in time")
            # Half of what is left, so that a connection that hangs does not cost the lock.
            most = max(0.5, (self.until - asked_at) / 2)
            try:
                sent = self.transport.once("POST", f"{self.path}/extend", params=params)
                said = (await asyncio.wait_for(sent, most)).json()["outcome"]
            except LockLost as error:
                return self.lose(error.detail)
            except Exception as error:  # also the page of a proxy
                level = logging.WARNING if wait == span / 3 else logging.DEBUG
                log.log(level, "%s: its lock was not extended: %s", self.cx, error)
                wait = backoff.next(error)
                continue
            self.until, wait, backoff = asked_at + span, span / 3, Backoff()
            if said == "cancel_requested":
                self.cx._stop("cancelled")

    def lose(self, why: str) -> None:
        if not self.is_ending:
            log.warning("%s: its lock is lost: %s", self.cx, why)
            self.cx._stop("lost")

    async def settle(self, what: str, parts: dict[str, Any]) -> None:
        """Reports the end until that is certain, for as long as it makes sense."""
        parts = {**parts, "params": {**parts.get("params", {}), "lock": self.lock}}
        until = lambda: min(self.until + self.transport.patience, self.worker.last)  # noqa: E731
        try:
            await self.transport.call("POST", f"{self.path}/{what}", until=until, **parts)
        except LockLost as error:
            log.warning("%s: its end was not taken: %s", self.cx, error)
        except DelayqError as error:
            text = f"its end was refused: {error}"  # such as a reply that is too long
            if repeats(error) or what == "fail":
                log.error("%s: it is unknown whether its end was taken: %s", self.cx, error)
            else:
                log.error("%s failed: %s", self.cx, text)
                await self.settle(*self.handler.retried(self.cx, text))
