"""`lading cloud test`: tests a configuration against the real cloud, step by step, VM by VM.

- Each step is reported as soon as it is over, with its findings, or with the fault and the remedy.
- After a failure of one type of VM the next one is tried.
- Every VM of the test is removed at the end, also after a cancellation, and those of a killed
  earlier test: they have the same InstanceSetID. VMs that cannot be removed are named.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import shlex
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import asyncssh
import msgspec

from lading.client.checks import CheckRunner, CheckStep
from lading.core.errors import LadingError, Unavailable
from lading.core.scheduling.instance_lifecycle import Behavior
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleet import TrialServer
from lading.dispatch.fleets.cloud.drivers.driver import (
    Driver,
    Instance,
    InstanceSpec,
    NoCapacity,
    QuotaReached,
    RateLimited,
)
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.dispatch.fleets.cloud.ssh_connection import Shell, SshAddress
from lading.dispatch.fleets.cloud.vm_bootstrap import PHASES, VmBootstrap
from lading.process.concurrency import cancel_all

# Seconds. Clouds list a new VM within a minute, and remove one within some; the command may fetch
# an image.
_PAUSE, _LIST_PATIENCE, _REMOVAL_PATIENCE, _COMMAND_TIMEOUT = 2.0, 90.0, 300.0, 600.0
# Seconds for the check from a VM: three times the patience of its one request.
_API_TIMEOUT = 60.0
_SMOKE_TEST = Path(__file__).with_name("smoke_test.py")
_API_CHECK = Path(__file__).with_name("api_check.py")
_Answer = TypeVar("_Answer")

MENDS = {
    "list": "check the credentials and the address in Containers.CloudVMs.DriverParameters,"
    " and that this machine reaches the cloud",
    "create": "check ImageID, DriverParameters and the ProviderType of the instance type",
    "listed": "check that the credentials may list instances with their tags",
    "tags": "check that the credentials may change tags",
    "ssh": "the image needs an ssh server that lets the user in with the key of"
    " Containers.DispatchPrivateKey (DeployPublicKey, AdminUsername),"
    " and a network where this machine reaches its SSHPort",
    "secret": "the image has to run user data at its first start, as root (cloud-init does)",
    "boot probe": "BootProbeCommand has to succeed once a VM has booted;"
    " run it there by hand, or leave it empty",
    "software": "install the missing programs in the image, or with InstanceInitCommand:"
    " python3 (3.9 or later), and crun, docker or podman",
    "runner": "DeployRunnerDirectory needs 300 MB on a disk of the VM where programs may be run",
    "agent": "see supervisors.log in DeployRunnerDirectory on the VM",
    "container": "run the engine on the VM by hand",
    "command": "see its output",
    "api": "instances have to reach the address of the server through every firewall between them;"
    " --listen tries another address of this machine",
    "request": "see supervisors.log in DeployRunnerDirectory on the VM;"
    " the engine of Containers.RuntimeEngine has to work there",
    "shell": "the supervisor on the VM has to keep a connection open to the server,"
    " and this machine needs ssh (openssh-client)",
    "port": "the supervisor on the VM has to keep a connection open to the server",
    "destroy": "check that the credentials may remove instances; remove this one by hand",
    "nothing left": "remove them by hand, as they are paid for",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Services that a trial uses. `key` gives access to VMs for commands; without one none are run
    there.

    `server` starts a server for a VM; without one no request is run.
    """

    settings: CloudSettings
    driver: Driver
    reach: Callable[[Callable[[str, str], None]], VmBootstrap]
    public_key: str
    token: Callable[[], str]
    clock: Callable[[], float]
    key: asyncssh.SSHKey | None = None
    command: str = ""
    server: Callable[[CloudMachine], AbstractAsyncContextManager[TrialServer]] | None = None


