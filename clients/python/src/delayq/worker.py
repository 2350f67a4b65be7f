"""The loops that claim tasks, extend their locks and report their ends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import math
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from .context import Context, log
from .errors import DelayqError, InvalidInput, LimitExceeded, LockLost
from .handler import Around, End, Handler
from .transport import Backoff, LoopThread, Transport, checked, lost, repeats, segment

WAIT, MOST = 30, 128  # seconds, tasks
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
        self,
        transport: Transport,
        loop: asyncio.AbstractEventLoop,
        around: list[Around],
        handlers_loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.transport, self.loop, self.around = transport, loop, around
        self.handlers_loop = handlers_loop
        self.handlers_thread: LoopThread | None = None
        self.threads = Threads()
        self.claims: set[asyncio.Task[None]] = set()
        self.attempts: dict[asyncio.Task[None], Context] = {}
        self.stopping, self.giving_up = asyncio.Event(), asyncio.Event()
        self.last = math.inf  # when the last end has to be reported

    def add(self, handler: Handler) -> None:
        """Begins to work on the tasks of a type. May be called on any thread."""
        if handler.is_async and not self.handlers_loop:
            self.handlers_thread = LoopThread("delayq-handlers")
            self.handlers_loop = self.handlers_thread.loop

        def begin() -> None:
            self.claims.add(self.loop.create_task(self.serve(handler)))

        self.loop.call_soon_threadsafe(begin)

    async def stop(self, grace: float) -> None:
        """Ends the work; what does not end within `grace` is given back."""
        self.stopping.set()
        for tasks, span in ((self.claims, self.transport.timeout), (self.attempts, grace)):
            if tasks:
                await asyncio.wait(set(tasks), timeout=span)
        for cx in self.attempts.values():
            cx._stop("shutdown")
        if self.attempts:
            await asyncio.wait(set(self.attempts), timeout=AFTER_STOP)
        self.last = time.monotonic() + TO_REPORT
        self.giving_up.set()
        if self.attempts:
            await asyncio.wait(set(self.attempts), timeout=TO_REPORT + 1)
        if self.handlers_thread:
            self.handlers_thread.loop.call_soon_threadsafe(self.handlers_thread.loop.stop)

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
                claimed = await self.claim(handler, min(free, MOST), stop)
            except Exception as error:
                if not backoff:
                    log.warning("tasks of %s cannot be claimed: %s", handler.type, error)
                backoff = backoff or Backoff()
                asked = getattr(error, "retry_after", None)
                await asyncio.wait({stop}, timeout=backoff.next(asked))
                continue
            if backoff:
                log.warning("tasks of %s can be claimed again", handler.type)
            backoff = None
            for facts in claimed:
                task = self.loop.create_task(self.attempt(handler, Context(facts), facts["lock"]))
                running.add(task)
                task.add_done_callback(running.discard)
            if not claimed and time.monotonic() - asked_at < 1:  # a server that ends
                await asyncio.wait({stop}, timeout=0.5)

    async def claim(
        self, handler: Handler, limit: int, stop: asyncio.Future[Any]
    ) -> list[dict[str, Any]]:
        http, span = self.transport.http, WAIT + self.transport.timeout
        url = f"{self.transport.base}/types/{segment(handler.type)}/claim"
        params = {"limit": limit, "wait": WAIT * 1000, "lock_for": handler.lock}
        request = http.build_request("POST", url, params=params)
        with self.transport.errors(span):
            sent = asyncio.ensure_future(http.send(request, stream=True))
            both = {sent, stop}
            await asyncio.wait(both, timeout=span, return_when=asyncio.FIRST_COMPLETED)
            if not sent.done():
                sent.cancel()  # closes the connection: the server counts no attempt
                await asyncio.wait({sent})
            if sent.cancelled():
                if stop.done():
                    return []
                raise lost(f"no answer within {span:g} s", True)
            answer = sent.result()
            try:
                await asyncio.wait_for(answer.aread(), self.transport.timeout)
            finally:
                await answer.aclose()
        tasks: list[dict[str, Any]] = checked(answer).json()["tasks"]
        return tasks

    async def attempt(self, handler: Handler, cx: Context, lock: str) -> None:
        """One attempt, from the claim to the report of its end."""
        held = Held(self, handler, cx, lock)
        task = asyncio.current_task()
        assert task
        self.attempts[task] = cx
        keeper = self.loop.create_task(held.keep())
        try:
            end = End("release") if self.stopping.is_set() else await self.perform(handler, cx)
            if cx.lost.is_set():
                log.warning("%s: its end is not reported, because its lock was lost", cx)
            else:
                held.is_ending = True
                await held.settle(end)
        except Exception:
            log.exception("%s: a defect of delayq", cx)
        finally:
            keeper.cancel()
            del self.attempts[task]

    async def perform(self, handler: Handler, cx: Context) -> End:
        """Calls the handler, and waits for it, or for the end of the program."""
        if handler.is_async and self.handlers_loop:
            work = handler.acall(cx, self.around)
            future = asyncio.run_coroutine_threadsafe(work, self.handlers_loop)
        else:
            future = self.threads.run(lambda: handler.call(cx, self.around))
        ended = asyncio.wrap_future(future)
        give_up = asyncio.ensure_future(self.giving_up.wait())
        await asyncio.wait({ended, give_up}, return_when=asyncio.FIRST_COMPLETED)
        give_up.cancel()
        if not ended.done():
            log.warning("%s: it did not end in time, and is given back", cx)
            return End("release")
        if ended.cancelled():
            return handler.end(cx, None, asyncio.CancelledError())
        error = ended.exception()
        return handler.end(cx, None if error else ended.result(), error)


class Held:
    """A lock that an attempt holds."""

    def __init__(self, worker: Worker, handler: Handler, cx: Context, lock: str) -> None:
        self.transport, self.worker = worker.transport, worker
        self.handler, self.cx, self.lock = handler, cx, lock
        self.path = f"/types/{segment(cx.type)}/tasks/{segment(cx.id)}"
        self.began = time.monotonic()
        self.is_ending = False

    @property
    def until(self) -> float:
        return self.began + self.handler.lock / 1000

    async def keep(self) -> None:
        """Extends the lock every third of its time, until it is lost."""
        params = {"lock": self.lock, "lock_for": self.handler.lock}
        third, wait = self.handler.lock / 3000, self.handler.lock / 3000
        while True:
            await asyncio.sleep(min(wait, self.until - time.monotonic()))
            asked_at = time.monotonic()
            if asked_at >= self.until:
                return self.lose("no extension was answered in time")
            try:
                sent = self.transport.once("POST", f"{self.path}/extend", params=params)
                answer = await asyncio.wait_for(sent, self.until - asked_at)
            except LockLost as error:
                return self.lose(error.detail)
            except (DelayqError, asyncio.TimeoutError) as error:
                log.warning("%s: its lock was not extended: %s", self.cx, error)
                wait = min(third, max(third / 10, getattr(error, "retry_after", None) or 0.2))
                continue
            self.began, wait = asked_at, third - (time.monotonic() - asked_at)
            if answer.json()["outcome"] == "cancel_requested":
                self.cx._stop("cancelled")

    def lose(self, why: str) -> None:
        if not self.is_ending:
            log.warning("%s: its lock is lost: %s", self.cx, why)
            self.cx._stop("lost")

    async def settle(self, end: End) -> None:
        """Reports the end until that is certain, for as long as it makes sense."""
        patience = self.transport.patience
        what, parts = end.request(self.cx)
        params = {**parts.pop("params", {}), "lock": self.lock}
        try:
            await self.transport.call(
                "POST", f"{self.path}/{what}", params=params,
                until=lambda: min(self.until + patience, self.worker.last), **parts,
            )  # fmt: skip
        except LockLost as error:
            log.warning("%s: its end was not taken: %s", self.cx, error)
        except DelayqError as error:
            if repeats(error) or end.what != "done":
                log.error("%s: it is unknown whether its end was taken: %s", self.cx, error)
                return
            # The work is done, and a repetition would be refused as well.
            text = f"its reply or follow-up was refused: {error}"
            log.error("%s: %s", self.cx, text)
            is_final = isinstance(error, (InvalidInput, LimitExceeded))
            failed = self.handler.failed(self.cx, text, None)
            await self.settle(End("dead", error=text) if is_final else failed)
