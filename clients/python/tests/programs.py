"""A worker as a program of its own, which a test may kill or stop."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from delayq import App, Context

app = App()
lock = os.environ.get("LOCK", "2s")


def note(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@app.task("p.async", concurrency=4, lock=lock)
async def in_loop(message: float, cx: Context) -> float:
    note(f"start {cx.id} {cx.attempt}")
    cx.on_stop(lambda reason: note(f"{reason} {cx.id}"))
    await asyncio.sleep(message)
    note(f"end {cx.id} {cx.attempt}")
    return message


@app.task("p.thread", concurrency=2, lock=lock)
def in_thread(message: float, cx: Context) -> None:
    note(f"start {cx.id} {cx.attempt}")
    cx.on_stop(lambda reason: note(f"{reason} {cx.id}"))
    time.sleep(message)  # it takes no notice
    note(f"end {cx.id} {cx.attempt}")


if __name__ == "__main__":
    app._grace = float(os.environ.get("GRACE", "20"))
    app.run()
    note("over")
