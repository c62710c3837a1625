"""Resources and machines of two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.provenance.run_differences import machine_facts, machine_rows, resource_rows
from lading.supervisor.machine import describe_machine
from tests.cli.site import Site

RUN: dict[str, Any] = {
    "usage": {"memory": 5, "cpu": 1.5}, "runtime_constraints": {"ram": 9, "vcpus": 1}, "cost": 0.5,
    "started_at": "2026-01-02T03:04:05Z", "finished_at": "2026-01-02T03:04:07Z", "log": None,
}  # fmt: skip
NODE = "Host Information\nLinux {} 6.1 #1 x86_64\nCPU Information\nprocessor\t: 0\n"


def test_resources_that_differ() -> None:
    other = {**RUN, "usage": {}, "finished_at": "2026-01-02T03:04:08Z"}
    assert resource_rows(RUN, other) == [
        ("memory used", "5 B", "-"), ("processor time", "1.5 s", "-"), ("time", "2 s", "3 s"),
    ]  # fmt: skip
    assert resource_rows(RUN, {**RUN, "started_at": None})[-1] == ("time", "2 s", "-")
    more = {**RUN, "runtime_constraints": {"ram": (1 << 30) + 1, "vcpus": 1}}
    assert resource_rows(RUN, more) == [("ram", "9 B", "1.0 GiB (1073741825 B)")]


def test_facts_of_this_machine(tmp_path: Path) -> None:
    facts = machine_facts(describe_machine(tmp_path).decode())
    assert facts.keys() >= {"host", "kernel", "architecture", "memory", "processors"}
    assert machine_facts("Host Information\nx") == {}
    assert machine_facts("") == {}


def test_machines_from_the_logs(stage: Site) -> None:
    world = stage.world

    async def rows() -> list[tuple[str, str, str]]:
        made = [
            await world.collection({"node-info.txt": NODE.format(name).encode()})
            for name in ("a", "b")
        ]
        runs = [{**RUN, "log": one["portable_data_hash"]} for one in made]
        async with stage.connect() as session:
            api: ApiClient = session.api
            blocks: BlockClient = session.blocks
            assert await machine_rows(api, blocks, RUN, runs[0]) == []
            lost = {**RUN, "log": "0" * 32 + "+5"}
            assert await machine_rows(api, blocks, lost, runs[0]) == []
            none = await world.collection({"other": b"x"})
            bare = {**RUN, "log": none["portable_data_hash"]}
            assert await machine_rows(api, blocks, bare, runs[0]) == []
            return await machine_rows(api, blocks, *runs)

    assert stage.call(rows()) == [("host", "a", "b")]
