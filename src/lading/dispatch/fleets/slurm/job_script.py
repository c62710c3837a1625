"""The batch job of a container in Slurm: its script, and the arguments of `sbatch`.

The script starts the supervisor on a node. It goes to `sbatch` on its standard input, so that the
token in it is in no process list, job description or environment: Slurm keeps scripts where only
its own user reads them. On the node:

- A job that Slurm started again after a failure of its node runs nothing: the first run may still
  be alive there, and only one process may be responsible for a container. The dispatcher sees it
  and removes the job.
- The numbers of the GPUs that Slurm gives to the job, or their uuids where it says them, go to the
  supervisor, which gives them to the container.
- SIGTERM to the script (`scancel --batch`) is passed to the supervisor, which saves output and log
  before it ends.
- At its end the script is the completion hook, in place of `strigger`, which only Slurm's own user
  may set and which is many seconds late: the remains of a dead supervisor are removed on the node,
  the only place where that is possible; and if the nodes share a directory with the dispatcher, a
  file named after the job reports the end at once.

A script for a job array has one assignment for each task. A node then has the tokens of all tasks;
so only containers of one user that may run on the same nodes share an array.

The arguments come from templates of the configuration, filled with the needs of a container:

    %U uuid        %C vcpus            %M MiB of RAM         %T MiB of scratch    %G GPUs: 2, a100:2
    %W minutes     %P partitions       %I instance type      %% a percent sign

A gang is one job of as many tasks as it has containers, all on one node: %C is the need of one of
them, the other letters that of all. A gang that no node can hold is a job of as many nodes, with a
task on each: all letters are the need of one task.

RAM is the container's, its block cache's and `ReserveExtraRAM`. An argument that names the run
time, the partitions or the instance type of a container that has none is left out whole. No
argument ever holds a token: arguments show in process lists.

Source: docs/spec/dispatch, section Slurm fleet.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from lading.core.errors import Invalid
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.slurm_nice import INITIAL
from lading.dispatch.fleets.slurm.slurm_gpus import ANY_GPUS, JobGpus

# Slurm may start a job again, for example when an operator requeues it: the container must not run
# twice. `umask 077` keeps other users of the node out of all that the script writes.
_HEAD = """#!/bin/sh
# Written by the dispatcher of Lading. Holds tokens.
if [ "${SLURM_RESTART_COUNT:-0}" != 0 ]; then
    echo 'lading: Slurm has started this job again; it is not run twice' >&2
    exit 0
fi
umask 077
"""
# `-O` refuses a directory that another user has made at the known path. The assignment, which holds
# a token, goes through a pipe and out of memory (`given=`), never into an argument. TERM of Slurm
# is passed on; `wait` returns at the signal, so it is repeated until the supervisor has ended. A
# shell may collect the supervisor in the `wait` that the signal ends: one more gives the exit code,
# or 127 where the shell knows it no longer. The remains of the supervisor are cleaned up last.
_TAIL = """base={base}
for one in run cache locks; do [ -d "$base/$one" ] || mkdir -p "$base/$one" || exit 1; done
[ -O "$base" ] || {{ \
echo "lading: $base belongs to another user; set Containers.SLURM.NodeDirectory" >&2; exit 1; }}
{certificate}supervisor() {{ {command} --lock-directory "$base/locks" "$@"; }}
pid= term=
trap 'term=1; [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null' TERM
gpus=${{SLURM_JOB_GPUS:-${{CUDA_VISIBLE_DEVICES:-${{ROCR_VISIBLE_DEVICES:-${{ZE_AFFINITY_MASK:-}}}}}}}}
case ${{CUDA_VISIBLE_DEVICES:-}} in GPU-*|MIG-*) gpus=$CUDA_VISIBLE_DEVICES ;; esac
printf '%s' "$given" | {command} --lock-directory "$base/locks" ${{gpus:+--gpus "$gpus"}} "$uuid" &
pid=$!
[ -z "$term" ] || kill -TERM "$pid" 2>/dev/null
given=
wait "$pid"
code=$?
while kill -0 "$pid" 2>/dev/null; do
    wait "$pid"
    code=$?
