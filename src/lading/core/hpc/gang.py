"""Gangs: one container request run as several containers (`scheduling_parameters.nodes`).

Decides from the reports of all ranks' daemons which ranks are started with which command, when the
gang has ended, and its exit code. A rank whose daemon has not answered for `PATIENCE` seconds is
lost. The exit code is that of rank 0 when only rank 0 is started; otherwise the first that is not
0. A gang that lost a rank has exit code `LOST`, unless the code had ended before.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from lading.core.errors import Invalid
from lading.core.hpc.daemon_states import ENDED, CodeStatus, ResultStatus
from lading.core.values import Json, JsonObject

FILES = "/hpcaas/files"
"""Directory of the containers for files that each of them may change."""
# Bounds the size of the files with all addresses.
MOST_NODES = 10_000
# Seconds.
PATIENCE = 20.0
# An exit code that shells and MPI programs do not use by themselves.
LOST = 121
# Commands that start the ranks themselves.
_OWN_LAUNCHERS = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})
SHARE_VCPUS = "share_vcpus"
KEYS = ("nodes", "launcher", "rank_failure", SHARE_VCPUS)
"""Scheduling parameters of a gang."""


class Launcher(StrEnum):
    """The ranks that are started."""

    MPIRUN = "mpirun"
    """Rank 0, with `mpirun` before the command unless it is there already."""
    FIRST = "first"
    """Rank 0, with the unchanged command."""
    ALL = "all"
    """Every rank, with the unchanged command."""


class FailurePolicy(StrEnum):
    """Effect of a failed rank on the others."""

    ANY = "any"
    """The other ranks are ended."""
    NONE = "none"
    """The other ranks continue to their end."""


class Gang(msgspec.Struct, frozen=True):
    """Gang parameters of a request."""

    nodes: int = 1
    launcher: Launcher = Launcher.MPIRUN
    policy: FailurePolicy = FailurePolicy.ANY
    shares_vcpus: bool = False
    """On one machine all ranks together have the `vcpus` of one."""


NO_GANG = Gang()


def read_gang(parameters: Mapping[str, Json]) -> Gang:
    """The gang in scheduling parameters; one node by default. Raises Invalid naming the key."""
    if not any(name in parameters for name in KEYS):
        return NO_GANG
    nodes = parameters.get("nodes", 1)
    if isinstance(nodes, bool) or not isinstance(nodes, int) or not 1 <= nodes <= MOST_NODES:
        raise Invalid(f"Scheduling parameters [nodes]: must be an integer from 1 to {MOST_NODES}")
    launcher, policy = (
        parameters.get("launcher", Launcher.MPIRUN),
        parameters.get("rank_failure", FailurePolicy.ANY),
    )
    if launcher not in tuple(Launcher):
        raise Invalid(f"Scheduling parameters [launcher]: must be one of {', '.join(Launcher)}")
    if policy not in tuple(FailurePolicy):
        raise Invalid(
            f"Scheduling parameters [rank_failure]: must be one of {', '.join(FailurePolicy)}"
        )
    shares = parameters.get(SHARE_VCPUS, False)
    if not isinstance(shares, bool):
        raise Invalid(f"Scheduling parameters [{SHARE_VCPUS}]: must be true or false")
    return Gang(nodes, Launcher(str(launcher)), FailurePolicy(str(policy)), shares)


def part_of_recipe(parameters: Mapping[str, Json]) -> JsonObject:
    """The scheduling parameters that change the result: none for one node, else number and
    launcher.
    """
    gang = read_gang(parameters)
    return {} if gang.nodes == 1 else {"launcher": gang.launcher, "nodes": gang.nodes}


def command_line(launcher: Launcher, command: Sequence[str], *, ranks: int) -> list[str]:
    """Command of the started ranks. `ranks`: number of MPI processes in all."""
    if launcher is Launcher.MPIRUN and posixpath.basename(command[0]) not in _OWN_LAUNCHERS:
        return ["mpirun", "-np", str(ranks), *command]
    return list(command)


class RankView(msgspec.Struct, frozen=True, kw_only=True):
    """Reported state of one rank. `silent`: seconds since its daemon last answered."""

    rank: int
    started: bool
    code: CodeStatus = CodeStatus.WAITING
    result: ResultStatus = ResultStatus.WAITING
    percent: float | None = None
    exit_code: int | None = None
    reason: str = ""
    silent: float = 0.0

    @property
    def is_lost(self) -> bool:
        """Whether the rank counts as lost."""
        return self.silent > PATIENCE

    @property
    def is_running(self) -> bool:
        """Whether its code was started and has not ended."""
        return self.started and self.code not in ENDED

    @property
    def has_failed(self) -> bool:
        """Whether its code was started and ended badly."""
        return self.started and self.code in (CodeStatus.ERROR, CodeStatus.KILLED)


class GangResult(msgspec.Struct, frozen=True):
    """End of the gang: its exit code, and a sentence unless it succeeded."""

    exit_code: int
    sentence: str = ""


def judge(views: Sequence[RankView], policy: FailurePolicy) -> GangResult | None:
    """The end of the gang; None while it runs."""
    failed = [view for view in views if view.has_failed]
    if not any(view.is_running for view in views):
        return _failure(failed[0]) if failed else GangResult(0)
    ends_all = policy is FailurePolicy.ANY
    if ends_all and failed:
        return _failure(failed[0])
    lost = [view for view in views if view.is_lost]
    if len(lost) >= (1 if ends_all else len(views)):
        return GangResult(
            LOST, f"rank {lost[0].rank} was lost: its daemon has not answered for {PATIENCE:.0f} s"
        )
    return None


def _failure(rank: RankView) -> GangResult:
    code = rank.exit_code or 1
    return GangResult(code, f"rank {rank.rank} failed: {rank.reason or f'exit code {code}'}")


def are_delivered(views: Sequence[RankView]) -> bool:
    """Whether the results of every reachable rank that ran have been delivered, or cannot be."""
    return not any(_is_delivering(view) and not view.is_lost for view in views)


def _is_delivering(view: RankView) -> bool:
    return view.result is ResultStatus.UPLOADING or (
        view.code in ENDED and view.result is ResultStatus.WAITING
    )


def status_line(view: RankView) -> str:
    """One line about a rank for the log and the live table: number, state, and explanation."""
    if view.is_lost:
        return f"rank {view.rank} Lost"
    words = [f"rank {view.rank} {view.code}"]
    if view.percent is not None:
        words.append(f"{view.percent:.0f}%")
    if view.reason:
        words.append(view.reason)
    return " ".join(words)
