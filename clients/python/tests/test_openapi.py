"""What the client asks for is in the server's own description."""

from __future__ import annotations

import json
import pathlib
import typing
from typing import Any

from delayq import values
from delayq.values import (
    Batch, Changed, Job, Options, Receipt, Recurring, Retry, Task,
)  # fmt: skip

SERVER = pathlib.Path(__file__).parents[3] / "server" / "delayq-server" / "openapi.json"
API: dict[str, Any] = json.loads(SERVER.read_text())
SCHEMAS = API["components"]["schemas"]
TASK = "/v1/{namespace}/types/{task_type}/tasks/{id}"


def operation(method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = API["paths"][path][method.lower()]
    return found


def fields(name: str) -> set[str]:
    schema = SCHEMAS[name]
    parts = schema.get("allOf", [schema])
    found: set[str] = set()
    for part in parts:
        if "$ref" in part:
            found |= fields(part["$ref"].rpartition("/")[2])
        found |= part.get("properties", {}).keys()
    return found


def test_the_routes_and_their_parameters() -> None:
    options = {name for name in Options.__annotations__ if name not in ("id", "headers", "after")}
    for method, path, params in (
        ("PUT", TASK, options | {"delay"}), ("DELETE", TASK, set()), ("GET", TASK, set()),
        ("POST", f"{TASK}/reschedule", {"delay", "at"}), ("POST", f"{TASK}/run-now", set()),
        ("PUT", f"{TASK}/message", set()), ("GET", f"{TASK}/reply", {"wait"}),
        ("GET", f"{TASK}/history", set()), ("POST", "/v1/{namespace}/types/{task_type}/bulk", set()),
        ("POST", "/v1/{namespace}/types/{types}/claim", {"limit", "wait", "lock_for"}),
        ("POST", f"{TASK}/done", {"lock"}), ("POST", f"{TASK}/done-then", {"lock"}),
        ("POST", f"{TASK}/fail", {"lock", "retry_after", "max_attempts", "dead"}),
        ("POST", f"{TASK}/release", {"lock", "after"}), ("POST", f"{TASK}/extend", {"lock", "lock_for"}),
        ("PUT", "/v1/{namespace}/batches/{id}", set()), ("GET", "/v1/{namespace}/batches/{id}", set()),
        ("DELETE", "/v1/{namespace}/batches/{id}", set()),
        ("PUT", "/v1/{namespace}/recurring/{id}", set()),
        ("DELETE", "/v1/{namespace}/recurring/{id}", set()),
        ("POST", "/v1/{namespace}/recurring/{id}/pause", set()),
        ("POST", "/v1/{namespace}/recurring/{id}/resume", set()),
        ("GET", "/v1/{namespace}/recurring", {"cursor", "limit"}),
    ):  # fmt: skip
        there = {
            one["name"] for one in operation(method, path).get("parameters", [])
            if one["in"] == "query"
        }  # fmt: skip
        assert params <= there, (method, path, params - there)


def test_the_fields_of_requests() -> None:
    line = Job(
        "a", b"\xff", id="x", after=1, at="2030-01-01T00:00Z", on_conflict="keep", debounce=1,
        max_wait=1, throttle=1, expires_after=1, expires_at=2**41, group="g", project="p",
        headers={"a": "b"}, again_if_running=True,
    ).line()  # fmt: skip
    assert line.keys() <= fields("Line"), line.keys() - fields("Line")
    assert "message" in Job("a", 1).line() and "message" in fields("Line")
    assert {"tasks", "then", "wait_for_dead"} <= fields("BatchForm")
    assert {"reply", "then"} <= fields("DoneForm")
    recurring = {*Job("a", 1, group="g", headers={"a": "b"}).line(), "every", "zone", "paused"}
    assert recurring <= fields("RecurringForm")


def test_the_fields_of_answers() -> None:
    for kind, name, own in (
        (Receipt, "Accepted", {"reply"}), (Changed, "Changed", {"outcome"}), (Task, "TaskView", set()),
        (Batch, "BatchAccepted", set()), (Recurring, "RecurringView", set()),
    ):  # fmt: skip
        assert set(kind.__dataclass_fields__) - own <= fields(name), kind
    claimed = {"type", "id", "lock", "attempt", "fence", "due_at", "submitted_at", "headers",
               "last_error", "message", "message_base64"}  # fmt: skip
    assert claimed <= fields("ClaimedView")
    problem = {"type", "title", "status", "detail", "is_repeatable", "retry_after"}
    assert problem <= fields("Problem")
    assert {"line", "problem"} <= fields("LineOutcome")


def test_the_values_of_enums() -> None:
    def enum(path: str, method: str, name: str) -> set[str]:
        found = operation(method, path)["parameters"]
        return {*next(one for one in found if one["name"] == name)["schema"]["enum"]}

    conflicts = typing.get_type_hints(Options)["on_conflict"]
    ours = {value for one in typing.get_args(conflicts) for value in typing.get_args(one)}
    assert ours == enum(TASK, "PUT", "on_conflict")
    state = typing.get_args(typing.get_args(values.State)[0])
    assert set(state) == enum("/v1/{namespace}/types/{task_type}/tasks", "GET", "state")
    for outcome in typing.get_args(typing.get_args(values.Outcome)[0]):
        assert f"`{outcome}`" in SCHEMAS["Accepted"]["properties"]["outcome"]["description"]
    assert "cancel_requested" in SCHEMAS["Extended"]["properties"]["outcome"]["description"]
    assert {"attempts", "wait", "max_wait", "is_fixed"} == fields("Retry")
    assert set(Retry.__dataclass_fields__) == {"max", "wait", "max_wait", "fixed"}
