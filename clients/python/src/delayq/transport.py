"""One thread that makes all requests, for callers of every kind."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from .errors import REPEATED, DelayqError, InvalidInput, lost, of_answer

T = TypeVar("T")
# It has a line for each request at the level INFO, and a worker asks again and again.
logging.getLogger("httpx").addFilter(lambda record: record.threadName != "delayq")
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class LoopThread:
    """An event loop in a thread of its own, which does not keep the program alive."""

    def __init__(self, name: str) -> None:
        self.loop, self.pid = asyncio.new_event_loop(), os.getpid()
        self.thread = threading.Thread(target=self.serve, name=name, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        self.loop.run_forever()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it there, and blocks until it has ended."""
        if threading.current_thread() is self.thread:
            work.close()
            raise RuntimeError("this call would wait for itself: make it from another thread")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:  # such as Ctrl-C
            future.cancel()
            raise

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it there, and awaits it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)


def address(url: str | None, token: str | None, namespace: str | None) -> tuple[str, str]:
    """The URL of the namespace, and the token, from the options or the environment."""
    url = (os.environ.get("DELAYQ_HTTP", "") if url is None else url).strip()
    token = (os.environ.get("DELAYQ_TOKEN", "") if token is None else token).strip()
    if not url:
        raise InvalidInput("no address: give url, such as http://HOST:7880, or set DELAYQ_HTTP")
    if not token:
        raise InvalidInput("no token: give token, or set DELAYQ_TOKEN")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InvalidInput("the token has a blank or another character that no token has")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{parts.scheme or url}: this is no address of HTTP: write http://HOST:PORT")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise InvalidInput("a url has no query, no fragment and no user: the token is an option")
    path, _, named = parts.path.rstrip("/").rpartition("/v1/")
    if not named or "/" in named:
        path, named = parts.path.rstrip("/").removesuffix("/v1"), ""
    if namespace and named and namespace != named:
        raise InvalidInput(f"the url is for the namespace {named}, and namespace is {namespace}")
    return f"{parts.scheme}://{parts.netloc}{path}/v1/{named or namespace or 'default'}", token


def segment(text: str) -> str:
    """A part of a path. The ids . and .. would be steps in it."""
    if not text:
        raise InvalidInput("a type, an id or a name is empty")
    return quote(text, safe="") if text.strip(".") else text.replace(".", "%2E")


class Transport:
    """Requests to a namespace. All of it runs on the thread of the requests."""

    def __init__(
        self, base: str, token: str, timeout: float, patience: float, tls: ssl.SSLContext | None
    ) -> None:
        self.base, self.token, self.timeout, self.patience = base, token, timeout, patience
        self.tls = tls

    @functools.cached_property
    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers={"authorization": f"Bearer {self.token}", "user-agent": "delayq-python"},
            timeout=httpx.Timeout(None, connect=self.timeout / 2), verify=self.tls or True,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )  # fmt: skip

    async def once(
        self, method: str, path: str, *, longer: float = 0, **parts: Any
    ) -> httpx.Response:
        """One request. Any status from 300 on is an error, as is a lost answer."""
        span = self.timeout + longer
        with self.errors(span):
            sent = self.http.request(method, self.base + path, **parts)
            return checked(await asyncio.wait_for(sent, span))

    async def call(
        self, method: str, path: str, *, until: Callable[[], float] | None = None, **parts: Any
    ) -> httpx.Response:
        """Repeats a request while its end is not certain or the server is away.

        `until` says until when, by the monotonic clock. All requests that come here may be
        carried out twice: they have an id, or say how the state shall be.
        """
        end, is_in_doubt, backoff = time.monotonic() + self.patience, False, Backoff()
        while True:
            try:
                return await self.once(method, path, **parts)
            except DelayqError as error:
                if not repeats(error):
                    raise
                is_in_doubt = error.is_in_doubt = error.is_in_doubt or is_in_doubt
                wait, left = backoff.next(error), (until() if until else end) - time.monotonic()
                if left <= 0 or (error.retry_after or 0) > left:
                    raise
                await asyncio.sleep(min(wait, left))

    @contextmanager
    def errors(self, span: float) -> Iterator[None]:
        """Turns the errors of the HTTP library into those of this package."""
        try:
            yield
        except asyncio.TimeoutError:
            raise lost(f"no answer within {span:g} s", True) from None
        except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError) as error:
            text = f"this cannot be sent: {error} (headers are of visible ASCII)"
            raise InvalidInput(text) from error
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            if "SSL:" in said:
                hint = f"does {self.base} speak TLS, and is its certificate trusted?"
                raise InvalidInput(f"{hint} ({said})") from error
            is_in_doubt = not isinstance(error, NOT_SENT)
            raise lost(f"{self.base} was not reached: {said}", is_in_doubt) from error


class Backoff:
    """Waits of 100 ms to 5 s, or as long as the server says."""

    wait = 0.1

    def next(self, error: object = None) -> float:
        wait, self.wait = self.wait, min(self.wait * 2, 5.0)
        return max(wait * random.uniform(0.5, 1), getattr(error, "retry_after", None) or 0)


def repeats(error: object) -> bool:
    is_ours = isinstance(error, DelayqError) and error.is_repeatable
    return is_ours and (getattr(error, "status", None) or 504) in REPEATED


def checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_redirect:
        raise InvalidInput(f"the server is elsewhere: {answer.headers.get('location')}")
    if answer.status_code >= 300:
        after = answer.headers.get("retry-after")
        raise of_answer(answer.status_code, answer.content, after)
    return answer