done
wait "$pid" 2>/dev/null
again=$?
[ "$again" -eq 127 ] || code=$again
[ ! -e "$base/run/$uuid" ] || supervisor --clean "$uuid"
{hook}exit "$code"
"""


# Starts an annex on the node of a rank (`supervisor.gang.remote_rank_client`); its input and output
# are those of srun.
_REACH = (
    "rank=$1; shift; "
    'exec srun --overlap --nodes=1 --ntasks=1 --relative="$rank" --kill-on-bad-exit=1 --quiet '
    '${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} '
    'sh -c \'exec "$@" --annex "$SLURM_LAUNCH_NODE_IPADDR"\' sh "$@"'
)
# "%" and a letter, which stands for a value of the container.
_LETTER = re.compile(r"%(.?)", re.DOTALL)
DEFAULT_ARGUMENTS = (
    "--job-name=%U",
    "--mem=%M",
    "--cpus-per-task=%C",
    "--tmp=%T",
    "--partition=%P",
    "--time=%W",
)
DEFAULT_GPU_ARGUMENTS = ("--gpus=%G",)
_LETTERS = frozenset("UCMTGWPI%")
_KNOWN = ", ".join(f"%{letter}" for letter in "UCMTGWPI")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSite:
    """Settings of the supervisors on nodes.

    `directory` is each node's own, `command` starts a supervisor there, `template` has the fields
    of every assignment but uuid, token and directories; `certificate` (PEM, may be "") verifies the
    server. `hooks` is a directory that the nodes share with the dispatcher, or "".
    """

    directory: str
    command: Sequence[str]
    template: Mapping[str, object]
    certificate: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    hooks: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One container of a job, and the token of its supervisor."""

    uuid: str
    token: str = field(repr=False)
    vcpus: int = 1
    """Its price, in multiples of the price of one VCPU."""
    spread: bool = False
    """Its job has a node for each rank of its gang."""


def write(site: JobSite, tasks: Sequence[Task]) -> bytes:
    """The script of a job for one task, or of a job array with the indices of `tasks`."""
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in sorted(site.environment.items())
    )
    chosen = "".join(
        f"{index})\n    uuid={task.uuid}\n    given={shlex.quote(_assignment(site, task))}\n"
        "    ;;\n"
        for index, task in enumerate(tasks)
    )
    command = " ".join(shlex.quote(word) for word in site.command)
    tail = _TAIL.format(
        base=shlex.quote(site.directory),
        certificate=_certificate(site),
        command=command,
        hook=_hook(site),
    )
    text = (
        f'{_HEAD}{exports}case "${{SLURM_ARRAY_TASK_ID:-0}}" in\n{chosen}*) exit 2 ;;\nesac\n{tail}'
    )
    return text.encode()


def certificate_path(site: JobSite) -> str:
    """Path of the certificate on a node, or "". The name has a hash of the content: the file never
    changes.
    """
    if not site.certificate:
        return ""
    return (
        # Another certificate is another file: jobs of an earlier one go on with theirs.
        f"{site.directory}/server-{hashlib.sha256(site.certificate.encode()).hexdigest()[:16]}.crt"
    )


def _assignment(site: JobSite, task: Task) -> str:
    fields = dict(site.template) | {
        "container_uuid": task.uuid,
        "supervisor_token": task.token,
        "run_directory": f"{site.directory}/run/{task.uuid}",
        "cache_directory": f"{site.directory}/cache",
        "device_directory": f"{site.directory}/gpus",
        "instance_share": float(task.vcpus),
        "api_ca_file": certificate_path(site),
    }
    if task.spread:
        fields["annex_command"] = ["sh", "-c", _REACH, "sh", "{rank}", *site.command]
    return msgspec.json.encode(fields).decode()


def _certificate(site: JobSite) -> str:
    path = certificate_path(site)
    if not path:
        return ""
    text, place = shlex.quote(site.certificate), shlex.quote(path)
    # Written aside and renamed: two jobs that start on a node at once see all of it or nothing.
    return f"[ -s {place} ] || {{ printf '%s' {text} >{place}.$$ && mv {place}.$$ {place}; }}\n"


