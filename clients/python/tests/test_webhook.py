"""Web hooks that a real server signs, and those that nobody signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import pathlib
import queue
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from conftest import Server

from delayq import InvalidInput, InvalidSignature, Webhook

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()


def signed(body: bytes, at: float, secret: str = SECRET, key: str = "a/b/1") -> dict[str, str]:
    raw = base64.b64decode(secret.removeprefix("whsec_"))
    text = f"{key}.{int(at)}.".encode() + body
    mac = base64.b64encode(hmac.digest(raw, text, hashlib.sha256)).decode()
    return {
        "Webhook-Id": key, "webhook-timestamp": str(int(at)), "webhook-signature": f"v1,{mac}",
        "delayq-task-type": "order.cancel", "delayq-task-id": "order-42", "delayq-attempt": "2",
        "delayq-header-shop": "berlin",
    }  # fmt: skip


def test_signatures() -> None:
    body, now = b'{"order":42}', time.time()
    good, hook = signed(body, now), Webhook(SECRET)
    task = hook.verify(good, body)
    assert (task.type, task.id, task.attempt, task.webhook_id) == ("order.cancel", "order-42", 2, "a/b/1")
    assert task.decode() == {"order": 42} and task.headers == {"shop": "berlin"}
    other = "whsec_" + base64.b64encode(b"another secret of 24 byte").decode()
    assert Webhook([other, SECRET]).verify(good, body)
    both = {**good, "webhook-signature": "v1,AAAA v1a,x " + good["webhook-signature"]}
    assert hook.verify(both, body)
    for headers, text in (
        ({}, body), (good, body + b" "), ({**good, "Webhook-Id": "c"}, body),
        (signed(body, now - 400), body), (signed(body, now + 400), body),
        (signed(body, now, other), body), ({**good, "webhook-signature": ""}, body),
        ({**good, "webhook-signature": "v1,ü"}, body), ({**good, "webhook-timestamp": "x"}, body),
    ):  # fmt: skip
        with pytest.raises(InvalidSignature) as refused:
            hook.verify(headers, text)
        assert refused.value.kind == "invalid-signature"
    assert Webhook(SECRET, tolerance="10m").verify(signed(body, now - 400), body)
    for secret in ("", [], "whsec_", "whsec_*"):
        with pytest.raises(InvalidInput):
            Webhook(secret)


def test_a_push_of_a_server(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path, '[push]\nallow_http = true\nallow_networks = ["127.0.0.0/8"]\n')
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.put((dict(self.headers), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    place = {"http": {"url": f"http://127.0.0.1:{receiver.server_port}/"}}
    target = f"{server.url}/types/h.push/target"
    bearer = {"authorization": f"Bearer {server.token}"}
    secret = httpx.put(target, headers=bearer, json=place).json()["secret"]
    with server.app() as app:
        app.send("h.push", {"a": "ü"}, id="x", headers={"shop": "berlin"})
        headers, body = got.get(timeout=15)
        hook = Webhook(secret).verify(headers, body)
        assert (hook.type, hook.id, hook.attempt) == ("h.push", "x", 1)
        assert hook.decode(dict[str, str]) == {"a": "ü"} and hook.headers["shop"] == "berlin"
    receiver.shutdown()
    server.kill()
