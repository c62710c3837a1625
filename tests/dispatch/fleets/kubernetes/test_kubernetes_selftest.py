from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lading.client.checks import CheckStep
from lading.client.transport import Response
from lading.core.errors import Unavailable
from lading.core.kubernetes.pod_manifest import NodeKind
from lading.core.kubernetes.refusals import RIGHTS
from lading.dispatch.fleets.kubernetes.kubernetes_selftest import (
    CheckMeans,
    ClusterTest,
    OpenServer,
)
from lading.dispatch.fleets.kubernetes.pod_table import Patience
from lading.testing.kubernetes import FakeCluster
from lading.testing.simulated_loop import play
from tests.kubernetes_clusters import KIND, api_of, kubernetes_settings

UUID = "zzzzz-dz642-000000000000001"
FIT = (
    'runner {"said": "Lading 1"}\nengine {"engine": "crun", "said": "a container ran"}\n'
    'api {"said": "it serves"}\n'
)


class FakeServer:
    """A server whose request runs, unless `fault` says why it does not."""

    url, certificate = "https://server", "PEM"

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    async def run(self) -> str:
        if self.fault:
            raise Unavailable(self.fault)
        return "it runs"

    async def shell(self) -> str:
        return "a shell"

    async def port(self) -> str:
        return "a port"


def opening(server: FakeServer) -> OpenServer:
    @asynccontextmanager
    async def opened(_: NodeKind) -> AsyncIterator[FakeServer]:
        yield server

    return opened


def tried(
    cluster: FakeCluster, server: OpenServer | None = None, *kinds: NodeKind
) -> list[CheckStep]:
    """The steps of a test of this cluster, in simulated time."""
    steps: list[CheckStep] = []

    async def act() -> None:
        means = CheckMeans(
            settings=kubernetes_settings(patience=Patience(begin=60.0)),
            api=api_of(cluster),
            uuid=UUID,
            token=lambda: f"token {len(steps)}",
            clock=asyncio.get_running_loop().time,
            server=server,
        )
        test = ClusterTest(means, tell=steps.append, doing=lambda _: None)
        is_fit = await test.run(kinds or [KIND])
        assert is_fit == all(one.ok for one in steps)
        await cluster.close()

    play(act())
    return steps


def told(steps: list[CheckStep]) -> dict[str, bool]:
    return {one.name: one.ok for one in steps}


def test_a_fit_cluster_passes_all_steps_and_nothing_is_left() -> None:
    cluster = FakeCluster()
    cluster.message = FIT
    steps = tried(cluster, opening(FakeServer()))
    assert list(told(steps)) == [
        "access", "rights", "server", "pod", "runner", "engine", "api", "removal", "request",
        "shell", "port", "nothing left",
    ]  # fmt: skip
    assert all(one.ok for one in steps)
    assert not cluster.pods
    assert not cluster.secrets


