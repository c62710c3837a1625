"""`lading kubernetes test`: tests a configuration against the real cluster, step by step.

- Each step is reported as soon as it is over, with its findings, or with the fault and the remedy.
- For each kind of node a check Pod runs programs of the test in the image of the supervisor, with
  the security context of every other Pod. Their answers come by its termination message, so that
  the test needs no more rights than the dispatcher.
- With a server a request runs in the cluster through the fleet itself, and a shell and a port of
  its container are used.
- All Pods of the test are removed at the end, also after a cancellation, and those of a killed
  earlier test on this machine: they have the same label.

Source: docs/spec/kubernetes.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lading.client.checks import CheckRunner, CheckStep
from lading.core.errors import LadingError, Unavailable
from lading.core.kubernetes import pod_manifest
from lading.core.kubernetes.pod_manifest import NodeKind, attempt_of
from lading.core.kubernetes.pod_states import PodPhase, PodState, read_pod, shorten
from lading.core.kubernetes.refusals import RIGHTS, RefusalKind, missing_rules
from lading.core.resources import GIB, MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.core.values import JsonObject
from lading.dispatch.fleet import TrialServer
from lading.dispatch.fleets.cloud import api_check, smoke_test
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi, NotAllowed
from lading.dispatch.fleets.kubernetes.settings import KubernetesSettings

_Answer = TypeVar("_Answer")
# Seconds between two looks at a Pod, and for the removal of what is left.
_PAUSE, _REMOVAL_PATIENCE = 0.5, 120.0
_KILL_GRACE = 1
# Need of a check Pod.
_NEED = Resources(1, 128 * MIB, GIB)
# Each program writes one line of JSON; the kubelet keeps 4096 bytes of the file.
_SCRIPT = """python=$1; url=$2; certificate=$3; shift 3
log=/dev/termination-log
check() { name=$1; shift; said=$("$python" -c "$@" 2>&1 | tail -n 1 | head -c 900); \
printf '%s %s\\n' "$name" "$said" >>"$log"; }
check runner "$1"
check engine "$2" {data}
[ -z "$url" ] || check api "$3" "$url" "$certificate"
"""
_RUNNER = (
    "import json, sys, lading, lading.supervisor.process.standalone as _;"
    "print(json.dumps({'said': f'Lading {lading.__version__} on Python'"
    " f' {sys.version.split()[0]}'}))"
)
MENDS = {
    "access": "check Containers.Kubernetes.Kubeconfig (server, and the certificate-authority that"
    " signed its certificate), Context and Namespace, and that this machine reaches the API server",
    "rights": "bind the Role of deploy/kubernetes/dispatcher.yaml to the user or service account",
    "pod": "see the events of the Pod (kubectl describe pod); NodeSelector and Tolerations have to"
    " suit nodes with room for it",
    "runner": "Image has to be the one of `make image` of this version, or name SupervisorCommand",
    "engine": "Isolation: user-namespace needs Kubernetes 1.33 and a runtime with user namespaces;"
    " privileged needs a namespace whose Pod Security level is privileged",
    "api": "Pods have to reach the address of the server through every network policy and firewall;"
    " --listen tries another address of this machine",
    "request": "see the log of the Pod (kubectl logs) while it is there",
    "shell": "the supervisor in the Pod has to keep a connection open to the server,"
    " and this machine needs ssh (openssh-client)",
    "port": "the supervisor in the Pod has to keep a connection open to the server",
    "removal": "delete the Pod by hand",
    "nothing left": "delete them by hand, as they hold resources",
}


OpenServer = Callable[[NodeKind], AbstractAsyncContextManager[TrialServer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMeans:
    """Services that a test uses. `uuid` is of a made-up container of the check Pods, `token` makes
    a random text; `server` starts a server for a kind of node, None to run no request. `fleet` is
    the dispatcher label of the Pods of that server, which is another one than that of check Pods:
    a dispatcher ends Pods of containers that it does not know.
    """

    settings: KubernetesSettings
    api: KubernetesApi
    uuid: str
    token: Callable[[], str]
    clock: Callable[[], float]
    server: OpenServer | None = None
    fleet: str = ""
    pause: float = _PAUSE


class ClusterTest:
    """One test. `tell` is called with each step that is over, `doing` with the present activity."""

    def __init__(
        self,
        means: CheckMeans,
        *,
        tell: Callable[[CheckStep], None],
        doing: Callable[[str], None],
    ) -> None:
        self._means = means
        self._api = means.api
        self._pods = means.settings.pods
        self._labels = [self._pods.dispatcher, *([means.fleet] if means.fleet else [])]
        self._checks = CheckRunner(
            MENDS, tell=tell, clock=means.clock, doing=doing, remedy_of=_remedy
        )
        self._checks.subject = {"kind": ""}

    async def run(self, kinds: Iterable[NodeKind]) -> bool:
        """Test each kind of node; return whether all steps succeeded."""
        if await self._checks.attempt("access", self._access()) is None:
            return False
        try:
            if await self._checks.attempt("rights", self._rights()) is not None:
                for kind in kinds:
                    self._checks.subject = {"kind": kind.name}
                    await self._try(kind)
        finally:
            self._checks.subject = {"kind": ""}
            await self._clear()
        return not self._checks.failed

    async def _access(self) -> str:
        await self._check_namespace()
        answer = f"the API server answers for namespace {self._api.namespace}"
        try:
            pods = await self._states()
            for pod in pods:
                await self._delete(pod)
        except NotAllowed as error:
            # The next step names all rights that are missing.
            if error.refusal.kind is RefusalKind.RIGHT:
                return answer
            raise
        return f"{answer}; {len(pods)} Pods of an earlier test are removed" if pods else answer

    async def _check_namespace(self) -> None:
        # A list of a namespace that does not exist is empty for those who may list in all.
        try:
            await self._api.check_namespace()
        except NotAllowed as error:
            # A Role of a namespace does not allow to ask, and shows that the namespace is there.
            if error.refusal.kind is RefusalKind.NAMESPACE:
                raise

    async def _rights(self) -> str:
        missing = [
            (verb, resource)
            for resource, verbs in RIGHTS.items()
            for verb in verbs
            if not await self._api.may(verb, resource)
        ]
        if missing:
            raise Unavailable(
                f"the Role of the dispatcher in namespace {self._api.namespace}"
                f" lacks: {', '.join(' '.join(right) for right in missing)};"
                f" it needs the rules {missing_rules(missing)}"
            )
        more = " It may read all Secrets of the namespace, too, which it need not."
        reads = await self._api.may("get", "secrets") or await self._api.may("list", "secrets")
        return f"all verbs on Pods and Secrets that the dispatcher uses.{more if reads else ''}"

    async def _try(self, kind: NodeKind) -> None:
        async with AsyncExitStack() as stack:
            server: TrialServer | None = None
            if self._means.server is not None:
                opening = self._means.server(kind)
                server = await self._checks.attempt(
                    "server",
                    stack.enter_async_context(opening),
                    lambda started: f"at {started.url}",
                )
                if server is None:
                    return
            if await self._check(kind, server) and server is not None:
                await self._use(server)

    async def _check(self, kind: NodeKind, server: TrialServer | None) -> bool:
        """The steps of a check Pod; whether all have succeeded."""
        attempt = attempt_of(self._means.token())
        made = await self._checks.attempt("pod", self._run_pod(kind, server, attempt), _where)
        if made is None:
            return False
        pod, state = made
        answers = _answers(pod)
        steps = ["runner", "engine", *(["api"] if server is not None else [])]
        passed = [
            await self._checks.attempt(name, _judge(answers.get(name, ""))) is not None
            for name in steps
        ]
        removed = await self._checks.attempt("removal", self._remove(state))
        return all(passed) and removed is not None

    async def _run_pod(
        self, kind: NodeKind, server: TrialServer | None, attempt: str
    ) -> tuple[JsonObject, PodState]:
        """Run a check Pod to its end. Raises LadingError."""
        uuid = self._means.uuid
        pod = self._manifest(kind, server, attempt)
        created = await self._api.create("pods", pod)
        state = self._read(created)
        secret = pod_manifest.make_secret(
            self._pods,
            uuid,
            attempt=attempt,
            pod_uid=state.uid,
            files={pod_manifest.ASSIGNMENT: b""},
        )
        await self._api.create("secrets", secret)
        until = self._means.clock() + self._means.settings.patience.begin
        while state.phase is not PodPhase.ENDED:
            if self._means.clock() >= until:
                raise Unavailable(f"it has not ended after a while. {state.note}")
            self._checks.doing(state.note)
            await asyncio.sleep(self._means.pause)
            current = await self._api.get("pods", state.name)
            if current is None:
                raise Unavailable(f"Pod {state.name} is gone; somebody has deleted it")
            created, state = current, self._read(current)
        return created, state

    def _manifest(self, kind: NodeKind, server: TrialServer | None, attempt: str) -> JsonObject:
        container = TrackedContainer(uuid=self._means.uuid, need=_NEED)
        pod: Any = pod_manifest.make_pod(self._pods, kind, container, attempt=attempt)
        first = self._pods.command[0]
        python = first if Path(first).name.startswith("python") else "python3"
        programs = [_RUNNER, _packed(smoke_test.__file__), _packed(api_check.__file__)]
        way = ("", "") if server is None else (server.url, server.certificate)
        script = _SCRIPT.replace("{data}", pod_manifest.DATA)
        (one,) = pod["spec"]["containers"]
        one["command"] = ["/bin/sh", "-c", script, "sh", python, *way, *programs]
        return pod  # type: ignore[no-any-return]

    def _read(self, pod: JsonObject) -> PodState:
        state = read_pod(pod, dispatcher=self._pods.dispatcher)
        if state is None:
            raise Unavailable("the API server shows another Pod than the one that was made")
        return state

    async def _use(self, server: TrialServer) -> None:
        if await self._checks.attempt("request", server.run()) is None:
            return
        await self._checks.attempt("shell", server.shell())
        await self._checks.attempt("port", server.port())

    async def _remove(self, state: PodState) -> str:
        await self._delete(state)
        until = self._means.clock() + _REMOVAL_PATIENCE
        while await self._api.get("pods", state.name) is not None:
            if self._means.clock() >= until:
                raise Unavailable(f"{state.name} is still there after {_REMOVAL_PATIENCE:g} s")
            await asyncio.sleep(self._means.pause)
        return "Pod and secret are removed"

    async def _delete(self, state: PodState) -> None:
        await self._api.delete("pods", state.name, grace=_KILL_GRACE, uid=state.uid)
        await self._api.delete("secrets", state.name)

    async def _states(self) -> list[PodState]:
        listed: list[PodState] = []
        for label in self._labels:
            items, _ = await self._api.list_all("pods", pod_manifest.selector(label))
            states = (read_pod(item, dispatcher=label) for item in items)
            listed += [state for state in states if state is not None]
        return listed

    async def _clear(self) -> None:
        """Remove all Pods of the test."""
        self._checks.doing("removing what is left")
        until, left = self._means.clock() + _REMOVAL_PATIENCE, list[PodState]()
        try:
            while left := await self._states():
                if self._means.clock() >= until:
                    break
                for pod in left:
                    await self._delete(pod)
                await asyncio.sleep(self._means.pause)
        except LadingError as error:
            self._checks.fail("nothing left", error.message)
            return
        names = ", ".join(pod.name for pod in left)
        if left:
            self._checks.fail("nothing left", f"{names} may be left")
        else:
            self._checks.succeed("nothing left", "the cluster lists no Pod of this test")


def _remedy(_: str, error: LadingError) -> str:
    is_right = isinstance(error, NotAllowed) and error.refusal.kind is RefusalKind.RIGHT
    return MENDS["rights"] if is_right else ""


def with_label(settings: KubernetesSettings, dispatcher: str) -> KubernetesSettings:
    """The settings for Pods of a test: those of the dispatcher are left alone."""
    return replace(settings, pods=replace(settings.pods, dispatcher=dispatcher))


def _where(result: tuple[JsonObject, PodState]) -> str:
    _, state = result
    return f"{state.name} ran on {state.node or 'a node'}"


async def _judge(line: str) -> str:
    """The finding in the line of a program. Raises Unavailable."""
    try:
        answer = msgspec.json.decode(line, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise Unavailable(shorten(line) or "the check Pod gives no answer") from error
    if "error" in answer:
        raise Unavailable(shorten(answer["error"]))
    return shorten(answer.get("said", ""))


def _answers(pod: JsonObject) -> dict[str, str]:
    """The lines of a check Pod by the names of its programs."""
    status: Any = pod.get("status")
    by_program: dict[str, str] = {}
    for container in status.get("containerStatuses") or []:
        message = container.get("state", {}).get("terminated", {}).get("message") or ""
        for line in message.splitlines():
            name, _, sentence = line.partition(" ")
            by_program[name] = sentence
    return by_program


def _packed(file: str) -> str:
    # Without a dollar sign: the kubelet makes one of two in commands.
    packed = base64.b64encode(zlib.compress(Path(file).read_bytes(), 9)).decode()
    return f"import base64, zlib; exec(zlib.decompress(base64.b64decode({packed!r})))"
