from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from msgspec import structs

from lading.core.images import Account, ImageProcess
from lading.core.user_ids import Extent
from lading.supervisor.engines import Bind, Device
from lading.supervisor.engines.bundle import MASKED, Bundle, make_config, resource_limits
from lading.supervisor.engines.seccomp import make_profile

BUNDLE = Bundle(
    rootfs="/root",
    process=ImageProcess(arguments=("a", "b"), environment=(("N", "v"),), cwd="/w", user=""),
    account=Account(5, 6, (7,)),
    binds=(Bind("/s", "/t", True), Bind("/u", "/v", False)),
    gate="/gate",
    machine="x86_64",
)


def test_the_process() -> None:
    process = make_config(BUNDLE)["process"]
    assert (process["args"], process["env"], process["cwd"]) == (("a", "b"), ["N=v"], "/w")
    assert process["user"] == {"uid": 5, "gid": 6, "additionalGids": [7]}
    assert process["noNewPrivileges"] is True
    assert "CAP_SYS_ADMIN" not in process["capabilities"]["bounding"]


def test_processes_leave_no_core_and_few_signals() -> None:
    limits = {one["type"]: one for one in make_config(BUNDLE)["process"]["rlimits"]}
    assert limits["RLIMIT_CORE"]["hard"] <= 1
    assert limits["RLIMIT_SIGPENDING"]["hard"] <= 4096
    assert {"RLIMIT_NOFILE", "RLIMIT_NPROC"}.isdisjoint(limits)


def test_a_limit_is_never_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    for own, most in (((9, 9), 9), ((0, resource.RLIM_INFINITY), 4096)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, own=own: own)
        resource_limits.cache_clear()
        assert resource_limits()["sigpending"] == most
        assert resource_limits(complete=True).keys() == {"core", "sigpending", "nofile", "nproc"}
    resource_limits.cache_clear()


def test_binds_come_last_and_keep_their_order() -> None:
    last = make_config(BUNDLE)["mounts"][-2:]
    assert [one["destination"] for one in last] == ["/t", "/v"]
    assert ["ro" in one["options"] for one in last] == [True, False]


def test_devices_are_like_those_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "card").touch(mode=0o640)
    os.chown(tmp_path / "card", -1, os.getgid())
    made = make_config(
        structs.replace(
            BUNDLE,
            devices=(Device("/dev/null", "/dev/nvidia0"), Device(f"{tmp_path}/card", "/dev/c")),
        )
    )
    null, card = made["linux"]["devices"]
    assert (null["path"], null["type"], null["major"], null["minor"], null["fileMode"]) == (
        "/dev/nvidia0",
        "c",
        1,
        3,
        0o666,
    )
    assert (card["path"], card["fileMode"], card["gid"]) == ("/dev/c", 0o640, os.getgid())
    assert made["process"]["user"]["additionalGids"] == [7, *({os.getgid()} - {0})]


def test_the_hook_of_nvidia_is_told_the_numbers() -> None:
    made = make_config(structs.replace(BUNDLE, cuda=(0, 3), cuda_hook="/bin/hook"))
    assert made["hooks"]["prestart"] == [{"path": "/bin/hook", "args": ["/bin/hook", "prestart"]}]
    assert "NVIDIA_VISIBLE_DEVICES=0,3" in made["process"]["env"]
    for without in (
        structs.replace(BUNDLE, cuda=(0,)),
        structs.replace(BUNDLE, cuda_hook="/bin/hook"),
    ):
        assert "prestart" not in make_config(without)["hooks"]


def test_the_network_is_its_own_and_told_of_when_asked_for() -> None:
    for notice in ("", "/notice"):
        made = make_config(structs.replace(BUNDLE, notice=notice))
        assert {"type": "network"} in made["linux"]["namespaces"]
        assert ("createRuntime" in made["hooks"]) is bool(notice)
    (hook,) = made["hooks"]["createRuntime"]
    assert hook["args"][-1].endswith("> /notice")


def test_the_gate_is_before_the_command() -> None:
    (hook,) = make_config(BUNDLE)["hooks"]["createContainer"]
    assert (hook["path"], hook["args"][-1]) == ("/bin/grep", "/gate")


def test_system_calls_and_files_of_the_kernel_are_refused() -> None:
    linux = make_config(BUNDLE)["linux"]
    assert linux["seccomp"] == make_profile("x86_64")
    assert {"/proc/kallsyms", "/proc/interrupts", "/proc/config.gz"} <= set(linux["maskedPaths"])


def test_a_user_namespace_has_its_ids_and_binds_as_they_are() -> None:
    made = make_config(structs.replace(BUNDLE, ids=(Extent(0, 1000, 50), Extent(2000, 1050, 1))))
    assert {"type": "user"} in made["linux"]["namespaces"]
    assert made["linux"]["uidMappings"] == made["linux"]["gidMappings"]
    assert made["linux"]["uidMappings"] == [
        {"containerID": 0, "hostID": 1000, "size": 50},
        {"containerID": 2000, "hostID": 1050, "size": 1},
    ]
    assert {tuple(one["options"]) for one in made["mounts"][-2:]} == {("rbind", "rprivate")}
    assert set(made["linux"]["maskedPaths"]) <= set(MASKED)
    assert "uidMappings" not in make_config(BUNDLE)["linux"]