class RecordingCluster(FakeCluster):
    """Keeps the commands of Pods that are made."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[list[str]] = []

    async def request(self, method: str, path: str, **more: Any) -> Response:
        """See Transport."""
        if method == "POST" and path.endswith("/pods"):
            made = msgspec.json.decode(more["body"])
            self.commands.append(made["spec"]["containers"][0]["command"])
        return await super().request(method, path, **more)


def test_the_kubelet_finds_nothing_to_expand_in_the_programs_of_a_check() -> None:
    cluster = RecordingCluster()
    cluster.message = FIT
    tried(cluster)
    ((*_, runner, engine, api),) = cluster.commands
    # A real one makes `$` of `$$`, and a value of `$(NAME)`.
    assert "$" not in runner + engine + api


def test_without_a_server_the_pod_alone_is_tried() -> None:
    cluster = FakeCluster()
    cluster.message = FIT
    kinds = (KIND, replace(KIND, name="other"))
    steps = tried(cluster, None, *kinds)
    assert [one.subject["kind"] for one in steps if one.name == "engine"] == ["plain", "other"]
    assert not {"server", "api", "request"} & told(steps).keys()


@pytest.mark.parametrize(
    ("verb", "resource"),
    [(verb, resource) for resource, verbs in RIGHTS.items() for verb in verbs],
)
def test_a_missing_right_is_named(verb: str, resource: str) -> None:
    cluster = FakeCluster()
    cluster.rights.remove((verb, resource))
    steps = tried(cluster)
    # Without the right to list nobody can say that nothing is left.
    is_clear = verb != "list"
    assert told(steps) == {"access": True, "rights": False, "nothing left": is_clear}
    assert steps[1].finding.endswith(
        f"lacks: {verb} {resource}; it needs the rules"
        f' {{apiGroups: [""], resources: [{resource}], verbs: [{verb}]}}'
    )
    assert "Role" in steps[1].remedy


@pytest.mark.parametrize("administrator", [True, False])
def test_a_namespace_that_does_not_exist_is_named(administrator: bool) -> None:
    cluster = FakeCluster()
    cluster.has_namespace = False
    if administrator:
        cluster.rights.add(("get", "namespaces"))
    steps = tried(cluster)
    # Without the right to ask for it the first Pod tells.
    failed = {"access": False} if administrator else {"access": True, "rights": True, "pod": False}
    assert told(steps).items() >= failed.items()
    (step,) = (one for one in steps if not one.ok)
    assert "namespace work does not exist" in step.finding
    assert "kubectl create namespace work" in step.finding


def test_a_right_that_is_not_needed_is_told() -> None:
    cluster = FakeCluster()
    cluster.message = FIT
    cluster.rights.add(("list", "secrets"))
    assert "It may read all Secrets" in tried(cluster)[1].finding


def test_a_cluster_that_cannot_be_reached_is_told() -> None:
    cluster = FakeCluster()
    cluster.down = True
    (step,) = tried(cluster)
    assert (step.name, step.ok) == ("access", False)
    assert "Kubeconfig" in step.remedy


def test_a_policy_that_forbids_the_pod_is_told() -> None:
    cluster = FakeCluster()
    cluster.refusal = 'pods "x" is forbidden: violates PodSecurity "baseline:latest"'
    steps = tried(cluster)
    assert told(steps) == {"access": True, "rights": True, "pod": False, "nothing left": True}
    assert "Pod Security" in steps[2].finding


def test_a_pod_that_does_not_begin_is_told_with_the_reason_and_removed() -> None:
    cluster = FakeCluster()
    cluster.image_is_there = False
    steps = tried(cluster)
    assert "ImagePullBackOff" in steps[2].finding
    assert told(steps)["nothing left"]
    assert not cluster.pods


@pytest.mark.parametrize(
    ("message", "step", "said"),
    [
        (FIT.replace("engine", "x"), "engine", "gives no answer"),
        (
            FIT.replace('{"said": "Lading 1"}', "sh: python3: not found"),
            "runner",
            "python3: not found",
        ),
        (FIT.replace('"said": "it serves"', '"error": "timed out"'), "api", "timed out"),
    ],
)
def test_a_check_that_fails_is_told_and_no_request_is_run(
    message: str, step: str, said: str
) -> None:
    cluster = FakeCluster()
    cluster.message = message
    steps = tried(cluster, opening(FakeServer()))
    (failed,) = [one for one in steps if not one.ok]
    assert (failed.name, said in failed.finding, bool(failed.remedy)) == (step, True, True)
    assert "request" not in told(steps)


def test_a_request_that_fails_is_told() -> None:
    cluster = FakeCluster()
    cluster.message = FIT
    steps = tried(cluster, opening(FakeServer("it does not run")))
    assert not told(steps)["request"]
    assert "shell" not in told(steps)


def test_pods_of_a_killed_test_are_removed() -> None:
    cluster = FakeCluster()
    cluster.image_is_there = False
    left = cluster.pods

    async def be_killed() -> None:
        means = CheckMeans(
            settings=kubernetes_settings(),
            api=api_of(cluster),
            uuid=UUID,
            token=lambda: "killed",
            clock=asyncio.get_running_loop().time,
        )
        test = ClusterTest(means, tell=lambda _: None, doing=lambda _: None)
        running = asyncio.create_task(test.run([KIND]))
        await cluster.pulse.wait_for(lambda: bool(cluster.secrets))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await cluster.close()

    play(be_killed())
    assert not left
