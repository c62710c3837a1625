from __future__ import annotations

from dataclasses import replace

from lading.core.imagelayout import Account, Process
from lading.supervisor.engines import Bind
from lading.supervisor.engines.bundle import Bundle, make_config

BUNDLE = Bundle(
    rootfs="/root",
    process=Process(arguments=("a", "b"), environment=(("N", "v"),), cwd="/w", user=""),
    account=Account(5, 6, (7,)),
    binds=(Bind("/s", "/t", True), Bind("/u", "/v", False)),
    network=False,
    gate="/gate",
    machine="x86_64",
)


def test_the_process() -> None:
    process = make_config(BUNDLE)["process"]
    assert (process["args"], process["env"], process["cwd"]) == (("a", "b"), ["N=v"], "/w")
    assert process["user"] == {"uid": 5, "gid": 6, "additionalGids": (7,)}
    assert process["noNewPrivileges"] is True
    assert "CAP_SYS_ADMIN" not in process["capabilities"]["bounding"]


def test_binds_come_last_and_keep_their_order() -> None:
    last = make_config(BUNDLE)["mounts"][-2:]
    assert [one["destination"] for one in last] == ["/t", "/v"]
    assert ["ro" in one["options"] for one in last] == [True, False]


def test_the_network_is_empty_unless_asked_for() -> None:
    for network in (False, True):
        kinds = [one["type"] for one in make_config(replace(BUNDLE, network=network))["linux"]["namespaces"]]
        assert ("network" in kinds) is not network


def test_the_gate_is_before_the_command() -> None:
    (hook,) = make_config(BUNDLE)["hooks"]["createContainer"]
    assert hook["args"][-1].endswith("; read -r go < /gate")


def test_calls_are_denied_on_every_machine() -> None:
    for machine, some in (("x86_64", 3), ("aarch64", 2), ("riscv64", 0)):
        seccomp = make_config(replace(BUNDLE, machine=machine))["linux"]["seccomp"]
        assert len(seccomp["architectures"]) == some
        assert "mount" in seccomp["syscalls"][0]["names"]
