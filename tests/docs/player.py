"""Plays pages: each in a shell of its own, in a fresh home directory and in namespaces of its own.

The network, the processes and the mounts of a page are seen by nothing else, so that every page can
use the default port and directories, and whatever it started ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.docs.output import Bindings
from tests.docs.pages import ROOT, Block, Step
from tests.system.cluster import left_cgroups

_SECRETS: Final = "secrets.json"
HOME: Final = Path("/home/ann")
"""The home directory that a page sees."""
_PATIENCE: Final = 120.0
_LATE: Final = 30.0
"""Seconds for the output of a command that goes on in the background."""
_PARTING: Final = 30.0
_ASKING: Final = (
    "lading request why",
    "lading request logs --dispatch",
    "lading instance list",
    "squeue",
    "curl ",
)
"""Commands that change nothing: what they show may come a moment after the command before."""
# Commands are read from descriptor 8, one file each; exit codes go to descriptor 9. The shell is
# not the first process of its namespace: daemons take a parent with the number 1 for an init that
# has started them.
_LOOP: Final = f"""
set +m
ip link set lo up
ip link add outside type bridge && ip address add 192.0.2.2/24 dev outside && ip link set outside up
mount -t tmpfs tmpfs /home && mkdir -p {HOME} && mount --bind "$PAGE_HOME" {HOME}
cd {HOME}
unset PAGE_HOME
while IFS= read -r -u 8 file; do
    . "$file" >"$file.out" 2>&1 </dev/null 8<&- 9>&-
    echo $? >&9
done
"""


class Mismatch(AssertionError):
    """A command did not do what the page shows."""


@dataclass
class Player:
    """A shell. `directory` is the home directory, and has the commands beside it."""

    directory: Path
    commands: int
    codes: int
    process: subprocess.Popen[bytes]
    bindings: Bindings = field(default_factory=Bindings)
    _number: int = 0

    def run(self, command: str, *, timeout: float = _PATIENCE) -> tuple[int, Path]:
        """Run a command in the shell; its exit code, and the file that its output goes to."""
        self._number += 1
        file = self.directory.with_name("commands") / str(self._number)
        file.write_text(command + "\n")
        os.write(self.commands, f"{file}\n".encode())
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.codes, selectors.EVENT_READ)
            if not waiting.select(timeout):
                raise Mismatch(
                    f"$ {command}\nhas not ended after {timeout:g} s; it printed:\n{_read(file)}"
                )
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(self.codes, 16)
            if not piece:
                raise Mismatch(f"$ {command}\nended the shell; it printed:\n{_read(file)}")
            line += piece
        return int(line), file

    def prepare(self, script: str) -> None:
        """Run what a page takes for granted. Raises Mismatch when it fails."""
        code, file = self.run(f"set -e\n{script}\nset +e", timeout=300)
        if code:
            raise Mismatch(f"the preparation ended with {code}:\n{_read(file)}")

    def play(self, page: str, step: Step, *, timeout: float = _PATIENCE) -> None:
        """Run a command of a page. Raises Mismatch when its output is not the one that is shown, or
        it fails.
        """
        where = f"{page}:{step.line}"
        try:
            command = self.bindings.command(step.command)
        except ValueError as error:
            raise Mismatch(f"{where}: $ {step.command}\n{error}") from error
        code, file = self.run(command, timeout=timeout)
        if not step.output:
            if code:
                raise Mismatch(f"{where}: $ {command}\nended with {code}:\n{_read(file)}")
            return
        is_background, is_asking = command.rstrip().endswith("&"), _is_asking(command)
        until = time.monotonic() + (_LATE if is_background or is_asking else 0.0)
        while not self.bindings.match(step.output, _read(file)):
            if time.monotonic() >= until:
                raise Mismatch(
                    f"{where}: $ {command}\nSHOWN:\n{step.output}\nPRINTED ({code}):\n{_read(file)}"
                )
            time.sleep(0.1)
            if is_asking:
                code, file = self.run(command, timeout=timeout)

    def play_blocks(self, blocks: Sequence[Block]) -> None:
        """Run all commands of these blocks."""
        for block in blocks:
            for step in block.steps:
                self.play(block.page, step, timeout=1800.0 if block.is_long else _PATIENCE)

    def clusters(self) -> list[str]:
        """The ids of the clusters whose data directories lie in the home directory."""
        # Containers may still be removed below it: `walk` passes over directories that have gone.
        found = [
            Path(folder) / _SECRETS
            for folder, _, names in os.walk(self.directory)
            if _SECRETS in names
        ]
        return [json.loads(path.read_text())["cluster_id"] for path in found]


@contextmanager
def playing(directory: Path, variables: dict[str, str] | None = None) -> Iterator[Player]:
    """A shell with an empty home directory below `directory`; at the end all ends that it
    started.
    """
    home = directory / "home"
    for path in (home, directory / "commands"):
        path.mkdir()
    commands_out, commands_in = os.pipe()
    codes_out, codes_in = os.pipe()
    environment = {
        "HOME": str(HOME),
        "PAGE_HOME": str(home),
        "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "USER": "root",
        **(variables or {}),
    }
    process = subprocess.Popen(
        ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork",
         "--kill-child", "--mount-proc",
         "bash", "-c", 'bash -c "$0"; exit', f"exec 8<&{commands_out} 9>&{codes_in}\n{_LOOP}"],
        env=environment, pass_fds=(commands_out, codes_in), stdin=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    os.close(commands_out)
    os.close(codes_in)
    player = Player(home, commands_in, codes_out, process)
    try:
        yield player
        player.run(_END, timeout=_PARTING * 2)
    finally:
        for descriptor in (commands_in, codes_out):
            os.close(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _remove_cgroups(player.clusters())


_END: Final = f"""
for uuid in $(lading request list --state Committed --json 2>/dev/null |
        grep -o '[a-z0-9]*-xvhdp-[a-z0-9]*'); do
    lading request cancel "$uuid" || :
done
pids=$(jobs -p)
[ -z "$pids" ] || kill $pids 2>/dev/null || :
for _ in $(seq {int(_PARTING * 10)}); do
    [ -n "$(jobs -r)" ] || break
    sleep 0.1
done
"""


def _is_asking(command: str) -> bool:
    """Whether the command changes nothing, and may be given again."""
    words = set(command.split())
    return command.startswith(_ASKING) and not words & {"-d", "-T", "-X", "--data-urlencode"}


def _remove_cgroups(clusters: Sequence[str]) -> None:
    """Remove the empty control groups that killed supervisors have left."""
    for cluster in clusters:
        for path in left_cgroups(cluster):
            for group, _, _ in os.walk(path, topdown=False):
                with contextlib.suppress(OSError):
                    Path(group).rmdir()


def _read(file: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return file.with_name(f"{file.name}.out").read_text(errors="replace").strip()
    return ""
