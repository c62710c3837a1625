"""The floor: a small C program that does only what cannot be left out."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("floor.c")


class Floor:
    """The program, compiled into `work`. Raises RuntimeError with the compiler's words."""

    def __init__(self, work: Path) -> None:
        self._program = work / "floor"
        self._written = work / "floor-blocks"
        self._written.mkdir()
        command = ["gcc", "-O2", "-o", str(self._program), str(SOURCE), "-l:libcrypto.so.3"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the floor cannot be compiled: {done.stderr.strip()[-300:]}")

    def put(self, files: Sequence[Path]) -> list[float]:
        """Seconds to hash and write the bytes of each file."""
        try:
            return self._run("put", files)
        finally:
            for path in self._written.iterdir():
                path.unlink()

    def get(self, files: Sequence[Path]) -> list[float]:
        """Seconds to read and hash each file."""
        return self._run("get", files)

    def _run(self, verb: str, files: Sequence[Path]) -> list[float]:
        command = [str(self._program), verb, str(self._written), *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [float(line) for line in done.stdout.split()]