class Trial:
    """One test. `tell` is called with each step that is over, `doing` with the present activity."""

    def __init__(
        self, means: Means, *, tell: Callable[[CheckStep], None], doing: Callable[[str], None]
    ) -> None:
        self._means = means
        self._settings = means.settings
        self._driver = means.driver
        self._checks = CheckRunner(
            MENDS, tell=tell, clock=means.clock, doing=doing, remedy_of=_remedy
        )
        self._tests("")
        self._creating: asyncio.Task[Instance] | None = None

    async def run(self, types: Iterable[InstanceType]) -> bool:
        """Test each type; return whether all steps succeeded."""
        try:
            if await self._checks.attempt("list", self._start()) is None:
                return False
            for kind in types:
                self._tests(kind.name)
                await self._try(kind)
        finally:
            self._tests("")
            await self._clear()
        return not self._checks.failed

    def _tests(self, type: str, instance: str = "") -> None:
        """Name the type of VM and the VM that the next steps are about."""
        self._checks.subject = {"type": type, "instance": instance}

    async def _start(self) -> str:
        instances = await self._operate(self._driver.list())
        for instance in instances:
            await self._operate(self._driver.destroy(instance.id))
        return (
            f"{len(instances)} instances of an earlier test, removed"
            if instances
            else "no instances of an earlier test"
        )

    async def _try(self, kind: InstanceType) -> None:
        """All steps with one VM."""
        secret = self._means.token()
        created = await self._checks.attempt(
            "create",
            self._create(kind, secret),
            lambda instance: f"{instance.id} ({kind.provider_type})",
        )
        if created is None:
            return
        self._tests(kind.name, created.id)
        machine = CloudMachine(
            key=created.id, type=kind.name, secret=secret, kind=kind, instance=created
        )
        tags = self._tags(kind, secret, Behavior.RUN)
        listed = await self._checks.attempt(
            "listed",
            self._find(created.id, tags),
            lambda instance: f"with its tags, at {instance.address}",
        )
        if listed is not None:
            machine.instance = listed
            if await self._boot(machine):
                await self._use(machine)
            changed = self._tags(kind, secret, Behavior.HOLD)
            await self._checks.attempt(
                "tags", self._change(created.id, changed), lambda _: "can be changed"
            )
        await self._checks.attempt("destroy", self._remove(created.id))
        self._tests(kind.name)

    async def _create(self, kind: InstanceType, secret: str) -> Instance:
        spec = InstanceSpec(
            kind=kind,
            image=self._settings.image,
            tags=self._tags(kind, secret, Behavior.RUN),
            user_data=self._settings.user_data(secret),
            public_key=self._means.public_key if self._settings.deploy_key else "",
        )
        # A VM is made all the same when the trial ends early; its name is unknown before the call
        # returns.
        self._creating = asyncio.ensure_future(self._operate(self._driver.create(spec)))
        # The creation continues when this task is cancelled: only a known VM can be removed.
        return await asyncio.shield(self._creating)

    async def _find(self, id: str, tags: Mapping[str, str]) -> Instance:
        """Wait until it is listed with these tags and an address."""
        until, fault = self._means.clock() + _LIST_PATIENCE, "it is not listed"
        while True:
            for instance in await self._operate(self._driver.list()):
                if instance.id == id:
                    fault = _fault_of(instance, tags)
                    if not fault:
                        return instance
            if self._means.clock() >= until:
                raise Unavailable(f"{fault}, after {_LIST_PATIENCE:g} s")
            # Lists of clouds are late: tags and addresses may appear some time after the creation.
            self._checks.doing(f"{fault} yet")
            await asyncio.sleep(_PAUSE)

    async def _boot(self, machine: CloudMachine) -> bool:
        """Connect to the VM until its time for booting is over."""
        began, fault = self._means.clock(), "it was not reached"
        until = began + self._settings.times.booting
        behind: list[str] = []

        def passed(phase: str, finding: str) -> None:
            # Each attempt goes through all phases again; each is reported once.
            if phase not in behind:
                behind.append(phase)
                self._checks.succeed(phase, finding)

        reach = self._means.reach(passed)
        while True:
            try:
                async with (
                    asyncio.timeout(max(0.1, until - self._means.clock())),
                    reach(machine, lambda _: None) as link,
                ):
                    serving = asyncio.create_task(link.serve(), name="link of the trial")
                    try:
                        await link.request("list", timeout=60.0)
                    finally:
                        await cancel_all(serving)
                self._checks.succeed(
                    "agent", f"serves, {self._means.clock() - began:.1f} s after the VM was listed"
                )
                return True
            except LadingError as error:
                fault = error.message
                self._checks.doing(fault)
            except TimeoutError:
                self._checks.doing(fault)
            if self._means.clock() >= until:
                # The first phase that was never passed is the one to look into.
                name = next((phase for phase in PHASES if phase not in behind), "agent")
                booting = self._settings.times.booting
                reason = f"{fault}; it did not become ready in {booting:g} s (TimeoutBooting)"
                self._checks.fail(name, reason)
                return False
            await asyncio.sleep(min(_PAUSE, max(0.1, until - self._means.clock())))

    async def _use(self, machine: CloudMachine) -> None:
        """Run a container, the command that was asked for, and a request with its shell and its
        port.
        """
        key, instance = self._means.key, machine.instance
        if key is None or instance is None:
            return
        target = SshAddress(
            address=instance.address,
            port=self._settings.ssh_port,
            user=instance.user,
            key=key,
            pinned=machine.pinned,
        )
        await self._checks.attempt("container", self._smoke_test(target))
        if self._means.command:
            await self._checks.attempt("command", self._order(target, self._means.command))
        if self._means.server is not None:
            async with AsyncExitStack() as stack:
                await self._serve(
                    functools.partial(self._reach_api, target), self._means.server(machine), stack
                )

    async def _serve(
        self,
        reach_api: Callable[[TrialServer], Awaitable[str]],
        opening: AbstractAsyncContextManager[TrialServer],
        stack: AsyncExitStack,
    ) -> None:
        """Run a request through a server for the time of the trial; enter its container by shell
        and by port.
        """
        opened: list[TrialServer] = []

        async def begin() -> str:
            opened.append(await stack.enter_async_context(opening))
            return await reach_api(opened[0])

        if await self._checks.attempt("api", begin()) is None:
            return
        (server,) = opened
        if await self._checks.attempt("request", server.run()) is None:
            return
        await self._checks.attempt("shell", server.shell())
        await self._checks.attempt("port", server.port())

    async def _reach_api(self, target: SshAddress, server: TrialServer) -> str:
        answer = await self._ask(
            target, _API_CHECK, server.url, server.certificate, timeout=_API_TIMEOUT
        )
        if "error" in answer:
            raise Unavailable(f"the VM does not reach {server.url}: {answer['error']}")
        return f"the VM reaches {server.url}: {answer['said']}"

    async def _smoke_test(self, target: SshAddress) -> str:
        answer = await self._ask(
            target, _SMOKE_TEST, self._settings.directory, timeout=_COMMAND_TIMEOUT
        )
        if "error" in answer:
            raise Unavailable(f"{answer['engine']}: {answer['error']}")
        return f"{answer['engine']}: {answer['said']}"

    async def _ask(
        self, target: SshAddress, program: Path, *arguments: str, timeout: float
    ) -> dict[str, str]:
        """Run a test program on the VM and return its one line of JSON. Raises Unavailable."""
        source = await asyncio.to_thread(program.read_bytes)
        packed = base64.b85encode(zlib.compress(source, 9)).decode()
        text = f"import base64, zlib; exec(zlib.decompress(base64.b85decode({packed!r})))"
        words = ("python3", "-c", text, *arguments)
        async with Shell(target, timeout=20.0) as shell:
            command = f"PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH {shell.sudo}{shlex.join(words)}"
            done = await shell.run(command, timeout=timeout)
        try:
            return msgspec.json.decode(done.out, type=dict[str, str])
        except msgspec.DecodeError as error:
            raise Unavailable(f"exit code {done.code}: {done.words}") from error

    async def _order(self, target: SshAddress, command: str) -> str:
        async with Shell(target, timeout=20.0) as shell:
            done = await shell.run(command, timeout=_COMMAND_TIMEOUT)
        if done.code:
            raise Unavailable(f"exit code {done.code}: {done.words}")
        said = done.out.decode(errors="replace").strip().splitlines()
        return said[-1][:300] if said else "exit code 0"

    async def _change(self, id: str, tags: Mapping[str, str]) -> Instance:
        await self._operate(self._driver.tag(id, tags))
        return await self._find(id, tags)

    async def _remove(self, id: str) -> str:
        """Remove one until it is not listed."""
        began = self._means.clock()
        while True:
            await self._operate(self._driver.destroy(id))
            asked = self._means.clock()
            while self._means.clock() - asked < self._settings.shutdown_timeout:
                if id not in {instance.id for instance in await self._operate(self._driver.list())}:
                    return f"not listed any more after {self._means.clock() - began:.1f} s"
                await asyncio.sleep(min(1.0, self._settings.shutdown_timeout))
            if self._means.clock() - began >= _REMOVAL_PATIENCE:
                raise Unavailable(f"{id} is still listed after {_REMOVAL_PATIENCE:g} s")

    async def _clear(self) -> None:
        """Remove all VMs of the test."""
        self._checks.doing("removing remaining VMs")
        await self._end_creation()
        until, empty, fault, left = self._means.clock() + _REMOVAL_PATIENCE, 0, "", list[str]()
        while self._means.clock() < until:
            try:
                left = [instance.id for instance in await self._operate(self._driver.list())]
                empty = 0 if left else empty + 1
                await self._destroy(left)
            except LadingError as error:
                fault, empty = error.message, 0
                if self._creating is None:
                    # The cloud could not even be asked at first: there is nothing.
                    return
            # Twice: one list may leave something out.
            if empty == 2:
                self._checks.succeed("nothing left", "the cloud lists no instance of this test")
                return
            await asyncio.sleep(_PAUSE if fault or left else 0.2)
        self._checks.fail(
            "nothing left",
            f"{', '.join(left) or 'not known'} may be left ({fault or 'still listed'})",
        )

    async def _destroy(self, ids: Iterable[str]) -> None:
        for id in ids:
            await self._operate(self._driver.destroy(id))

    async def _end_creation(self) -> None:
        """Wait for the creation that is under way, but not for ever."""
        if self._creating is not None and not self._creating.done():
            await asyncio.wait((self._creating,), timeout=self._settings.operation_timeout)
            self._creating.cancel()
        await asyncio.gather(
            *([self._creating] if self._creating is not None else []), return_exceptions=True
        )

    async def _operate(self, call: Awaitable[_Answer]) -> _Answer:
        try:
            async with asyncio.timeout(self._settings.operation_timeout):
                return await call
        except TimeoutError as error:
            raise Unavailable(
                f"the cloud did not answer in {self._settings.operation_timeout:g} s"
            ) from error

    def _tags(self, kind: InstanceType, secret: str, behavior: Behavior) -> dict[str, str]:
        tag = self._settings.tag
        return dict(self._settings.resource_tags) | {
            tag("InstanceSetID"): self._settings.set_id,
            tag("InstanceType"): kind.name,
            tag("IdleBehavior"): behavior.value,
            tag("InstanceSecret"): secret,
        }


def _remedy(_: str, error: LadingError) -> str:
    match error:
        case QuotaReached():
            return "have the account's quota raised, or remove unused instances"
        case NoCapacity():
            return "try another type, zone or region, or later"
        case RateLimited():
            return "wait, and lower MaxCloudOpsPerSecond"
        case _:
            return ""


def _fault_of(instance: Instance, tags: Mapping[str, str]) -> str:
    """Fault of a listed instance, or "" when it has its tags and an address."""
    wrong = sorted(name for name, value in tags.items() if instance.tags.get(name) != value)
    if wrong:
        return f"its tags are not as they were set: {', '.join(wrong)}"
    return "" if instance.address else "it has no address"
