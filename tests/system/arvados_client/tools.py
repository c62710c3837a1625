"""The programs of the Arvados tools, run as a user would, with a home directory of their own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.arvados_client.environment import client_environment
from tests.system.cluster import Cluster

_PATIENCE = 180.0


@dataclass
class Tools:
    """Runs programs against a server. `home` is kept between them; `variables` are added to their
    environment.
    """

    cluster: Cluster
    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, name: str, *arguments: str, timeout: float = 900, check: bool = True) -> str:
        """What the program prints on standard output; it must succeed, unless told otherwise."""
        done = self.result(name, *arguments, timeout=timeout)
        assert not check or done.returncode == 0, (
            f"{name} {' '.join(arguments)}: {done.stderr[-4000:]}"
        )
        return done.stdout

    def result(
        self, name: str, *arguments: str, timeout: float = 900
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        return subprocess.run(
            self._command(name, *arguments),
            cwd=self.home,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a program; whoever asked sees to its end."""
        return subprocess.Popen(
            self._command(name, *arguments),
            cwd=self.home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @contextmanager
    def mounted(self, point: Path) -> Iterator[Path]:
        """`arv-mount` on a new directory."""
        point.mkdir()
        process = self.start("arv-mount", "--read-write", "--foreground", str(point))
        try:
            deadline = time.monotonic() + _PATIENCE
            while not point.is_mount():
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield point
        finally:
            subprocess.run(["fusermount3", "-u", str(point)], check=False)
            process.communicate(timeout=_PATIENCE)

    @property
    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self.cluster.environment.items()
            if not name.startswith(("COV", "PYTHON"))
        }
        programs = client_environment()
        own = {
            "HOME": str(self.home),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": f"{programs}:{os.environ['PATH']}",
        }
        return kept | own | self.variables

    def _command(self, name: str, *arguments: str) -> list[str]:
        return [str(client_environment() / name), *arguments]