def _hook(site: JobSite) -> str:
    if not site.hooks:
        return ""
    job = "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}"
    return f'job={job}\n: >{shlex.quote(site.hooks)}/"${{job:-$SLURM_JOB_ID}}" || true\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The configured templates for the command line of `sbatch`. `extra_ram` is bytes beside the
    container's.
    """

    arguments: Sequence[str] = DEFAULT_ARGUMENTS
    gpu_arguments: Sequence[str] = DEFAULT_GPU_ARGUMENTS
    extra_ram: int = 0

    def check(self) -> None:
        """Check the templates. Raises Invalid for an unknown letter."""
        for argument in (*self.arguments, *self.gpu_arguments):
            for letter in _LETTER.findall(argument):
                if letter not in _LETTERS:
                    raise Invalid(
                        f"SbatchArgumentsList: %{letter} in {argument!r} is unknown;"
                        f" use {_KNOWN}, or %%"
                    )

    def users(self) -> tuple[str, ...]:
        """The users that the arguments name to run jobs, which root may (`sbatch --uid`)."""
        words = [*self.arguments, *self.gpu_arguments]
        joined = [word.removeprefix("--uid=") for word in words if word.startswith("--uid=")]
        apart = [user for word, user in itertools.pairwise(words) if word == "--uid"]
        return (*joined, *apart)

    def fill(
        self,
        uuid: str,
        container: TrackedContainer,
        *,
        spread: bool = False,
        instance_type: str = "",
        gpus: JobGpus = ANY_GPUS,
    ) -> list[str]:
        """The arguments for one container, after the name of the program. `spread`: its gang has a
        node for each. `gpus` is how it asks for its GPUs.
        """
        need = container.each if spread else container.need
        # Tasks of one node that share its processors are one task for Slurm.
        tasks = 1 if container.shares_vcpus and not spread else container.nodes
        values = _values(container, need, self.extra_ram, tasks=tasks)
        values |= {"U": uuid, "I": instance_type}
        templates = [*self.arguments, *(self.gpu_arguments if container.need.gpus else ())]
        if gpus.type:
            values["G"] = f"{gpus.type}:{values['G']}"
        filled = (_fill(one, values) for one in templates)
        constraint = [f"--constraint={'|'.join(gpus.features)}"] if gpus.features else []
        # All ranks on one node, as tasks of one job.
        gang = ["--nodes=1", f"--ntasks={tasks}"] if container.nodes > 1 else []
        if spread:
            gang = [
                f"--nodes={container.nodes}",
                f"--ntasks={container.nodes}",
                "--ntasks-per-node=1",
            ]
        return [
            f"--nice={INITIAL}",
            # A job that is sent back to the queue would run a container twice; the API retries
            # instead.
            "--no-requeue",
            *(one for one in filled if one is not None),
            *constraint,
            *gang,
        ]


def mebibytes(number: int) -> int:
    """A number of bytes in MiB, rounded up."""
    return -(-number // MIB)


def _values(
    container: TrackedContainer, need: Resources, extra_ram: int, *, tasks: int
) -> dict[str, str]:
    # Slurm counts minutes: rounded up, so that it never ends a container early.
    minutes = -(-container.max_run_time // 60)
    return {
        # For one task: Slurm multiplies it by the number of tasks.
        "C": str(max(1, container.need.vcpus // tasks)),
        "M": str(mebibytes(need.ram + extra_ram)),
        "T": str(mebibytes(need.disk)),
        "G": str(need.gpus),
        "W": str(minutes) if minutes else "",
        "P": ",".join(container.partitions),
        "%": "%",
    }


def _fill(template: str, values: Mapping[str, str]) -> str | None:
    """The filled argument; None if it names an attribute that the container lacks."""
    named = _LETTER.findall(template)
    if any(not values.get(letter, "?") for letter in named):
        return None
    return _LETTER.sub(lambda match: values[match[1]], template)
