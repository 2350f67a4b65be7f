"""The driver of the scenario suite: lines of JSON in, lines of JSON out."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
import logging
import os
import signal
import sys
import threading
import time
from datetime import datetime
from typing import Any, TypedDict

from delayq import App, Context, Dead, DelayqError, Job, Later, Retry, RetryAfter, Webhook
from delayq.values import seconds

logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s %(message)s")
logging.getLogger("httpx").setLevel(logging.WARNING)
guard = threading.Lock()
later_times: collections.Counter[str] = collections.Counter()
has_work, has_stopped, is_over = threading.Event(), threading.Event(), threading.Event()
app: App | None = None


class Must(TypedDict):
    do: str


May = TypedDict(
    "May",
    {
        "with": Any, "error": str, "times": int, "for": str, "after": str, "type": str,
        "message": Any, "id": str,
    },
    total=False,
)  # fmt: skip


class Order(Must, May):
    """What a task tells the handler to do."""


def say(line: dict[str, Any]) -> None:
    text = json.dumps(line, default=shown)
    with guard:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def shown(value: Any) -> Any:
    if isinstance(value, DelayqError):
        return {"error": failure(value)}
    if dataclasses.is_dataclass(value):
        return {name: one for name, one in vars(value).items() if one is not None}
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    raise TypeError(type(value))


def failure(error: DelayqError) -> dict[str, Any]:
    return {
        "kind": error.kind, "status": error.status, "is_repeatable": error.is_repeatable,
        "detail": error.detail,
    }  # fmt: skip


async def handle(order: Order, cx: Context) -> Any:
    say({
        "event": "start", "type": cx.type, "id": cx.id, "attempt": cx.attempt, "fence": cx.fence,
        "headers": cx.headers, "last_error": cx.last_error, "at": now(), "message": order,
    })  # fmt: skip
    cx.on_stop(lambda reason: reason != "shutdown" and say({"event": reason, "id": cx.id}))
    how = "raised"
    try:
        result = await act(order, cx)
        how = "returned"
        return result
    finally:
        say({"event": "end", "id": cx.id, "how": how, "at": now()})


async def act(order: Order, cx: Context) -> Any:
    do, error = order["do"], order.get("error", "")
    times = order.get("times", 1_000_000)
    if do == "reply":
        return order["with"]
    if do == "echo":
        return order
    if do == "fail" and cx.attempt <= times:
        raise RuntimeError(error)
    if do == "retry_after" and cx.attempt <= times:
        raise RetryAfter(order["after"], error)
    if do == "dead":
        raise Dead(error)
    if do == "later":
        later_times[cx.id] += 1
        if later_times[cx.id] <= times:
            raise Later(order["after"])
    if do == "sleep":
        await asyncio.sleep(seconds(order["for"]))
    if do == "block":
        time.sleep(seconds(order["for"]))  # noqa: ASYNC251
    if do == "then":
        cx.then(order["type"], order.get("message"), id=order.get("id"))
    if do == "send":
        await the_app().asend(order["type"], order.get("message"), id=order.get("id"))
    return None


def now() -> int:
    return round(time.time() * 1000)


def the_app(**options: Any) -> App:
    global app
    if app is None or options:
        app = App(**options)
    return app


def job(line: dict[str, Any]) -> Job:
    return Job(**line)


def receipt(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and getattr(value, "reply", None):
        return shown(value) | {"reply": value.reply.value}
    return value


def reply(value: Any) -> Any:
    return value.value if value.state == "done" else shown(value)


def work(line: dict[str, Any]) -> dict[str, Any]:
    options = {name: line[name] for name in ("concurrency", "lock") if name in line}
    if "retry" in line:
        options["retry"] = Retry(**line["retry"])
    the_app().task(line["type"], **options)(handle)
    if has_stopped.is_set():
        has_stopped.clear()
        the_app().start()
    has_work.set()
    return {}


def verify(line: dict[str, Any]) -> dict[str, Any]:
    hook = Webhook(line["secrets"]).verify(line["headers"], line["body"].encode())
    return {"id": hook.id, "type": hook.type}


async def do(line: dict[str, Any]) -> Any:
    what = line["do"]
    options = {name: value for name, value in line.items() if name not in ("n", "do")}
    if what == "app":
        the_app(**options)
        return {}
    one = the_app()
    if what == "send":
        wait = options.pop("wait", None)
        return receipt(await one.asend(wait=wait, **options))
    if what == "send_many":
        return [receipt(each) for each in await one.asend_all(map(job, line["items"]))]
    if what == "reply":
        return reply(await one.areply(**options))
    if what == "batch":
        tasks, then = [job(each) for each in line["tasks"]], job(line["then"])
        is_waiting = line.get("wait_for_dead", False)
        return await one.asend_batch(line["name"], tasks, then, wait_for_dead=is_waiting)
    if what == "work":
        return work(line)
    if what == "stop":
        await asyncio.to_thread(one.stop)
        has_stopped.set()
        return {}
    if what == "verify":
        return verify(line)
    names = {
        "batch_state": "batch", "batch_cancel": "cancel_batch", "recurring": "set_recurring",
        "recurring_remove": "remove_recurring", "recurring_pause": "pause_recurring",
        "recurring_resume": "resume_recurring", "recurring_list": "list_recurring",
    }  # fmt: skip
    return await getattr(one, "a" + names.get(what, what))(**options)


async def answer(line: dict[str, Any]) -> None:
    try:
        say({"n": line["n"], "ok": await do(line)})
    except DelayqError as error:
        say({"n": line["n"], "error": failure(error)})
    except Exception as error:
        text = {"kind": "defect", "status": None, "is_repeatable": False, "detail": repr(error)}
        say({"n": line["n"], "error": text})
        logging.exception("a line failed")


async def lines() -> None:
    """Carries out the lines, all at once; the answers come in any order."""
    running = set()
    while text := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(answer(json.loads(text)))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    is_over.set()
    if has_work.is_set():
        os.kill(os.getpid(), signal.SIGTERM)
    has_work.set()


if __name__ == "__main__":
    threading.Thread(target=asyncio.run, args=(lines(),), daemon=True).start()
    has_work.wait()
    if not is_over.is_set():
        the_app().run()
    sys.stdout.flush()
    os._exit(0)  # a thread may wait for a line, which Python would wait for
