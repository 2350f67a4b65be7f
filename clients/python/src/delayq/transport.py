"""One thread that makes all requests, for callers of every kind."""

from __future__ import annotations

import asyncio
import functools
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

from .errors import REPEATED, DelayqError, InvalidInput, Unavailable, of_answer

T = TypeVar("T")
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class LoopThread:
    """An event loop in a thread of its own, which does not keep the program alive."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.pid = os.getpid()
        self.thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it there, and blocks until it has ended."""
        if threading.current_thread() is self.thread:
            work.close()
            raise RuntimeError("this call would wait for itself: make it from another thread")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it there, and awaits it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)


def address(url: str | None, token: str | None, namespace: str | None) -> tuple[str, str]:
    """The URL of the namespace, and the token, from the options or the environment."""
    url = (url or os.environ.get("DELAYQ_HTTP", "")).strip()
    token = (os.environ.get("DELAYQ_TOKEN", "") if token is None else token).strip()
    if not url:
        raise InvalidInput(
            "no address of the server: give url, such as http://127.0.0.1:7880/v1/default, or set "
            "the variable DELAYQ_HTTP"
        )
    if not token:
        raise InvalidInput("no token: give token, or set the variable DELAYQ_TOKEN")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{parts.scheme}://.. is no address of HTTP: write http://HOST:PORT")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise InvalidInput("the url has no query, fragment or user: the token is an option")
    path, _, named = parts.path.rstrip("/").rpartition("/v1/")
    if not named or "/" in named:
        path, named = parts.path.rstrip("/").removesuffix("/v1"), ""
    if namespace and named and namespace != named:
        raise InvalidInput(f"the url is for the namespace {named}, and namespace is {namespace}")
    return f"{parts.scheme}://{parts.netloc}{path}/v1/{quote(named or namespace or 'default')}", token


class Transport:
    """Requests to a namespace. All of it runs on the thread of the requests."""

    def __init__(
        self, base: str, token: str, timeout: float, patience: float, tls: ssl.SSLContext | None
    ) -> None:
        self.base, self.timeout, self.patience = base, timeout, patience
        self.token, self.tls = token, tls

    @functools.cached_property
    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers={"authorization": f"Bearer {self.token}", "user-agent": "delayq-python"},
            timeout=httpx.Timeout(None, connect=self.timeout / 2),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            verify=True if self.tls is None else self.tls,
        )

    async def close(self) -> None:
        await self.http.aclose()
        self.__dict__.pop("http", None)

    async def once(
        self, method: str, path: str, *, longer: float = 0, **parts: Any
    ) -> httpx.Response:
        """One request. Any status from 400 on is an error, as is a lost answer."""
        span = self.timeout + longer
        with self.errors(span):
            answer = await asyncio.wait_for(
                self.http.request(method, self.base + path, **parts), span
            )
        return checked(answer)

    @contextmanager
    def errors(self, span: float) -> Iterator[None]:
        """Turns the errors of the HTTP library into those of this package."""
        try:
            yield
        except asyncio.TimeoutError:
            raise lost(f"no answer within {span:g} s", True) from None
        except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError) as error:
            raise InvalidInput(f"this cannot be sent: {error}") from error
        except httpx.HTTPError as error:
            raise self.unreached(error) from error

    def unreached(self, error: httpx.HTTPError) -> DelayqError:
        said = str(error) or type(error).__name__
        if "WRONG_VERSION_NUMBER" in said or "record layer failure" in said:
            return InvalidInput(f"{self.base} does not speak TLS: write http:// ({said})")
        if "CERTIFICATE_VERIFY_FAILED" in said:
            return InvalidInput(f"the certificate of {self.base} is not trusted: {said}")
        return lost(f"{self.base} was not reached: {said}", not isinstance(error, NOT_SENT))

    async def call(
        self,
        method: str,
        path: str,
        *,
        until: Callable[[], float] | None = None,
        **parts: Any,
    ) -> httpx.Response:
        """Repeats a request while its end is not certain or the server is away.

        `until` says until when, by the monotonic clock. All requests that come here may be
        carried out twice: they have an id, or say how the state shall be.
        """
        end = time.monotonic() + self.patience
        is_in_doubt, backoff = False, Backoff()
        while True:
            try:
                return await self.once(method, path, **parts)
            except DelayqError as error:
                if not repeats(error):
                    raise
                is_in_doubt = error.is_in_doubt = error.is_in_doubt or is_in_doubt
                wait = backoff.next(error.retry_after)
                left = (until() if until else end) - time.monotonic()
                if left <= 0 or (error.retry_after or 0) > left:
                    raise
                await asyncio.sleep(min(wait, left))


class Backoff:
    """Waits of 100 ms to 5 s, or as long as the server says."""

    def __init__(self) -> None:
        self.wait = 0.1

    def next(self, asked: float | None = None) -> float:
        wait, self.wait = self.wait, min(self.wait * 2, 5.0)
        return max(wait * random.uniform(0.5, 1), asked or 0)


def lost(detail: str, is_in_doubt: bool) -> Unavailable:
    kind = "in-doubt" if is_in_doubt else "unavailable"
    return Unavailable(detail, kind=kind, is_repeatable=True, is_in_doubt=is_in_doubt)


def repeats(error: DelayqError) -> bool:
    return error.status in REPEATED or (isinstance(error, Unavailable) and error.is_repeatable)


def checked(answer: httpx.Response) -> httpx.Response:
    if 300 <= answer.status_code < 400:
        place = answer.headers.get("location", "elsewhere")
        raise InvalidInput(f"the address leads to {place}: use that", status=answer.status_code)
    if answer.status_code >= 400:
        after = answer.headers.get("retry-after")
        raise of_answer(answer.status_code, answer.content, after)
    return answer


def segment(text: str) -> str:
    """A part of a path. Clients take the ids . and .. for steps, even if they are encoded."""
    if text in (".", ".."):
        raise InvalidInput(f"the id {text!r} has no place in a URL: use another one")
    return quote(text, safe="")
