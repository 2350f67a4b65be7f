"""A FastAPI application that sends and works: `uvicorn fastapi_app:api`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI

from delayq import App, Context

tasks = App()


@dataclass
class Order:
    order: int


@tasks.task("order.cancel", concurrency=8)
async def cancel(order: Order, cx: Context) -> None:
    print("cancel order", order.order, flush=True)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    await tasks.astart()
    yield
    await tasks.astop()


api = FastAPI(lifespan=lifespan)


@api.post("/orders/{number}")
async def place(number: int) -> dict[str, str]:
    receipt = await tasks.asend("order.cancel", Order(number), id=f"order-{number}", after="30m")
    return {"outcome": receipt.outcome}


@api.post("/orders/{number}/paid")
async def paid(number: int) -> dict[str, str]:
    return {"outcome": (await tasks.acancel("order.cancel", f"order-{number}")).outcome}
