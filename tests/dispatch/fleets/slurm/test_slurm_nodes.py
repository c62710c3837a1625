"""Nodes of Slurm in reports."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lading.core.errors import Conflict, LadingError, NotFound
from lading.core.resources import GIB, MIB
from lading.core.scheduling.machines import MachineAction
from lading.dispatch.fleets.batch.programs import ProgramResult
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_nodes import FIELDS, SlurmNodes, read_nodes
from lading.testing.world import START


def _line(*cells: str) -> str:
    assert len(cells) == len(FIELDS)
    return "".join(cell.rjust(200) for cell in cells)


ONE = _line("n1", "MIXED", "2/6/0/8", "16384", "4096", "1.50", "8192", "gpu:a100:2", "none")
TWO = _line("n2", "DOWN*", "0/0/4/4", "1024", "0", "N/A", "N/A", "(null)", "no answer")


def test_nodes_are_read() -> None:
    one, two = read_nodes(f"{ONE}\n{TWO}\n")
    assert (one.id, one.state, one.total.vcpus, one.total.ram) == ("n1", "mixed", 8, 16 * GIB)
    assert (one.reserved.vcpus, one.reserved.ram, one.total.gpus) == (2, 4 * GIB, 2)
    assert one.gpu_kind == "2 GPUs (a100 or 8.0)"
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


class FakeSlurm:
    """Answers as the programs of Slurm do; `level` is the AdminLevel of the user."""

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []
        self.nodes = [ONE, TWO, TWO]
        self.level = ""
        self.refusal = ""

    async def __call__(
        self, arguments: Sequence[str], *, stdin: bytes, timeout: float
    ) -> ProgramResult:
        self.asked.append(arguments)
        match arguments[0], arguments[1]:
            case "sinfo", _:
                return ProgramResult(0, "\n".join(self.nodes), "")
            case "scontrol", "show":
                return ProgramResult(0, "SlurmdPort = 1\nSlurmUser               = slurm(64)\n", "")
            case "scontrol", _:
                return ProgramResult(1 if self.refusal else 0, "", self.refusal)
            case _:
                return ProgramResult(0 if self.level else 1, f"{self.level}\n", "")

    def changes(self) -> list[Sequence[str]]:
        """The nodes that were changed."""
        return [one[2:] for one in self.asked if one[:2] == ("scontrol", "update")]


def _nodes(slurm: FakeSlurm, user: str = "lading") -> SlurmNodes:
    return SlurmNodes(Slurm(slurm, timeout=1.0), user=lambda: user, wall=lambda: START)


async def test_a_node_of_two_partitions_is_shown_once() -> None:
    slurm = FakeSlurm()
    nodes = _nodes(slurm)
    await nodes.look()
    assert [one.id for one in nodes.machines().machines] == ["n1", "n2"]
    assert slurm.asked[0][:3] == ("sinfo", "--noheader", "--Node")


@pytest.mark.parametrize(
    ("user", "level", "may"),
    [("root", "", True), ("slurm", "", True), ("lading", "Administrator", True),
     ("lading", "Operator", False), ("lading", "", False)],
)  # fmt: skip
async def test_who_may_give_orders(user: str, level: str, may: bool) -> None:
    slurm = FakeSlurm()
    slurm.level = level
    nodes = _nodes(slurm, user)
    await nodes.look()
    up, down = nodes.machines().machines
    assert (up.actions, down.actions) == ((("drain",), ("run",)) if may else ((), ()))
    assert (f"user {user} may not change them" in up.takes_none) is not may


async def test_a_node_is_drained_and_resumed() -> None:
    slurm = FakeSlurm()
    nodes = _nodes(slurm, "root")
    await nodes.look()
    slurm.nodes = [ONE.replace("      MIXED", "MIXED+DRAIN")]
    await nodes.act("n1", MachineAction.DRAIN, 'a "bad"\ndisk')
    [shown] = nodes.machines().machines
    assert (shown.behavior, shown.actions) == ("drain", ("run",))
    await nodes.act("n1", MachineAction.RUN, "")
    assert slurm.changes() == [
        ("NodeName=n1", "State=DRAIN", "Reason=lading: a baddisk"),
        ("NodeName=n1", "State=RESUME"),
    ]
    assert [one.sentence for one in nodes.machines().history] == ["drain: a baddisk", "run"]


async def test_orders_that_are_refused() -> None:
    slurm = FakeSlurm()
    nodes = _nodes(slurm, "root")
    await nodes.look()
    with pytest.raises(NotFound):
        await nodes.act("n[1-9] State=DOWN", MachineAction.DRAIN, "x")
    with pytest.raises(Conflict):
        await nodes.act("n1", MachineAction.KILL, "x")
    slurm.refusal = "slurm_update error: Invalid user id"
    with pytest.raises(LadingError, match="Invalid user id"):
        await nodes.act("n1", MachineAction.DRAIN, "")
    assert slurm.changes() == [("NodeName=n1", "State=DRAIN", "Reason=lading")]
    [note] = nodes.machines().history
    assert note.is_fault
    assert "drain failed" in note.sentence


async def test_what_the_user_may_do_is_looked_up_again() -> None:
    slurm = FakeSlurm()
    nodes = _nodes(slurm)
    await nodes.look()
    slurm.level = "Administrator"
    for _ in range(20):
        assert nodes.machines().machines[0].actions == ()
        await nodes.look()
    assert nodes.machines().machines[0].actions == ("drain",)
