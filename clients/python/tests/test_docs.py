"""Every program of the README and of the guide runs, and so do the examples."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from conftest import Server
from test_webhook import SECRET, signed

from delayq import App

PLACE = pathlib.Path(__file__).parents[1]
PAGES = (PLACE / "README.md", PLACE.parents[1] / "docs" / "guide" / "client-python.md")
PROGRAMS = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]


@pytest.mark.parametrize("text", PROGRAMS)
def test_a_program_of_the_documentation(text: str, server: Server, tmp_path: pathlib.Path) -> None:
    place = {"DELAYQ_HTTP": server.url, "DELAYQ_TOKEN": server.token}
    (tmp_path / "program.py").write_text(text)
    command = [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", "program.py"]
    output = open(tmp_path / "output", "wb")
    process = subprocess.Popen(
        command, env={**os.environ, **place}, cwd=tmp_path, stdout=output, stderr=output
    )
    if "app.run()" in text:
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
    code = process.wait(30)
    assert code == 0, (tmp_path / "output").read_text()
    assert "Traceback" not in (tmp_path / "output").read_text()


def test_the_guide_is_no_longer_than_a_page() -> None:
    assert len(PAGES[1].read_text().splitlines()) <= 250


def example(name: str, monkeypatch: pytest.MonkeyPatch, server: Server) -> Any:
    for key, value in (
        ("WEBHOOK_SECRET", SECRET), ("DELAYQ_HTTP", server.url), ("DELAYQ_TOKEN", server.token),
    ):  # fmt: skip
        monkeypatch.setenv(key, value)
    spec = importlib.util.spec_from_file_location(name, PLACE / "examples" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_hook_with_flask(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    client = example("flask_hook", monkeypatch, server).app.test_client()
    body = b'{"order":42}'
    good = client.post("/hooks/cancel", data=body, headers=signed(body, time.time()))
    assert good.status_code == 204
    assert client.post("/hooks/cancel", data=body).status_code == 401


def test_the_hook_with_wsgi(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    from werkzeug.test import Client

    client = Client(example("wsgi_hook", monkeypatch, server).hook)
    body = b'{"order":42}'
    assert client.post("/", data=body, headers=signed(body, time.time())).status_code == 204
    assert client.post("/", data=body).status_code == 401


def test_the_application_with_fastapi(
    monkeypatch: pytest.MonkeyPatch, server: Server, app: App
) -> None:
    from fastapi.testclient import TestClient

    with TestClient(example("fastapi_app", monkeypatch, server).api) as client:
        assert client.post("/orders/7").json() == {"outcome": "accepted"}
        app.run_now("order.cancel", "order-7")
        assert app.reply("order.cancel", "order-7", wait=10).state == "done"
        client.post("/orders/8")
        assert client.post("/orders/8/paid").json() == {"outcome": "cancelled"}


def test_the_hook_of_the_guide_with_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastapi.testclient import TestClient

    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    text = next(one for one in re.findall(r"```python\n(.*?)```", PAGES[1].read_text(), re.S)
                if "FastAPI" in one)  # fmt: skip
    place: dict[str, Any] = {"__name__": "guide"}
    exec(text, place)
    client, body = TestClient(place["api"]), b'{"order":42}'
    headers = signed(body, time.time())
    assert client.post("/hooks/cancel", content=body, headers=headers).status_code == 204
    assert client.post("/hooks/cancel", content=body).status_code == 401
