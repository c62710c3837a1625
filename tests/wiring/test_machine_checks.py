"""The checks of lading doctor on machines made for the test."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from lading.core.user_ids import Extent
from lading.supervisor.rootless_trial import RootlessTrial
from lading.supervisor.subordinate_ids import FoundIds, IdMap
from lading.testing.images import add_driver
from lading.wiring.checked_machine import Check, CheckedMachine, CheckResult
from lading.wiring.machine_checks import can_run, examine, internet_fault

_REFUSED = RootlessTrial(fault="this user may make no user namespaces", mend="sudo sysctl x=1")


@pytest.fixture
def machine(tmp_path: Path) -> CheckedMachine:
    """A machine that has everything."""
    for path, text in {
        "proc/filesystems": "nodev\tsysfs\nnodev\toverlay\n",
        "proc/sys/user/max_user_namespaces": "100\n",
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory pids\n",
        "dev/fuse": "",
        "var/run/docker.sock": "",
        "run/podman/podman.sock": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    for kind in ("mnt", "pid", "ipc", "uts", "net"):
        (tmp_path / "proc/self/ns" / kind).symlink_to("x:[1]")
    return CheckedMachine(
        data=tmp_path / "data" / "lading",
        user=0,
        root=tmp_path,
        which=lambda name: f"/usr/bin/{name}",
        library=lambda name: f"lib{name}.so.3",
        version=(3, 11, 2),
        python_is_optimised=lambda: True,
        user_ids_fault=lambda path: "",
        try_native=lambda path: _REFUSED,
        delegated=lambda: (),
        starter_fault=lambda: "it was not built",
        docker_answers=lambda path: True,
        port_is_free=lambda address: True,
    )


def _find(machine: CheckedMachine, name: str) -> Check:
    return next(check for check in examine(machine) if check.name == name)


def test_a_machine_that_has_everything(machine: CheckedMachine) -> None:
    checks = examine(machine)
    assert [
        check for check in checks if check.verdict is not CheckResult.OK and check.name != "disk"
    ] == []
    assert can_run(checks)


def test_what_containers_with_gpus_lack_is_told(machine: CheckedMachine) -> None:
    assert _find(machine, "gpus").finding == "none"
    for name in ("nvidia0", "nvidiactl"):
        (machine.root / "dev" / name).touch()
    found = _find(machine, "gpus")
    assert found.verdict is CheckResult.WARNING
    assert "no libcuda.so.1" in found.finding
    assert "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml" in found.mend
    add_driver(machine.root)
    found = _find(machine, "gpus")
    assert (found.verdict, found.finding.startswith("/dev/nvidia0, with ")) == (
        CheckResult.OK,
        True,
    )
    specification = machine.root / "etc/cdi/nvidia.json"
    specification.parent.mkdir()
    specification.write_text("{")
    found = _find(machine, "gpus")
    assert (found.verdict, "nvidia.json: is not read" in found.finding) == (
        CheckResult.WARNING,
        True,
    )


def test_what_could_not_be_removed_is_told(machine: CheckedMachine) -> None:
    place = machine.data / "cache" / "removed"
    (place / "layer~1").mkdir(parents=True)
    found = _find(machine, "removed")
    assert (found.verdict, f"1 in {place};" in found.finding) == (CheckResult.WARNING, True)
    assert f"find {place} -xdev -delete" in found.mend


def test_whether_root_in_a_container_is_nobody(machine: CheckedMachine) -> None:
    assert "no rights" in _find(machine, "user ids").finding
    found = _find(
        replace(machine, user_ids_fault=lambda path: f"no room at {path.name}"), "user ids"
    )
    assert (found.verdict, found.finding) == (
        CheckResult.WARNING,
        "root in a container is root of this machine: no room at lading",
    )
    assert _find(replace(machine, user=1000), "user ids").verdict is CheckResult.OK


def test_a_slow_python_is_told_of_and_does(machine: CheckedMachine) -> None:
    slow = replace(machine, python_is_optimised=lambda: False)
    assert _find(slow, "python").verdict is CheckResult.WARNING
    assert "--enable-optimizations" in _find(slow, "python").mend
    assert can_run(examine(slow))


def test_either_engine_is_enough(machine: CheckedMachine) -> None:
    user = replace(machine, user=1000)
    assert _find(user, "native").mend == "sudo sysctl x=1"
    assert can_run(examine(user)), "Docker answers"
    assert not can_run(examine(replace(user, docker_answers=lambda path: False)))
    assert can_run(examine(replace(machine, docker_answers=lambda path: False)))


def test_an_ordinary_user_may_have_the_native_engine(machine: CheckedMachine) -> None:
    alone = replace(machine, user=1000, docker_answers=lambda path: False)
    allowed = replace(alone, try_native=lambda path: RootlessTrial())
    assert can_run(examine(allowed))
    found = _find(allowed, "native").finding
    assert "as user id 1000" in found
    forbidden = replace(alone, try_native=lambda path: RootlessTrial(fault="no"))
    assert _find(forbidden, "native").mend == "sudo lading up"
    bare = replace(allowed, which=lambda name: None)
    assert _find(bare, "native").mend == "sudo apt install crun"
    assert _find(replace(bare, user=0), "native").finding == "crun: not on PATH"
    started = replace(bare, starter_fault=lambda: "")
    assert can_run(examine(started))
    assert _find(started, "crun").verdict is CheckResult.WARNING


def test_root_of_an_unprivileged_container(machine: CheckedMachine) -> None:
    status = machine.root / "proc/self/status"
    status.write_text("CapEff:\t00000000a80425fb\n")
    check = _find(machine, "namespaces")
    assert check.verdict is CheckResult.MISSING
    assert "--privileged" in check.mend
    status.write_text("CapEff:\t000001ffffffffff\n")
    assert _find(machine, "namespaces").verdict is CheckResult.OK


@pytest.mark.parametrize(
    ("path", "name", "mend"),
    [
        ("proc/filesystems", "overlay", "modprobe overlay"),
        ("proc/self/ns/pid", "namespaces", "boot a kernel with namespaces"),
        (
            "proc/sys/user/max_user_namespaces",
            "user namespaces",
            "sysctl user.max_user_namespaces=15000",
        ),
        ("sys/fs/cgroup/cgroup.controllers", "cgroups", "mount -t cgroup2 none /sys/fs/cgroup"),
        ("dev/fuse", "fuse", "modprobe fuse"),
        ("var/run/docker.sock", "docker", "systemctl start docker"),
    ],
)
def test_what_is_missing_can_be_mended(
    machine: CheckedMachine, path: str, name: str, mend: str
) -> None:
    (machine.root / path).unlink()
    check = _find(machine, name)
    assert check.verdict is not CheckResult.OK
    assert check.mend == mend


def test_cgroups_in_part(machine: CheckedMachine) -> None:
    (machine.root / "sys/fs/cgroup/cgroup.controllers").write_text("memory")
    assert _find(machine, "cgroups").finding == (
        "version 2; native engine: ram by a control group, processes by RLIMIT_NPROC,"
        " vcpus not at all"
    )
    assert "subtree_control" in _find(machine, "cgroups").mend
    (machine.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    for name in ("memory", "cpu", "pids"):
        (machine.root / "sys/fs/cgroup" / name).mkdir()
    assert _find(machine, "cgroups").finding == "version 1: memory, cpu, pids"
    (machine.root / "run/systemd/system").mkdir(parents=True)
    rootless = _find(replace(machine, user=1000), "cgroups")
    assert rootless.verdict is CheckResult.WARNING
    assert "--ram and --vcpus limit no container" in rootless.finding
    assert rootless.mend == "boot with systemd.unified_cgroup_hierarchy=1"


@pytest.fixture
def hybrid(machine: CheckedMachine) -> CheckedMachine:
    """Version 1, with a mount of version 2 beside it that has the controller of memory."""
    groups = machine.root / "sys/fs/cgroup"
    (groups / "cgroup.controllers").unlink()
    for name in ("cpu", "pids", "unified"):
        (groups / name).mkdir()
    (groups / "unified" / "cgroup.controllers").write_text("memory\n")
    return machine


def test_a_controller_that_a_hybrid_machine_has_in_version_2_alone(hybrid: CheckedMachine) -> None:
    check = _find(hybrid, "cgroups")
    assert check.finding == (
        "version 1; native engine: ram by samples and kill, processes by a control group,"
        " vcpus by a control group"
    )
    mend = "mkdir /sys/fs/cgroup/memory; mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory"
    assert (check.verdict, check.mend) == (CheckResult.WARNING, mend)
    assert _find(hybrid, "cgroup layout").mend == mend


def test_control_groups_for_reading_alone(hybrid: CheckedMachine) -> None:
    (hybrid.root / "sys/fs/cgroup/memory").mkdir()
    check = _find(replace(hybrid, can_write=lambda path: path.name == "cpu"), "cgroups")
    assert check.finding == (
        "version 1, read-only for memory, pids; native engine: ram by samples and kill,"
        " processes by RLIMIT_NPROC, vcpus by a control group"
    )
    assert check.mend == "mount -o remount,rw /sys/fs/cgroup/memory"


def test_ids_of_an_ordinary_user(machine: CheckedMachine) -> None:
    lacking = RootlessTrial(ids=FoundIds(fault="not installed", mend="sudo apt install uidmap"))
    check = _find(replace(machine, user=1000, try_native=lambda path: lacking), "user ids")
    assert check.finding == "containers have the one id of this user: not installed"
    assert (check.verdict, check.mend) == (CheckResult.WARNING, "sudo apt install uidmap")
    rows = (Extent(1, 100_000, 65_536),)
    allowed = RootlessTrial(ids=FoundIds(IdMap(rows, rows)))
    check = _find(replace(machine, user=1000, try_native=lambda path: allowed), "user ids")
    assert "containers have 65537 ids" in check.finding
    assert check.verdict is CheckResult.OK


def test_limits_of_an_ordinary_user(machine: CheckedMachine) -> None:
    user = replace(machine, user=1000)
    check = _find(user, "cgroups")
    assert "version 2; native engine: ram by samples and kill" in check.finding
    assert (check.verdict, check.mend) == (CheckResult.WARNING, "sudo lading up")
    for place in ("run/systemd/system", "run/user/1000/systemd"):
        (machine.root / place).mkdir(parents=True)
    assert _find(user, "cgroups").mend == "sudo loginctl enable-linger 1000; lading down; lading up"
    check = _find(replace(user, delegated=lambda: ("memory", "cpu", "pids")), "cgroups")
    assert "vcpus by a delegated control group" in check.finding
    assert (check.verdict, check.mend) == (CheckResult.OK, "")


def test_the_hybrid_layout_that_crun_refuses(machine: CheckedMachine) -> None:
    unified = machine.root / "sys/fs/cgroup/unified"
    unified.mkdir()
    (unified / "cgroup.controllers").write_text("hugetlb\n")
    check = _find(machine, "cgroup layout")
    assert "also that of podman" in check.finding
    assert check.mend.endswith("mount -t cgroup -o hugetlb cgroup /sys/fs/cgroup/hugetlb")


def test_programs_and_versions(machine: CheckedMachine) -> None:
    bare = replace(machine, which=lambda name: None, version=(3, 10, 1))
    assert _find(bare, "crun").mend == "apt install crun"
    assert _find(bare, "python").verdict is CheckResult.MISSING
    assert not can_run(examine(bare))
    (machine.root / "var/run/docker.sock").unlink()
    assert _find(bare, "docker").mend == "apt install docker.io"


def test_what_is_for_root_only_or_taken(machine: CheckedMachine) -> None:
    (machine.root / "dev/fuse").chmod(0o600)
    assert _find(replace(machine, user=5), "fuse").mend == "chmod 666 /dev/fuse"
    assert "is taken" in _find(replace(machine, port_is_free=lambda address: False), "port").finding


def test_what_mounting_needs(machine: CheckedMachine) -> None:
    (machine.root / "dev/fuse").chmod(0o666)
    user = replace(machine, user=5)
    assert _find(user, "fuse").verdict is CheckResult.OK
    assert _find(replace(user, which=lambda name: None), "fuse").mend == "apt install fuse3"
    assert _find(replace(machine, library=lambda name: None), "fuse").mend == "apt install fuse3"


def test_little_disk(machine: CheckedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("usage", (), {"free": 1 << 30})
    monkeypatch.setattr("lading.wiring.machine_checks.shutil.disk_usage", lambda path: usage)
    assert _find(machine, "disk").mend == "choose another place: lading up --data DIR"


def test_looks_at_this_machine(tmp_path: Path) -> None:
    with socket.socket() as taken, socket.socket(socket.AF_UNIX) as docker:
        taken.bind(("127.0.0.1", 0))
        docker.bind(str(tmp_path / "docker.sock"))
        here = CheckedMachine(data=tmp_path, user=os.geteuid())
        assert not here.port_is_free(taken.getsockname())
        assert not here.docker_answers(tmp_path / "docker.sock")
        docker.listen()
        assert here.docker_answers(tmp_path / "docker.sock")
    assert here.port_is_free(("127.0.0.1", 0))


def test_the_network_of_containers(machine: CheckedMachine) -> None:
    assert _find(machine, "container network").verdict is CheckResult.OK
    bare = _find(replace(machine, which=lambda name: None), "container network")
    assert (bare.verdict, bare.mend) == (CheckResult.WARNING, "apt install nftables slirp4netns")
    (machine.root / "usr/sbin").mkdir(parents=True)
    (machine.root / "usr/sbin/nft").touch()
    assert (
        _find(replace(machine, which=lambda name: None), "container network").mend
        == "apt install slirp4netns"
    )
    assert _find(machine, "container network").finding == "slirp4netns, nft"
    assert not internet_fault(machine)


def test_the_network_of_containers_of_an_ordinary_user(machine: CheckedMachine) -> None:
    user = replace(machine, user=5)
    assert "user id 5" in _find(user, "container network").finding
    assert internet_fault(user).endswith("(sudo chmod 666 /dev/net/tun)")
    (machine.root / "dev/net").mkdir(parents=True)
    (machine.root / "dev/net/tun").touch()
    (machine.root / "dev/net/tun").chmod(0o666)
    assert _find(user, "container network").finding == "pasta, nft"
    for installed in ({"pasta"}, {"slirp4netns"}):
        only = replace(user, which={name: name for name in installed}.get)
        assert internet_fault(only) == (
            "containers have no internet without nft (sudo apt install nftables)"
        )
    assert internet_fault(replace(user, which=lambda name: None)) == (
        "containers have no internet without nft and pasta or slirp4netns"
        " (sudo apt install nftables slirp4netns)"
    )


def test_podman_without_root(machine: CheckedMachine) -> None:
    user = replace(machine, user=1000, docker_answers=lambda path: False)
    bare = replace(user, which=lambda name: None)
    of_shell = "apt install podman uidmap; podman system service --time=0 &"
    assert _find(bare, "podman").mend == of_shell
    (machine.root / "run/systemd/system").mkdir(parents=True)
    assert _find(bare, "podman").mend.startswith("apt install podman uidmap; systemctl --user")
    halves = replace(user, which=lambda name: None if name == "newuidmap" else name)
    assert _find(halves, "podman").mend.startswith("apt install uidmap; systemctl --user")
    assert _find(replace(bare, user=0), "podman").mend == "apt install podman"
    place = "run/user/1000/podman/podman.sock"
    (machine.root / place).parent.mkdir(parents=True)
    (machine.root / place).touch()
    fit = replace(user, docker_answers=lambda path: path == machine.root / place)
    assert can_run(examine(fit))
    assert not can_run(examine(user))


@pytest.mark.parametrize(
    ("name", "place", "environ"),
    [
        ("podman", "run/of-ann/podman/podman.sock", {"XDG_RUNTIME_DIR": "/run/of-ann"}),
        ("docker", "run/of-ann/docker.sock", {"XDG_RUNTIME_DIR": "/run/of-ann"}),
        ("podman", "srv/podman.sock", {"DOCKER_HOST": "unix:///srv/podman.sock"}),
        ("docker", "srv/docker.sock", {"DOCKER_HOST": "unix:///srv/docker.sock"}),
    ],
)
def test_services_are_looked_for_where_lading_up_looks(
    machine: CheckedMachine, name: str, place: str, environ: dict[str, str]
) -> None:
    path = machine.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    user = replace(machine, user=1000, docker_answers=lambda found: found == path, environ={})
    assert not can_run(examine(user))
    found = _find(replace(user, environ=environ), name)
    assert (found.verdict, found.finding) == (CheckResult.OK, str(path))
    assert can_run(examine(replace(user, environ=environ)))
