"""Devices by name, the precedence of directories, and the merge of edits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers.cdi.devices import (
    CdiFile,
    find_devices,
    is_empty,
    merge,
    unsupported,
)
from lading.core.containers.cdi.specification import (
    NO_EDITS,
    CdiDevice,
    CdiSpecification,
    ContainerEdits,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
)
from lading.core.errors import Invalid, NotFound

KIND = "vendor.example/card"


def file(path: str, rank: int, *names: str, value: str = "", kind: str = KIND) -> CdiFile:
    return CdiFile(
        path=path,
        rank=rank,
        specification=CdiSpecification(
            cdi_version="0.8.0",
            kind=kind,
            devices=tuple(
                CdiDevice(name=name, container_edits=ContainerEdits(env=(f"CARD_{name}={value}",)))
                for name in names
            ),
            container_edits=ContainerEdits(env=("ALL=1",), hooks=(HOOK,)),
        ),
    )


HOOK = Hook(hook_name="createContainer", path="/bin/hook")


def test_a_later_directory_has_precedence() -> None:
    devices = find_devices(
        [file("/etc/cdi/a", 0, "0", "1", value="old"), file("/run/cdi/a", 1, "0", value="new")]
    )
    assert devices.edits([f"{KIND}=0"]).env == ("ALL=1", "CARD_0=new")
    assert devices.edits([f"{KIND}=1"]).env == ("ALL=1", "CARD_1=old")
    assert set(devices.names(KIND)) == {"0", "1"}


def test_two_files_of_one_directory_conflict() -> None:
    rivals = [file("/etc/cdi/a", 0, "0", "1"), file("/etc/cdi/b", 0, "0", "2")]
    devices = find_devices(rivals)
    with pytest.raises(Invalid, match="/etc/cdi/a and /etc/cdi/b both have it"):
        devices.edits([f"{KIND}=0"])
    assert devices.edits([f"{KIND}=1", f"{KIND}=2"]).env == ("CARD_1=", "ALL=1", "CARD_2=")
    # A device of a later directory settles it.
    settled = find_devices([*rivals, file("/run/cdi/c", 1, "0", value="c")])
    assert settled.edits([f"{KIND}=0"]).env[-1] == "CARD_0=c"


def test_the_edits_of_a_specification_are_made_once() -> None:
    devices = find_devices([file("/etc/cdi/a", 0, "0", "1")])
    edits = devices.edits([f"{KIND}=1", f"{KIND}=0", f"{KIND}=1"])
    assert edits.env == ("ALL=1", "CARD_1=", "CARD_0=")
    assert edits.hooks == (HOOK,)


def test_what_is_not_there_is_named() -> None:
    devices = find_devices([file("/etc/cdi/a", 0, "0", "1")])
    with pytest.raises(NotFound, match=r"is of the kind amd.com/gpu \(vendor.example/card\)"):
        devices.edits(["amd.com/gpu=0"])
    with pytest.raises(NotFound, match="has no device '7'; it has: 0, 1"):
        devices.edits([f"{KIND}=7"])
    with pytest.raises(Invalid, match="vendor/class=name"):
        devices.edits(["0"])
    assert is_empty(devices.edits([]))


def test_what_lading_does_not_do_is_named() -> None:
    network = ContainerEdits(net_devices=(NetDevice(host_interface_name="a", name="b"),))
    assert "network interfaces" in unsupported(network)
    assert "Intel RDT" in unsupported(ContainerEdits(intel_rdt=IntelRdt()))
    assert unsupported(ContainerEdits(env=("A=1",))) == ""


PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/d", "/d/e"])
EDITS = st.builds(
    ContainerEdits,
    env=st.lists(st.sampled_from(["A=1", "A=2", "B=1"]), max_size=3).map(tuple),
    device_nodes=st.lists(
        st.builds(DeviceNode, path=PATHS, type=st.sampled_from(["", "c"])), max_size=3
    ).map(tuple),
    mounts=st.lists(
        st.builds(Mount, host_path=st.sampled_from(["/x", "/y"]), container_path=PATHS), max_size=4
    ).map(tuple),
    hooks=st.lists(st.just(HOOK), max_size=2).map(tuple),
    additional_gids=st.lists(st.integers(0, 3), max_size=3).map(tuple),
)
SEVERAL = st.lists(EDITS, max_size=4)


@given(SEVERAL, SEVERAL)
def test_merging_in_steps_is_merging_at_once(
    first: list[ContainerEdits], more: list[ContainerEdits]
) -> None:
    assert merge([merge(first), merge(more)]) == merge([*first, *more])


@given(SEVERAL)
def test_the_last_value_counts_and_is_there_once(several: list[ContainerEdits]) -> None:
    merged = merge(several)
    assert merge([merged, NO_EDITS]) == merged
    variables = {text.partition("=")[0]: text for one in several for text in one.env}
    assert sorted(merged.env) == sorted(variables.values())
    nodes = {node.path: node for one in several for node in one.device_nodes}
    assert {node.path: node for node in merged.device_nodes} == nodes
    mounts = {mount.container_path: mount for one in several for mount in one.mounts}
    assert {mount.container_path: mount for mount in merged.mounts} == mounts
    assert len(merged.mounts) == len(mounts)
    assert len(merged.hooks) == sum(len(one.hooks) for one in several)
    assert 0 not in merged.additional_gids


@given(SEVERAL)
def test_parents_are_mounted_first(several: list[ContainerEdits]) -> None:
    targets = [mount.container_path for mount in merge(several).mounts]
    for number, target in enumerate(targets):
        assert not any(target.startswith(f"{later}/") for later in targets[number:])
