"""Connects to VMs, and prepares each new one.

The preparation verifies the VM, runs the boot probe, checks its programs, copies the runner and
starts the agent. A VM that is not ready yet, or never will be, raises Unavailable with the reason
as one line; the caller tries again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import shlex
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import asyncssh
import msgspec

from lading.core.errors import Unavailable
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.runner import RunnerArchive
from lading.dispatch.fleets.cloud.ssh_connection import (
    SECRET_PATH,
    CommandResult,
    Shell,
    SshAddress,
)
from lading.net.rpc import LineChannel, Message
from lading.process.concurrency import cancel_all

OLDEST_PYTHON = (3, 9)
"""The agent runs on the Python of the VM's image, all else on the interpreter that is copied."""
# The exit code of a shell that has not found the program.
_NOT_FOUND = 127
# Seconds for one command on a VM that has just booted, and is slow for it.
_COMMAND_TIMEOUT = 60.0
# Seconds for the copy of the runner: enough for 100 MB at 2 Mbit/s.
_COPY_TIMEOUT = 600.0
_AGENT = Path(__file__).with_name("agent.py")


PHASES = ("ssh", "secret", "boot probe", "software", "runner")
"""The steps on the way to a VM, in this order."""


class VmBootstrap(Protocol):
    """Connects to a VM and prepares it."""

    def __call__(
        self, machine: CloudMachine, tell: Callable[[Message], None]
    ) -> AbstractAsyncContextManager[LineChannel]:
        """A link to the agent on a VM; unsolicited messages go to a callback. Raises
        Unavailable.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SshBootstrap:
    """Bootstrap of a VM by ssh. `runner` makes or finds the runner; `certificate` is a file that
    the VM gets, or None. `engine` is the name of the engine that the forkserver of the VM imports.

    `passed` is called after every phase, with its result in a few words.
    """

    key: asyncssh.SSHKey
    directory: str
    probe_command: str
    engine: str
    runner: Callable[[], RunnerArchive]
    certificate: Path | None = None
    secret_path: str = SECRET_PATH
    port: int = 22
    # Seconds for TCP and the ssh handshake.
    connect_timeout: float = 20.0
    passed: Callable[[str, str], None] = lambda _phase, _finding: None

    @property
    def certificate_path(self) -> str:
        """Path of the certificate on a VM, or "". The name has a hash of the content: the file
        never changes.
        """
        if self.certificate is None:
            return ""
        digest = hashlib.sha256(self.certificate.read_bytes()).hexdigest()
        return f"{self.directory}/server-{digest[:16]}.crt"

    @asynccontextmanager
    async def __call__(
        self, machine: CloudMachine, tell: Callable[[Message], None]
    ) -> AsyncGenerator[LineChannel]:
        """See `VmBootstrap`."""
        instance = machine.instance
        assert instance is not None
        target = SshAddress(
            address=instance.address,
            port=self.port,
            user=instance.user,
            key=self.key,
            pinned=machine.pinned,
        )
        async with Shell(target, timeout=self.connect_timeout) as shell:
            self.passed(
                "ssh",
                f"{instance.user}@{instance.address}, host key {shell.host_key.split(' ')[0]}",
            )
            # The secret is asked for once: afterwards the pinned host key proves the same.
            if not machine.pinned:
                await shell.verify(machine.secret, path=self.secret_path)
                machine.pinned = shell.host_key
                tell({"op": "verified"})
            self.passed("secret", "it knows its secret; the host key is pinned")
            self.passed("boot probe", await self._probe(shell, machine))
            facts = _read(await shell.run(self._agent(shell, "check"), timeout=_COMMAND_TIMEOUT))
            # Making the runner takes seconds, the first time: in a thread, as other VMs are waited
            # for.
            runner = await asyncio.to_thread(self.runner)
            await self._prepare(shell, runner, facts)
            process = await shell.open(self._agent(shell, "serve", runner.hash, self.engine))
            # Read all the time: a full pipe would stop the agent.
            errors = asyncio.create_task(process.stderr.read(), name="agent's errors")
            try:
                yield LineChannel(
                    process.stdout,
                    process.stdin,
                    peer="The instance",
                    stray=lambda reply: tell(reply.message),
                    faults=(asyncssh.Error,),
                )
            finally:
                # Do not wait for an answer: the VM may be gone.
                shell.abort()
                await cancel_all(errors)

    async def _probe(self, shell: Shell, machine: CloudMachine) -> str:
        """Run the boot probe until it has succeeded once, in a few words. Raises Unavailable.

        A file on the VM records the success for later dispatchers: a probe that fails then, as
        systemd's does when one service is degraded, means nothing for the containers that run
        there. A VM that runs none has to succeed anew: nothing is started on it before. The file's
        name has the boot id in it, so that a VM that was started again is probed
        again.
        """
        if machine.booted:
            return "it has succeeded before"
        done = await shell.run(self.probe_command, timeout=_COMMAND_TIMEOUT)
        # Only a hash of the secret: the file identifies its VM and reveals nothing more.
        digest = hashlib.sha256(machine.secret.encode()).hexdigest()
        mark = f"{shlex.quote(self.directory)}/booted~{digest[:16]}~"
        command = f"m={mark}$(cat /proc/sys/kernel/random/boot_id);"
        if done.code:
            runs = f"{shlex.quote(self.directory)}/run"
            known = await shell.run(
                f"{shell.sudo}sh -c"
                f" {shlex.quote(f'{command} test -e $m && ls -A {runs} 2>/dev/null | grep -q .')}",
                timeout=_COMMAND_TIMEOUT,
            )
            if known.code:
                raise Unavailable(
                    f"it is still booting: {self.probe_command!r} ended with {done.code}:"
                    f" {done.words}"
                )
            machine.booted = True
            return f"{self.probe_command} fails now, it had succeeded before"
        command += f" umask 077; mkdir -p {shlex.quote(self.directory)} && : >$m"
        noted = await shell.run(
            f"{shell.sudo}sh -c {shlex.quote(command)}", timeout=_COMMAND_TIMEOUT
        )
        if noted.code:
            raise Unavailable(f"{self.directory} cannot be written on the instance: {noted.words}")
        machine.booted = True
        return f"{self.probe_command} succeeds"

    async def _prepare(self, shell: Shell, runner: RunnerArchive, facts: dict[str, Any]) -> None:
        _judge(facts, runner)
        self.passed("software", _described(facts))
        is_there = runner.hash in facts["runners"]
        if not is_there:
            done = await shell.run(
                self._agent(shell, "install", runner.hash), data=runner.path, timeout=_COPY_TIMEOUT
            )
            if done.code:
                raise Unavailable(f"the runner could not be copied: {done.words}")
        self.passed(
            "runner", f"{runner.hash[:12]} {'was there' if is_there else 'copied and verified'}"
        )
        if self.certificate is not None:
            place = shlex.quote(self.certificate_path)
            # A file of its own first, then renamed: two dispatchers may copy at the same time.
            command = f"{shell.sudo}sh -c " + shlex.quote(
                f"umask 022; [ -s {place} ] || {{ cat >{place}.$$ && mv {place}.$$ {place}; }}"
            )
            done = await shell.run(command, data=self.certificate)
            if done.code:
                raise Unavailable(f"the server's certificate could not be copied: {done.words}")

    def _agent(self, shell: Shell, verb: str, *arguments: str) -> str:
        words = ("python3", "-c", _program(), verb, self.directory, *arguments)
        # Debian's own Python, and not one that a login shell puts before it.
        path = "PATH=/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:$PATH"
        return f"{path} {shell.sudo}{' '.join(shlex.quote(word) for word in words)}"


def _program() -> str:
    """The agent as one line of Python."""
    # Sent as one argument, so that nothing has to be copied to the VM before it is checked.
    packed = base64.b85encode(zlib.compress(_AGENT.read_bytes(), 9)).decode()
    return f"import base64, zlib; exec(zlib.decompress(base64.b85decode({packed!r})))"


def _read(done: CommandResult) -> dict[str, Any]:
    if done.code == _NOT_FOUND:
        raise Unavailable(
            "there is no python3 on the instance; its image needs Python 3.9 or later"
        )
    try:
        return msgspec.json.decode(done.out, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Unavailable(
            f"its Python does not run our agent (exit code {done.code}): {done.words}"
        ) from error


def _described(facts: dict[str, Any]) -> str:
    python = ".".join(str(number) for number in facts["python"])
    engines = ", ".join(facts["engines"])
    root = "" if facts["root"] else ", no root"
    return f"Python {python}, {facts['machine']}, C library {facts['libc']}, {engines}{root}"


def _judge(facts: dict[str, Any], runner: RunnerArchive) -> None:
    """Raises Unavailable when the VM cannot run supervisors."""
    python = ".".join(str(number) for number in facts["python"])
    if tuple(facts["python"][:2]) < OLDEST_PYTHON:
        raise Unavailable(f"its Python is {python}; its image needs 3.9 or later")
    if facts["machine"] != runner.machine:
        raise Unavailable(
            f"it is a {facts['machine']} machine,"
            f" and the runner of this dispatcher for {runner.machine}"
        )
    # The runner brings its own Python, but not the C library, which has to be as new as here.
    if _numbers(facts["libc"]) < _numbers(runner.libc):
        raise Unavailable(
            f"its C library is {facts['libc']}; the runner of this dispatcher needs {runner.libc}"
        )
    if not facts["engines"]:
        raise Unavailable("it has no container engine; its image needs crun, docker or podman")
    if not facts["root"] and facts["engines"] == ["crun"]:
        raise Unavailable(
            "crun needs root there; let the user of the image use sudo without a password"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".") if number.isdecimal())
