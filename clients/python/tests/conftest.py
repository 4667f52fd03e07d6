from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stage import Proxy, Server

import byleave


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("byleave"))
    yield server
    server.kill()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that a test may kill."""
    server = Server(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server)
    yield proxy
    proxy.close()


@pytest.fixture
def bot(server: Server) -> Iterator[byleave.Client]:
    with byleave.Client(server.url, server.bot) as client:
        yield client


@pytest.fixture
def ann(server: Server) -> Iterator[byleave.Client]:
    with byleave.Client(server.url, server.ann) as client:
        yield client
