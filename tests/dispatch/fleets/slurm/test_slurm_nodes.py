"""Nodes of Slurm in reports."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lading.core.errors import LadingError
from lading.core.resources import GIB, MIB
from lading.core.scheduling.machines import MachineAction
from lading.dispatch.fleets.slurm.slurm_commands import ProgramResult, Slurm, run_program
from lading.dispatch.fleets.slurm.slurm_nodes import FIELDS, SlurmNodes, read_nodes


def _line(*cells: str) -> str:
    assert len(cells) == len(FIELDS)
    return "".join(cell.rjust(200) for cell in cells)


ONE = _line("n1", "MIXED", "2/6/0/8", "16384", "4096", "1.50", "8192", "gpu:a100:2", "none")
TWO = _line("n2", "DOWN*", "0/0/4/4", "1024", "0", "N/A", "N/A", "(null)", "no answer")


def test_nodes_are_read() -> None:
    one, two = read_nodes(f"{ONE}\n{TWO}\n")
    assert (one.id, one.state, one.total.vcpus, one.total.ram) == ("n1", "mixed", 8, 16 * GIB)
    assert (one.reserved.vcpus, one.reserved.ram, one.total.gpus) == (2, 4 * GIB, 2)
    assert one.used is not None
    assert (one.used.vcpus, one.used.ram, one.note) == (1.5, 8192 * MIB, "")
    assert (two.state, two.used, two.note) == ("down*", None, "no answer")


@pytest.mark.parametrize(
    "line",
    ["", "short", _line("", "IDLE", "0/1/0/1", "1", "0", "0", "1", "", ""),
     _line("n", "IDLE", "0/1", "1", "0", "0", "1", "", ""),
     _line("n", "IDLE", "0/1/0/1", "x", "0", "0", "1", "", "")],
)  # fmt: skip
def test_lines_that_cannot_be_read(line: str) -> None:
    assert list(read_nodes(line)) == []


async def test_a_node_of_two_partitions_is_shown_once() -> None:
    asked: list[Sequence[str]] = []

    async def run(arguments: Sequence[str], *, text: bytes, timeout: float) -> ProgramResult:
        asked.append(arguments)
        return ProgramResult(0, f"{TWO}\n{ONE}\n{ONE}\n", "")

    nodes = SlurmNodes(Slurm(run, timeout=1.0))
    await nodes.look()
    assert [one.id for one in nodes.machines().machines] == ["n1", "n2"]
    assert asked[0][:3] == ("sinfo", "--noheader", "--Node")


async def test_nodes_take_no_orders() -> None:
    with pytest.raises(LadingError, match="in Slurm"):
        await SlurmNodes(Slurm(run_program, timeout=1.0)).act("n1", MachineAction.DRAIN, "x")
