"""A daemon in a process of its own, on a root of its own, and how tests talk to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lading.hpc.daemon import find_home
from lading.hpc.plan import Identity, make_identity, make_ssh_keys

_PATIENCE = 180.0


@dataclass
class DaemonAnswer:
    """An answer; `data` is what JSend has below that name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def said(self) -> str:
        """JSend's first word."""
        return str(json.loads(self.body)["status"])

    @property
    def data(self) -> Any:
        """JSend's data."""
        return json.loads(self.body)["data"]


@dataclass
class Rig:
    """One daemon below `root`. Start it with `up`; `down` ends it and what it left."""

    root: Path
    identity: Identity = field(
        default_factory=lambda: make_identity("localhost", now=datetime.now(UTC))
    )
    environment: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = (sys.executable, "-m", "lading.hpc.daemon")
    host: str = "127.0.0.1"
    process: subprocess.Popen[bytes] | None = None
    port: int = 0
    given: set[str] = field(default_factory=set)
    """Parameters of the daemon that were set."""

    def up(self) -> None:
        """Start it, and wait until it listens."""
        marker = self.own / "daemon_has_started"
        marker.unlink(missing_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        secrets = {
            "TLS_PUBLIC_CERT": self.identity.certificate,
            "TLS_PRIVATE_KEY": self.identity.key,
            "AUTHORIZATION": self.identity.authorization,
        }
        self.process = subprocess.Popen(
            [*self.program, "--port", "0", "--host", self.host, "--root", str(self.root)],
            env={**os.environ, **secrets, **self.environment},
        )
        until(marker.exists)
        self.port = int(marker.read_text().split()[1])

    @property
    def home(self) -> Path:
        """The home directory of this user, below `root`."""
        return self.root / find_home(os.geteuid(), os.environ).lstrip("/")

    @property
    def own(self) -> Path:
        """The daemon's directory."""
        return self.root / "hpcaas" / "daemon"

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def down(self) -> None:
        """End the code and the daemon."""
        if self.process is None:
            return
        if self.process.poll() is None:
            if self.query()["codeStatus"] == "Running":
                self.command("kill")
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(_PATIENCE)

    def code(self, script: str, *, name: str = "code") -> None:
        """What is run: the lines of a shell script."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def context(self) -> ssl.SSLContext:
        """A context that trusts this daemon alone."""
        context = ssl.create_default_context(cadata=self.identity.certificate)
        # Whoever has this certificate's key is the one, whatever the name.
        context.check_hostname = False
        return context

    def call(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> DaemonAnswer:
        """Send a request with the default Authorization header unless `headers` replace it."""
        given = {"Authorization": self.identity.authorization} if headers is None else dict(headers)
        connection = http.client.HTTPSConnection(
            self.host, self.port, context=self.context(), timeout=_PATIENCE
        )
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return DaemonAnswer(
                answer.status,
                {name.lower(): value for name, value in answer.getheaders()},
                answer.read(),
            )
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> DaemonAnswer:
        """JSON, authorized."""
        headers = {"Authorization": self.identity.authorization, "Content-Type": "application/json"}
        return self.call("POST", path, json.dumps(body).encode(), headers)

    def upload(self, path: str, files: Mapping[str, bytes]) -> DaemonAnswer:
        """A form with files, each part's name its file's."""
        parts = [
            (
                f'--=b=\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'
            ).encode()
            + data
            + b"\r\n"
            for name, data in files.items()
        ]
        kind = "multipart/form-data; boundary==b="
        headers = {"Authorization": self.identity.authorization, "Content-Type": kind}
        return self.call("POST", path, b"".join(parts) + b"--=b=--\r\n", headers)

    def command(self, word: str) -> DaemonAnswer:
        """Start, kill or upload."""
        return self.post("/v1/command", {"command": word})

    def prepare(self) -> None:
        """Set those parameters without which no code is started, as far as they are not set yet."""
        keys = make_ssh_keys()
        values: dict[str, Any] = {
            "worldRank": 0, "worldSize": 1, "sshAddresses": {"0": "127.0.0.1:22"},
            "sshPrivateKey": keys.private, "sshPublicKey": keys.public,
        }  # fmt: skip
        self.configure(**{name: value for name, value in values.items() if name not in self.given})

    def start(self) -> DaemonAnswer:
        """Set what is missing, and start the code."""
        self.prepare()
        return self.command("start")

    def configure(self, **parameters: Any) -> DaemonAnswer:
        """Set parameters of the daemon."""
        self.given |= set(parameters)
        return self.post("/v1/daemon-configuration", {"daemonParameters": parameters})

    def query(self) -> dict[str, Any]:
        """The states."""
        found: dict[str, Any] = self.call("GET", "/v1/query").data
        return found

    def reach(self, **states: Any) -> dict[str, Any]:
        """Wait until the query shows these values; all of it."""
        seen: dict[str, Any] = {}

        def shown() -> bool:
            seen.update(self.query())
            return all(seen[name] == value for name, value in states.items())

        until(shown, lambda: f"{states} is not reached: {seen}")
        return seen


def until(
    condition: Callable[[], bool],
    said: Callable[[], str] = lambda: "it never happened",
    *,
    patience: float = _PATIENCE,
) -> None:
    """Wait for something that other processes do. Raises TimeoutError."""
    end = time.monotonic() + patience
    pause = threading.Event()
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(said())
        pause.wait(0.02)
