"""A web hook with nothing but WSGI: `python wsgi_hook.py`."""

import os
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import make_server

from delayq import InvalidSignature, Webhook

webhook = Webhook(os.environ["WEBHOOK_SECRET"])


def hook(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    named = {key[5:].replace("_", "-"): one for key, one in environ.items() if key[:5] == "HTTP_"}
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    try:
        task = webhook.verify(named, body)
    except InvalidSignature as error:
        start("401 Unauthorized", [("content-type", "text/plain")])
        return [error.detail.encode()]
    print("cancel", task.id, task.decode(), flush=True)
    start("204 No Content", [])
    return []


if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ.get("PORT", "8080")), hook).serve_forever()
