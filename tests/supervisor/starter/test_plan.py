"""The plan of lading-start says all that the configuration of crun does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.core.images import Account, ImageProcess
from lading.core.user_ids import Extent, extents
from lading.supervisor.engines import Bind, Device
from lading.supervisor.engines.bundle import CAPABILITIES, MASKED, READONLY, Bundle, make_config
from lading.supervisor.starter.plan import (
    CAPABILITY_NUMBERS,
    MARK,
    Entry,
    Gate,
    container_plan,
    entry_plan,
)

PROGRAM = bytes(16)


def bundle(**changes: Any) -> Bundle:
    made = Bundle(
        rootfs="/r",
        process=ImageProcess(
            arguments=("sh", "-c", "x"), environment=(("A", "b"),), cwd="/w", user=""
        ),
        account=Account(7, 8, (9,)),
        binds=(Bind("/from", "/to", True), Bind("/source", "/target", False)),
        gate="/gate",
        machine="x86_64",
    )
    return structs.replace(made, **changes)


def parse(plan: bytes) -> list[tuple[str, ...]]:
    """The records of a plan: letter and fields."""
    assert plan.startswith(MARK)
    found, at = [], len(MARK)
    while at < len(plan):
        letter, length = chr(plan[at]), int.from_bytes(plan[at + 1 : at + 5], "little")
        content = plan[at + 5 : at + 5 + length]
        found.append((letter, *(text.decode() for text in content.split(b"\0")[:-1])))
        at += 5 + length
    return found


def of(records: list[tuple[str, ...]], letter: str) -> list[tuple[str, ...]]:
    return [fields for first, *rest in records if first == letter for fields in [tuple(rest)]]


def test_each_part_of_the_configuration_is_in_the_plan() -> None:
    config = make_config(bundle(devices=(Device("/dev/null", "/dev/gpu"),)))
    # A new part of the configuration needs a record.
    assert config.keys() == {
        "ociVersion", "process", "root", "hostname", "mounts", "hooks", "annotations", "linux",
    }  # fmt: skip
    assert config["linux"].keys() == {
        "namespaces", "devices", "maskedPaths", "readonlyPaths", "seccomp",
    }  # fmt: skip
    assert config["process"].keys() == {
        "terminal", "user", "args", "env", "cwd", "capabilities", "noNewPrivileges", "rlimits",
    }  # fmt: skip
    records = parse(container_plan(config, PROGRAM, Gate(descriptor=5, join=("/c/tasks",))))
    assert of(records, "R") == [("/r",)]
    assert of(records, "H") == [("lading",)]
    mounts = [mount for mount in config["mounts"] if mount["type"] != "bind"]
    assert [fields[:2] for fields in of(records, "M")] == [
        (mount["destination"], mount["type"]) for mount in mounts
    ]
    assert of(records, "M")[1][2:4] == ("mode=755,size=65536k", str(0x2 | 0x20))
    assert of(records, "B") == [("/to", "/from", "7"), ("/target", "/source", "6")]
    assert of(records, "D")[0] == ("/dev/null", "c", "1", "3", str(0o666), "0", "0")
    assert of(records, "D")[-1] == ("/dev/gpu", "c", "1", "3", str(0o666), "0", "0")
    assert [fields[0].removeprefix("/dev/") for fields in of(records, "D")[:-1]] == [
        "null", "zero", "full", "tty", "random", "urandom",
    ]  # fmt: skip
    assert of(records, "X") == [(path,) for path in MASKED]
    assert of(records, "O") == [(path,) for path in READONLY]
    assert (of(records, "U"), of(records, "S")) == ([("7", "8")], [("9",)])
    assert of(records, "C") == [(str(0x404FB),)]
    assert len(of(records, "L")) == len(config["process"]["rlimits"])
    assert (of(records, "A"), of(records, "W")) == ([("sh",), ("-c",), ("x",)], [("/w",)])
    assert of(records, "E") == [("A=b",)]
    assert (of(records, "J"), of(records, "G")) == ([("/c/tasks",)], [("5",)])
    assert of(records, "I") == of(records, "K") == of(records, "N") == []


def test_the_capabilities_are_numbered() -> None:
    assert set(CAPABILITIES) == CAPABILITY_NUMBERS.keys()


def test_a_user_namespace_has_the_maps_and_mounts_as_they_are() -> None:
    config = make_config(bundle(ids=extents(1 << 30, {2_000_000})))
    records = parse(container_plan(config, PROGRAM, Gate(descriptor=5, notice="/n")))
    lines = f"0 {1 << 30} 1048320\n2000000 {(1 << 30) + 1048320} 1\n"
    assert of(records, "I") == [(lines, lines)]
    assert {fields[2] for fields in of(records, "B")} == {"0"}
    assert of(records, "N") == [("/n",)]


def test_a_user_namespace_of_an_ordinary_user_sets_no_groups() -> None:
    config = make_config(bundle(ids=(Extent(0, 1000, 1),)))
    gate, entry = Gate(descriptor=5, can_set_groups=False), Entry(process=1, can_set_groups=False)
    for plan in (
        container_plan(config, PROGRAM, gate),
        entry_plan(config, config["process"], PROGRAM, entry),
    ):
        assert of(parse(plan), "V") == [()]
    assert of(parse(container_plan(config, PROGRAM, Gate(descriptor=5))), "V") == []


def test_a_kept_container_has_no_command() -> None:
    config = make_config(bundle())
    records = parse(container_plan(config, PROGRAM, Gate(descriptor=5, is_kept=True)))
    assert (of(records, "K"), of(records, "A")) == ([()], [])


def test_a_command_beside_has_the_walls_of_the_first() -> None:
    config = make_config(bundle(ids=extents(1 << 30)))
    records = parse(
        entry_plan(
            config, config["process"] | {"args": ["ls"]}, PROGRAM, Entry(process=42, terminal=6)
        )
    )
    first = parse(container_plan(config, PROGRAM, Gate(descriptor=5)))
    for letter in "USCLWEFIZ":
        assert of(records, letter) == of(first, letter)
    assert of(records, "A") == [("ls",)]
    assert (of(records, "P"), of(records, "T")) == ([("42",)], [("6",)])


def test_texts_that_the_kernel_cannot_take_are_the_users_fault() -> None:
    process = ImageProcess(arguments=("a\0b",), environment=(), cwd="/", user="")
    with pytest.raises(ExecutionError, match="zero byte") as caught:
        container_plan(make_config(bundle(process=process)), PROGRAM, Gate(descriptor=5))
    assert caught.value.failure is Failure.USER


def test_an_unknown_option_of_a_bind_is_refused() -> None:
    config = make_config(bundle())
    config["mounts"][-1]["options"].append("dev")
    with pytest.raises(ExecutionError, match=r"mounts\[/target\]: options \['dev'\]"):
        container_plan(config, PROGRAM, Gate(descriptor=5))


def test_names_that_are_no_utf_8_pass(tmp_path: Path) -> None:
    process = ImageProcess(arguments=("a\udcff",), environment=(), cwd="/", user="")
    plan = container_plan(make_config(bundle(process=process)), PROGRAM, Gate(descriptor=5))
    assert b"A\x03\0\0\0a\xff\0" in plan
