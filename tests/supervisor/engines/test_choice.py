"""Which engine a machine has."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from lading.supervisor.engines.choice import EngineSearch, answers, is_confined, is_private
from lading.supervisor.rootless_trial import RootlessTrial

_REFUSED = RootlessTrial(fault="this user may make no user namespaces", mend="sudo sysctl x=1")


def search(
    *,
    user: int = 1000,
    programs: Collection[str] = (),
    sockets: Collection[str] = (),
    environ: Mapping[str, str] | None = None,
    has_systemd: bool = True,
    is_confined: bool = False,
    private: Collection[str] = (),
    of_root: Collection[str] = (),
    has_cgroup2: bool = True,
    trial: RootlessTrial = _REFUSED,
    has_starter: bool = False,
    delegated: Sequence[str] = (),
    controllers: Sequence[str] = ("memory", "cpu", "pids"),
) -> EngineSearch:
    return EngineSearch(
        docker_socket="/d.sock",
        podman_socket="/p.sock",
        environ=environ or {},
        user=user,
        which=lambda name: f"/bin/{name}" if name in programs else None,
        answers=lambda path: path in sockets,
        has_systemd=lambda: has_systemd,
        is_confined=lambda: is_confined,
        is_private=lambda path, user: path in private,
        owner_of=lambda path: 0 if path in of_root else 1000,
        has_cgroup2=lambda: has_cgroup2,
        try_native=lambda directory: trial,
        has_starter=lambda: has_starter,
        delegated=lambda: delegated,
        controllers=lambda: controllers,
        is_lingering=lambda: True,
    )


_OWN = "/tmp/podman-run-1000"
_DOCKER, _PODMAN = "/run/user/1000/docker.sock", "/run/user/1000/podman/podman.sock"


@pytest.mark.parametrize(
    ("made", "shown", "path"),
    [
        (search(user=0, programs={"crun"}, sockets={"/d.sock"}), "native", ""),
        (search(user=0, has_starter=True, sockets={"/d.sock"}), "native", ""),
        (search(has_starter=True, trial=RootlessTrial()), "native rootless", ""),
        (search(has_starter=True, sockets={"/d.sock"}), "docker", "/d.sock"),
        (search(user=0, programs={"crun"}, is_confined=True), "none", ""),
        (
            search(user=0, programs={"crun"}, is_confined=True, sockets={"/p.sock"}),
            "podman",
            "/p.sock",
        ),
        (search(user=0, sockets={"/d.sock"}), "docker", "/d.sock"),
        (search(programs={"crun"}, sockets={"/d.sock", _PODMAN}), "docker", "/d.sock"),
        (
            search(programs={"crun"}, sockets={"/d.sock"}, trial=RootlessTrial()),
            "native rootless",
            "",
        ),
        (search(sockets={"/d.sock"}, trial=RootlessTrial()), "docker", "/d.sock"),
        (search(sockets={_DOCKER, _PODMAN}), "docker rootless", _DOCKER),
        (search(sockets={_PODMAN}), "podman rootless", _PODMAN),
        (search(sockets={"/p.sock"}), "podman", "/p.sock"),
        (
            search(sockets={f"{_OWN}/podman/podman.sock"}, private={_OWN}),
            "podman rootless",
            f"{_OWN}/podman/podman.sock",
        ),
        # Made by somebody else.
        (search(sockets={f"{_OWN}/podman/podman.sock"}), "none", ""),
        (
            search(
                environ={"TMPDIR": "/t"},
                sockets={"/t/podman-run-1000/podman/podman.sock"},
                private={"/t/podman-run-1000"},
            ),
            "podman rootless",
            "/t/podman-run-1000/podman/podman.sock",
        ),
        (search(user=0, sockets={_PODMAN}), "none", ""),
        (
            search(environ={"XDG_RUNTIME_DIR": "/r"}, sockets={"/r/podman/podman.sock"}),
            "podman rootless",
            "/r/podman/podman.sock",
        ),
        (
            search(environ={"DOCKER_HOST": "unix:///x.sock"}, sockets={"/x.sock", "/d.sock"}),
            "docker rootless",
            "/x.sock",
        ),
        (
            search(
                environ={"DOCKER_HOST": "unix:///x.sock"}, sockets={"/x.sock"}, of_root={"/x.sock"}
            ),
            "docker",
            "/x.sock",
        ),
        (search(environ={"DOCKER_HOST": "tcp://h:1"}, sockets={"/d.sock"}), "docker", "/d.sock"),
    ],
)
def test_the_first_that_can_be_used(made: EngineSearch, shown: str, path: str) -> None:
    found = made.choose()
    assert (str(found), found.socket) == (shown, path)


def test_a_private_directory_is_the_own_one_that_nobody_else_writes_to(tmp_path: Path) -> None:
    directory, link, user = tmp_path / "d", tmp_path / "l", os.geteuid()
    directory.mkdir(mode=0o700)
    link.symlink_to(directory)
    assert is_private(str(directory), user)
    assert not is_private(str(directory), user + 1)
    assert not is_private(str(link), user)
    assert not is_private(str(tmp_path / "none"), user)
    directory.chmod(0o770)
    assert not is_private(str(directory), user)


def test_an_engine_without_root_limits_nothing_on_cgroup_version_1() -> None:
    assert search(sockets={_PODMAN}).choose().warning == ""
    assert search(sockets={"/p.sock"}, has_cgroup2=False).choose().warning == ""
    found = search(sockets={_PODMAN}, has_cgroup2=False).choose()
    assert found.warning.startswith("--ram and --vcpus limit no container here")


def test_limits_of_a_user_are_told_with_their_mend() -> None:
    found = search(has_starter=True, trial=RootlessTrial()).choose()
    assert found.warning.startswith("limits of containers: ram by samples and kill, ")
    assert found.warning.endswith("systemd-run --user --scope -p Delegate=yes lading up")
    every = ("cpu", "memory", "pids")
    found = search(has_starter=True, trial=RootlessTrial(), delegated=every).choose()
    assert found.warning.endswith("vcpus by a delegated control group, disk by samples and kill")


def test_root_is_told_of_limits_that_the_kernel_does_not_enforce() -> None:
    assert search(user=0, has_starter=True).choose().warning == ""
    found = search(user=0, has_starter=True, controllers=("cpu",)).choose()
    assert found.warning == (
        "limits of containers: ram by samples and kill, processes by RLIMIT_NPROC,"
        " vcpus by a control group; lading doctor has the mend"
    )


def test_a_configured_engine_is_not_looked_for() -> None:
    assert str(search().choose("podman")) == "podman"


@pytest.mark.parametrize(
    ("made", "mend"),
    [
        (search(user=0), "apt install crun"),
        (search(trial=RootlessTrial()), "sudo apt install crun"),
        (search(programs={"crun"}), "sudo sysctl x=1"),
        (
            search(user=0, programs={"crun"}, is_confined=True),
            "this container may not make namespaces: start it with --privileged, "
            "or with a Docker of the machine at /d.sock",
        ),
        (
            search(programs={"podman", "newuidmap"}),
            "systemctl --user enable --now podman.socket",
        ),
        (
            search(programs={"podman", "newuidmap"}, has_systemd=False),
            "podman system service --time=0 &",
        ),
        (
            search(programs={"podman"}),
            "sudo apt install uidmap; systemctl --user enable --now podman.socket",
        ),
        (
            search(programs={"newuidmap"}, has_systemd=False),
            "sudo apt install podman; podman system service --time=0 &",
        ),
        (
            search(),
            "sudo apt install podman uidmap; systemctl --user enable --now podman.socket",
        ),
    ],
)
def test_what_brings_one(made: EngineSearch, mend: str) -> None:
    assert made.choose().mend == mend


def test_a_socket_answers_or_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert not answers(str(path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        assert answers(str(path))


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("Name:\tx\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n", False),
        # Of root in a container of Docker.
        ("CapPrm:\t000001ffffffffff\nCapEff:\t00000000a80425fb\n", True),
        ("", False),
    ],
)
def test_the_right_to_make_namespaces(status: str, answer: bool) -> None:
    assert is_confined(status) is answer
