"""A real `byleave serve` on a free port of this machine, with its own state directory."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path

PROGRAM = os.environ.get("BYLEAVE", "byleave")


class Server:
    """The server, the working directory of its calls, and tokens for it."""

    def __init__(self, home: Path) -> None:
        self.dir = home / "w"
        self.dir.mkdir(parents=True)
        (home / "home").mkdir()
        self._env = {**os.environ, "HOME": str(home / "home"), "BYLEAVE_STATE": str(home / "state")}
        self.port = 0
        self.bot = self.token("bot")
        self.ann = self.token("ann", "--person", "--scope", "submit,answer,read,administer")
        self.start()

    def token(self, name: str, *more: str) -> str:
        command = [PROGRAM, "serve", "token", "add", name, *more]
        added = subprocess.run(command, cwd=self.dir, env=self._env, check=True, capture_output=True, text=True)
        return added.stdout.strip()

    def start(self) -> None:
        """Starts it; the second time at the same port, on the same audit log."""
        command = [PROGRAM, "serve", "--listen", f"127.0.0.1:{self.port}", "--requests-per-second", "1000"]
        self._process = subprocess.Popen(
            command, cwd=self.dir, env=self._env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("listening on "):
                self.url = line.removeprefix("listening on ").strip().removesuffix("/v1")
                self.port = int(self.url.rpartition(":")[2])
                break
        else:
            raise AssertionError("the server did not start")
        # Drains standard error, so that a full pipe does not block the server.
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def kill(self) -> None:
        """Kills the server at once."""
        self._process.kill()
        self._process.wait()


class Proxy:
    """A proxy between a client and the server. Cuts connections off as configured."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[str] = []
        #: For each path that is to be cut off: after how many bytes of an answer, and how often still.
        self.cuts: dict[str, tuple[int, int]] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Serves one request per connection, so that a cut affects only that request."""
        with client, socket.create_connection(("127.0.0.1", self._server.port)) as server:
            head = b""
            while b"\r\n\r\n" not in head:
                more = client.recv(65536)
                if not more:
                    return
                head += more
            head, _, body = head.partition(b"\r\n\r\n")
            text = head.decode()
            self.requests.append(text)
            lines = [line for line in text.split("\r\n") if not line.lower().startswith("connection:")]
            length = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0)
            while len(body) < length:
                body += client.recv(65536)
            server.sendall("\r\n".join([*lines, "Connection: close"]).encode() + b"\r\n\r\n" + body)
            self._answer(lines[0].split(" ")[1].partition("?")[0], client, server)

    def _answer(self, path: str, client: socket.socket, server: socket.socket) -> None:
        left, times = next((cut for end, cut in self.cuts.items() if path.endswith(end)), (-1, 0))
        if times > 0:
            self.cuts = {end: (after, times - 1 if path.endswith(end) else n) for end, (after, n) in self.cuts.items()}
        while more := server.recv(1 if times > 0 else 65536):
            if times > 0 and left <= 0:
                return
            left -= len(more)
            try:
                client.sendall(more)
            except OSError:
                return
