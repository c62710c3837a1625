"""Checks of a batch system for `lading doctor --site`, with a remedy for each fault.

A check asks and never changes anything.
"""

from __future__ import annotations

import getpass
import os
import stat
from pathlib import Path

from lading.config.site import Config
from lading.core.errors import Unavailable
from lading.dispatch.fleets.batch.batch_system import BatchSystem
from lading.dispatch.fleets.batch.programs import ProgramRunner, run_program
from lading.dispatch.fleets.batch_adapters.opening import batch_system
from lading.dispatch.fleets.slurm.slurm_commands import Slurm
from lading.dispatch.fleets.slurm.slurm_system import SlurmSystem
from lading.wiring.checked_machine import Check, CheckResult


def configured_system(config: Config, *, run: ProgramRunner = run_program) -> BatchSystem:
    """The batch system of a configuration. Raises Invalid."""
    containers = config.Containers
    if containers.Dispatcher == "slurm":
        users = (str(os.geteuid()),)
        return SlurmSystem(Slurm(run, timeout=containers.SLURM.CommandTimeout, users=users))
    return batch_system(containers.Batch, run=run, user=getpass.getuser())


async def examine_batch(config: Config, system: BatchSystem) -> list[Check]:
    """All checks, in the order in which their subjects are needed."""
    is_slurm = config.Containers.Dispatcher == "slurm"
    section = config.Containers.SLURM if is_slurm else config.Containers.Batch
    secrets = "" if is_slurm else config.Containers.Batch.SecretDirectory
    return [
        await _queue(system),
        await _nodes(system),
        _secret_directory(system, secrets),
        _hook_directory(section.HookDirectory),
    ]


async def _queue(system: BatchSystem) -> Check:
    try:
        jobs = await system.poll()
    except Unavailable as error:
        mend = f"install the programs of {system.name} here, and let them reach its controller"
        return _missing("queue", error.message, mend)
    finding = f"{system.name} answers; {len(jobs)} jobs of {getpass.getuser()}"
    return Check(name="queue", verdict=CheckResult.OK, finding=finding)


async def _nodes(system: BatchSystem) -> Check:
    try:
        shapes = await system.shapes()
    except Unavailable as error:
        mend = f"let this user ask {system.name} about its nodes"
        return _missing("nodes", error.message, mend)
    if not shapes:
        mend = f"take nodes of {system.name} into service, and open a queue on them"
        return _missing("nodes", "no node takes jobs", mend)
    finding = "; ".join(shape.name for shape in shapes[:5])
    return Check(name="nodes", verdict=CheckResult.OK, finding=finding)


def _secret_directory(system: BatchSystem, path: str) -> Check:
    name = "secrets"
    if system.dialect.is_private:
        finding = f"{system.name} keeps job scripts to their users"
        return Check(name=name, verdict=CheckResult.OK, finding=finding)
    if not path:
        finding = f"every user of a node reads job scripts of {system.name}"
        return _missing(name, finding, "set Containers.Batch.SecretDirectory")
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return Check(name=name, verdict=CheckResult.OK, finding=f"{path} will be made")
    except OSError as error:
        return _missing(name, f"{path}: {error.strerror}", "name a directory of this user")
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        return _missing(name, f"{path}: others may read it", f"chmod 700 {path}")
    return Check(name=name, verdict=CheckResult.OK, finding=f"{path} is this user's alone")


def _hook_directory(path: str) -> Check:
    name = "hooks"
    if not path:
        finding = "no directory: ends of jobs are seen at the next look"
        mend = "name a directory that the nodes share: HookDirectory"
        return Check(name=name, verdict=CheckResult.WARNING, finding=finding, mend=mend)
    if not Path(path).is_dir() or not os.access(path, os.W_OK):
        return _missing(name, f"{path} cannot be written here", f"mkdir -m 700 {path}")
    return Check(name=name, verdict=CheckResult.OK, finding=f"{path} can be written here")


def _missing(name: str, finding: str, mend: str) -> Check:
    return Check(name=name, verdict=CheckResult.MISSING, finding=finding, mend=mend)
