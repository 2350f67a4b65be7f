"""A real server for each run of the tests: the program that DELAYQ_SERVER names."""

from __future__ import annotations

import os
import pathlib
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator

import httpx
import pytest

from delayq import App

SERVER = os.environ.get("DELAYQ_SERVER", "delayq-server")
PORTS = iter(range(8100, 8200))
TOKEN = "dq_first_" + secrets.token_hex(24)


class Server:
    """A server on a file of its own, which may be ended and started again."""

    def __init__(self, folder: pathlib.Path, more: str = "") -> None:
        self.port = next(port for port in PORTS if is_free(port))
        self.folder, self.token = folder, TOKEN
        self.address = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.address}/v1/default"
        (folder / "s.toml").write_text(
            f'listen = "127.0.0.1:{self.port}"\nstore = "sqlite:{folder}/s.sqlite"\n'
            f'bootstrap_token = "{TOKEN}"\n{more}'
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        log = open(self.folder / "s.log", "ab")
        command = [SERVER, "--config", str(self.folder / "s.toml")]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                if httpx.get(f"{self.address}/health/ready").status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.05)
        raise RuntimeError((self.folder / "s.log").read_text())

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def app(self, **options: object) -> App:
        return App(self.url, TOKEN, **options)  # type: ignore[arg-type]


def is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    history = tmp_path_factory.mktemp("history") / "h.sqlite"
    one = Server(tmp_path_factory.mktemp("server"), f'history = "sqlite:{history}"\n')
    yield one
    one.kill()


@pytest.fixture
def app(server: Server) -> Iterator[App]:
    one = server.app()
    yield one
    one.close()
