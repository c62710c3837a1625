from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from lading.core.containers.container import Container
from lading.core.containers.mounting.mount_plan import plan
from lading.core.values import Json
from lading.supervisor.container_spec import CERTIFICATES, amount, specify
from lading.supervisor.engines import Bind, NetworkAccess
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.limits.gpu_locks import LockedGpus
from lading.testing.supervising import CONTAINER
from tests.supervisor.supervised import Bench


@pytest.mark.parametrize("own", [False, True])
def test_who_may_use_the_api_gets_token_and_certificates(
    bench: Bench, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lading.supervisor.container_spec.certificates", lambda: "/etc/bundle")
    stage = Stage(
        plan({"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch="/s")
    )
    stage.binds = (Bind("/mine", CERTIFICATES, True),) if own else ()
    container = Container(
        uuid=CONTAINER, command=["x"], runtime_constraints={"API": True, "ram": 5, "vcpus": -1}
    )
    made = specify(
        container, stage, bench.assignment(), token="t", gpus=LockedGpus(), stdout=1, stderr=2
    )
    assert made.environment == (("ARVADOS_API_TOKEN", "t"), ("ARVADOS_API_HOST", "host:1"))
    assert made.binds == (Bind("/mine" if own else "/etc/bundle", CERTIFICATES, True),)
    assert (made.ram, made.vcpus, made.processes, made.network) == (5, 0, 4096, True)
    assert made.reach == NetworkAccess(api=("host:1",))


@pytest.mark.parametrize("internet", [True, False])
def test_what_is_reached(bench: Bench, internet: bool) -> None:
    stage = Stage(
        plan({"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch="/s")
    )
    told = structs.replace(
        bench.assignment(),
        api_addresses=("b:2",),
        internet_with_api=internet,
        refused_networks=("10.0.0.0/8",),
    )
    for constraints, reach in (
        (
            {"API": True},
            NetworkAccess(api=("host:1", "b:2"), internet=internet, refused=("10.0.0.0/8",)),
        ),
        ({"internet": True}, NetworkAccess(internet=True, refused=("10.0.0.0/8",))),
    ):
        container = Container(uuid=CONTAINER, command=["x"], runtime_constraints=dict(constraints))
        made = specify(container, stage, told, token="t", gpus=LockedGpus(), stdout=1, stderr=2)
        assert (made.network, made.reach) == (True, reach)


def test_variables_of_secret_mounts_are_in_the_environment(bench: Bench) -> None:
    secret: dict[str, Json] = {
        "/run/secrets/DB": {"kind": "text", "content": "canary", "environment_variable": "DB"},
        "/etc/key": {"kind": "text", "content": "canary of a file"},
    }
    planned = plan(
        {"/out": {"kind": "tmp"}}, secret_mounts=secret, output_path="/out", scratch="/s"
    )
    container = Container(uuid=CONTAINER, command=["x"], environment={"A": "1"})
    told = bench.assignment()
    made = specify(
        container, Stage(planned), told, token="t", gpus=LockedGpus(), stdout=1, stderr=2
    )
    assert made.environment == (("A", "1"), ("DB", "canary"))
    # A plan may be shown in a message of an error.
    assert "canary" not in repr(planned)


def test_amounts() -> None:
    assert [amount({"x": value}, "x") for value in (None, -1, 0, 3, "3")] == [0, 0, 0, 3, 0]


def test_a_gang_may_share_vcpus_and_each_rank_gets_its_files(bench: Bench, tmp_path: Path) -> None:
    scratch = tmp_path / "s"
    text: Json = {"kind": "text", "content": "x"}
    planned = plan(
        {"/out": {"kind": "tmp"}, "/hpcaas/files/mesh": text, "/hpcaas/files/d/e": text},
        secret_mounts={},
        output_path="/out",
        scratch=str(scratch),
    )
    stage = Stage(planned)
    (scratch / "mesh").parent.mkdir()
    (scratch / "mesh").touch()
    files = ("/hpcaas/files/mesh", "/hpcaas/files/d/e")
    stage.binds = tuple(Bind(str(scratch / "mesh"), target, True) for target in files)
    container = Container(
        uuid=CONTAINER,
        output_path="/out",
        runtime_constraints={"ram": 5, "vcpus": 2},
        scheduling_parameters={"nodes": 3, "share_vcpus": True},
    )
    config = bench.assignment()
    made = specify(container, stage, config, token="t", gpus=LockedGpus(), stdout=1, stderr=2)
    assert (made.ram, made.vcpus) == (15, 2)
    assert dict(made.environment)["OMPI_MCA_mpi_yield_when_idle"] == "1"
    assert made.files == (("mesh", str(scratch / "mesh")),)
    assert [bind.target for bind in made.binds] == ["/hpcaas/files/d/e"]


def test_a_gang_gets_the_resources_of_all_its_containers(bench: Bench) -> None:
    stage = Stage(
        plan({"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch="/s")
    )
    container = Container(
        uuid=CONTAINER,
        command=["x"],
        output_path="/out",
        runtime_constraints={"ram": 5, "vcpus": 2},
        scheduling_parameters={"nodes": 3, "launcher": "all", "rank_failure": "none"},
    )
    made = specify(
        container,
        stage,
        bench.assignment(),
        token="t",
        gpus=LockedGpus(),
        stdout=1,
        stderr=2,
        notices=3,
    )
    assert (made.nodes, made.ram, made.vcpus, made.processes, made.notices) == (3, 15, 6, 12288, 3)
    assert (made.launcher, made.rank_failure, made.output_path) == ("all", "none", "/out")
