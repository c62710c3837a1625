"""The script of the job of a container.

The script starts the supervisor on a node. It goes to the batch system on standard input, so that
the token in it is in no process list, job description or environment: batch systems keep scripts
where only their own user reads them. On the node:

- A job that was started again after a failure of its node runs nothing: the first run may still
  be alive there, and only one process may be responsible for a container. The dispatcher sees it
  and removes the job.
- The numbers of the GPUs that the batch system gives to the job, or their uuids where it says them,
  go to the supervisor, which gives them to the container.
- A signal that asks the job to end is passed to the supervisor as TERM; it saves output and log
  before it ends.
- At its end the script is the completion hook: the remains of a dead supervisor are removed on the
  node, the only place where that is possible; and if the nodes share a directory with the
  dispatcher, a file named after the job reports the end at once.

A script for a job array has one assignment for each task. A node then has the tokens of all tasks;
so only containers of one user that may run on the same nodes share an array.

Source: docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

# A batch system may start a job again, for example when an operator requeues it: the container must
# not run twice. `umask 077` keeps other users of the node out of all that the script writes.
_HEAD = """#!/bin/sh
# Written by the dispatcher of Lading. Holds tokens.
if {restarted}; then
    echo 'lading: {system} has started this job again; it is not run twice' >&2
    exit 0
fi
umask 077
"""
# `-O` refuses a directory that another user has made at the known path. The assignment, which holds
# a token, goes through a pipe and out of memory (`given=`), never into an argument. TERM of the
# batch system is passed on; `wait` returns at the signal, so it is repeated until the
# supervisor has ended. A shell may collect the supervisor in the `wait` that the signal ends: one
# more gives the exit code, or 127 where the shell knows it no longer. The remains of the supervisor
# are cleaned up last.
_TAIL = """base={base}
for one in run cache locks; do [ -d "$base/$one" ] || mkdir -p "$base/$one" || exit 1; done
[ -O "$base" ] || {{ \
echo "lading: $base belongs to another user; set Containers.{section}.NodeDirectory" >&2; exit 1; }}
{certificate}supervisor() {{ {command} --lock-directory "$base/locks" "$@"; }}
pid= term=
trap 'term=1; [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null' {signals}
{ignored}gpus={gpus}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptDialect:
    """Words of one batch system in its job scripts; `section` of the configuration is named in
    messages.

    `restarted` is a shell command that succeeds when the job was started before. `index`, `gpus`
    and `job` are shell words: the number of the task, the numbers of the job's GPUs, the id of the
    job (of an array, of the task). `signals` ask a job to end; `ignored` ones tell of something
    else. `reach` starts an annex on the node of a rank.
    """

    system: str
    section: str
    restarted: str
    job: str
    index: str = "0"
    gpus: str = "${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-${ZE_AFFINITY_MASK:-}}}"
    signals: tuple[str, ...] = ("TERM",)
    ignored: tuple[str, ...] = ()
    reach: str = ""
    is_private: bool = True
    """Only their own user reads job scripts, wherever the batch system keeps them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSite:
    """Settings of the supervisors on nodes.

    `directory` is each node's own, `command` starts a supervisor there, `template` has the fields
    of every assignment but uuid, token and directories; `certificate` (PEM, may be "") verifies the
    server. `hooks` is a directory that the nodes share with the dispatcher, or ""; so is `secrets`,
    which only the dispatcher's user reads.
    """

    directory: str
    command: Sequence[str]
    template: Mapping[str, object]
    certificate: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    hooks: str = ""
    secrets: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One container of a job, and the token of its supervisor."""

    uuid: str
    token: str = field(repr=False)
    vcpus: int = 1
    """Its price, in multiples of the price of one VCPU."""
    spread: bool = False
    """Its job has a node for each rank of its gang."""


def write(site: JobSite, tasks: Sequence[Task], dialect: ScriptDialect) -> bytes:
    """The script of a job for one task, or of a job array with the indices of `tasks`."""
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in sorted(site.environment.items())
    )
    chosen = "".join(
        f"{index})\n    uuid={task.uuid}\n    {_assignment_line(site, task, dialect)}\n    ;;\n"
        for index, task in enumerate(tasks)
    )
    command = " ".join(shlex.quote(word) for word in site.command)
    tail = _TAIL.format(
        base=shlex.quote(site.directory),
        certificate=_certificate(site),
        command=command,
        hook=_hook(site, dialect),
        section=dialect.section,
        signals=" ".join(dialect.signals),
        ignored=f"trap '' {' '.join(dialect.ignored)}\n" if dialect.ignored else "",
        gpus=dialect.gpus,
    )
    head = _HEAD.format(restarted=dialect.restarted, system=dialect.system)
    script = f'{head}{exports}case "{dialect.index}" in\n{chosen}*) exit 2 ;;\nesac\n{tail}'
    return script.encode()


def secret_assignments(
    site: JobSite, tasks: Sequence[Task], dialect: ScriptDialect
) -> dict[str, str]:
    """The assignments that the script reads from files in `site.secrets`, by uuid; none where the
    script holds them.
    """
    if dialect.is_private or not site.secrets:
        return {}
    return {task.uuid: _assignment(site, task, dialect) for task in tasks}


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


def _assignment_line(site: JobSite, task: Task, dialect: ScriptDialect) -> str:
    if dialect.is_private or not site.secrets:
        return f"given={shlex.quote(_assignment(site, task, dialect))}"
    path = shlex.quote(f"{site.secrets}/{task.uuid}")
    return f"given=$(cat {path}) || exit 1; rm -f {path}"


def _assignment(site: JobSite, task: Task, dialect: ScriptDialect) -> str:
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
        fields["annex_command"] = ["sh", "-c", dialect.reach, "sh", "{rank}", *site.command]
    return msgspec.json.encode(fields).decode()


def _certificate(site: JobSite) -> str:
    path = certificate_path(site)
    if not path:
        return ""
    text, place = shlex.quote(site.certificate), shlex.quote(path)
    # Written aside and renamed: two jobs that start on a node at once see all of it or nothing.
    return f"[ -s {place} ] || {{ printf '%s' {text} >{place}.$$ && mv {place}.$$ {place}; }}\n"


def _hook(site: JobSite, dialect: ScriptDialect) -> str:
    if not site.hooks:
        return ""
    return f'job={dialect.job}\n: >{shlex.quote(site.hooks)}/"$job" || true\n'
