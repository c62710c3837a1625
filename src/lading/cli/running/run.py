"""`lading run`: one command, from its submission to its output on disk.

Standard output and standard error are those of the command, and the exit code is its exit code;
Lading's own messages go to standard error. The first Ctrl-C asks the server to cancel, a second one
exits.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from lading.cli import display
from lading.cli.exit_codes import INTERRUPTED
from lading.cli.hangup import unread
from lading.cli.options import (
    ASSIGNMENT,
    DURATION,
    INPUT,
    MOMENT,
    NUMBERS,
    PROPERTY,
    RETRY,
    SECRET,
    SIZES,
    PassingCommand,
    option_of,
)
from lading.cli.references import (
    FileReference,
    check_storage_classes,
    find_project,
    find_request,
    find_tree,
)
from lading.cli.running.gpu_options import gpu_options
from lading.cli.running.inputs import LINKS, LINKS_OPTION, STDIN, Input
from lading.cli.running.secrets import (
    SecretOption,
    advise,
    read_secrets,
    takes_standard_input,
)
from lading.cli.running.submission import (
    OUTPUT,
    PRIORITY,
    RequestSpec,
    default_image,
    output_patterns,
    request_body,
    store_inputs,
    tell_image,
)
from lading.cli.runs.membership import is_in_run, join_run
from lading.cli.session import CliSession, note_no_start, tell_page, with_session
from lading.client.outcomes import RequestOutcome, reason, warnings
from lading.client.request_states import is_reused, run_time
from lading.core.errors import Conflict
from lading.core.ids import EMPTY_PDH
from lading.core.secrets import mounts_of
from lading.core.values import JsonObject
from lading.process.concurrency import together

if TYPE_CHECKING:
    from lading.cli.running.following import Sink
    from lading.client.api import Record

_data, _needs, _when = option_of("Data"), option_of("Needs"), option_of("When and how often")
_record, _doing = option_of("The record"), option_of("What to do")


@click.command(
    cls=PassingCommand,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, metavar="[--] [COMMAND...]")
@_data(
    "--image",
    default="",
    metavar="IMAGE",
    help="Name, hash or collection of it.  [default: yours added last]",
)
@_data(
    "--pull",
    is_flag=True,
    help="Fetch --image from its registry if the store has none of this name.",
)
@_data(
    "--input",
    "inputs",
    type=INPUT,
    multiple=True,
    metavar="TARGET=SOURCE",
    help="Mount a path, a HASH, a UUID or REQUEST[/path] there.",
)
@_data(LINKS, **LINKS_OPTION)
@_data("--stdin", is_flag=True, help="Give our standard input, a pipe or a file, to the command.")
@_data(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Download the output.",
)
@_data(
    "--overwrite",
    is_flag=True,
    help="Download into a directory that has files, and replace those of one name.",
)
@_data(
    "--output-path",
    default=OUTPUT,
    show_default=True,
    metavar="PATH",
    help="Directory that is kept.",
)
@_data(
    "--output-glob",
    multiple=True,
    metavar="PATTERN",
    help="Keep only files that match.",
)
@_data(
    "--strict-output",
    is_flag=True,
    help="Fail if an entry of the output cannot be saved, as a link that leads nowhere.",
)
@_data("--output-name", metavar="NAME", help="Name of the output collection.")
@_data(
    "--output-ttl",
    type=DURATION,
    default="0",
    metavar="TIME",
    help="Trash the output after, for example, 14d.",
)
@_data(
    "--output-property",
    type=PROPERTY,
    multiple=True,
    metavar="K=V",
    help="Property of the output collection.",
)
@_data("--storage-class", multiple=True, metavar="NAME", help="Storage class of the output.")
@_data("--tmp", multiple=True, metavar="PATH", help="Mount an empty directory that is not kept.")
@_needs(
    "--vcpus",
    type=NUMBERS,
    default="1",
    show_default=True,
    metavar="N|N-M",
    help="Virtual CPUs; 2-8: as many as are free.",
)
@_needs(
    "--ram",
    type=SIZES,
    default="256MiB",
    show_default=True,
    metavar="SIZE|SIZE-SIZE",
    help="Memory, as 2GiB-8GiB.",
)
@gpu_options("Needs")
@_needs(
    "--env",
    "environment",
    type=ASSIGNMENT,
    multiple=True,
    metavar="K=V",
    help="Environment variable.",
)
@_needs(
    "--secret",
    "secrets",
    type=SECRET,
    multiple=True,
    metavar="NAME[=VALUE|@FILE]",
    help="Variable, or /PATH, that no record shows; without a value it is asked for.",
)
@_needs(
    "--workdir",
    default=OUTPUT,
    show_default=True,
    metavar="PATH",
    help="Working directory of the command.",
)
@_needs(
    "--internet/--no-internet",
    default=None,
    help="Require access to the internet, or refuse any network.",
)
@_needs("--network", is_flag=True, help="Give it the internet, the API, and a token for that.")
@_needs("--api", is_flag=True, help="Give it the API alone, and a token for that.")
@_needs(
    "--max-run-time",
    type=DURATION,
    default="0",
    metavar="TIME",
    help="Stop it after, for example, 2h.",
)
@_needs(
    "--partition", multiple=True, metavar="NAME", help="Queue of the batch system that will do."
)
@_needs("--preemptible", is_flag=True, help="Cheap machines that may be taken away will do.")
@_needs(
    "--prefer-preemptible",
    is_flag=True,
    help="Use cheap machines that may be taken away while there are some, else others.",
)
@_needs(
    "--spot-attempts",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Use others after so many of them were taken away.",
)
@_when(
    "--priority",
    type=click.IntRange(1, 1000),
    default=PRIORITY,
    show_default=True,
    help="1 to 1000.",
)
@_when(
    "--after",
    multiple=True,
    metavar="REQUEST",
    help="Run it when this request has ended well (uuid or `last`).",
)
@_when(
    "--start-after",
    type=MOMENT,
    metavar="TIME",
    help="Earliest start: 18:00, 2h from now, or 2026-12-24T18:00.",
)
@_when(
    "--deadline",
    type=MOMENT,
    metavar="TIME",
    help="When it should have ended; --prefer-preemptible heeds it.",
)
@_when("--expires", type=MOMENT, metavar="TIME", help="Cancel it at this time, also while it runs.")
@_when("--attempts", type=click.IntRange(1), help="Containers to try when the system fails.")
@_when(
    "--retry",
    type=RETRY,
    multiple=True,
    metavar="CLASS=RULE",
    help="Retries after failures of a class, as oom=3,factor=2,most=64GiB or node=5,delay=1m.",
)
@_when(
    "--keep-on-failure", type=click.IntRange(0, 7 * 1440), default=0, metavar="MINUTES",
    help="Keep a container that fails for `lading shell`.",
)  # fmt: skip
@_when("--no-reuse", is_flag=True, help="Run it even if it was run before.")
@_when(
    "--match-resources",
    is_flag=True,
    help="Reuse a result only if it was made with the same RAM and number of CPUs.",
)
@_when(
    "--reuse-only-reproduced",
    "only_reproduced",
    is_flag=True,
    help="Reuse a result only if it was run again, each time with equal output.",
)
@_when(
    "--container", metavar="UUID", help="Use this container, running or ended, if it did the same."
)
@_record("--name", help="Name of the request.")
@_record("--description", help="Description of its purpose.")
@_record(
    "--property",
    "properties",
    type=PROPERTY,
    multiple=True,
    metavar="K=V",
    help="Property of the request; V may be JSON.",
)
@_record(
    "--project", metavar="PROJECT", help="Project that owns request and output.  [default: yours]"
)
@_record(
    "--run", metavar="NAME",
    help="Run of a pipeline that it is a step of; see 'lading runs'.  [default: $LADING_RUN]",
)  # fmt: skip
@_record(
    "--notify", metavar="RECEIVER",
    help="Tell this URL or e-mail address, or 'me', of the end of the run.",
)  # fmt: skip
@_record("--step", metavar="NAME", help="Step of the run.  [default: --name without its number]")
@_doing("--preview", is_flag=True, help="Show the effect, and do nothing.")
@_doing("--detach", is_flag=True, help="Submit it, print its uuid and leave.")
@_doing(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=display.note_quiet,
    help="Write no messages of Lading's own but about faults.",
)
@_doing(
    "--no-start",
    is_flag=True,
    expose_value=False,
    callback=note_no_start,
    help="Start no site of yours in the background where none runs.",
)
@_doing(
    "-v",
    "--verbose",
    is_flag=True,
    help="With --preview: name the attributes that never count, too.",
)
@display.json_option
def run(
    command: tuple[str, ...],
    inputs: tuple[Input, ...],
    output: Path | None,
    overwrite: bool,
    environment: tuple[tuple[str, str], ...],
    secrets: tuple[SecretOption, ...],
    properties: tuple[tuple[str, Any], ...],
    output_property: tuple[tuple[str, Any], ...],
    no_reuse: bool,
    preview: bool,
    verbose: bool,
    detach: bool,
    stdin: bool,
    **options: Any,
) -> None:
    """Run COMMAND in a container, show its output, and exit with its exit code.

    Without COMMAND that of --image is run (its ENTRYPOINT and CMD).

    The command starts in /out; the files that it leaves in /out are its output. The same command
    with the same image and inputs is not run twice: the earlier result is used, unless --no-reuse
    says otherwise.

    \b
    lading run --input /in/reads.fq=reads.fq -- sh -c 'sort /in/reads.fq > sorted'
    lading run --input /in=lading-data/ --output result --ram 2GiB -- sh /in/all.sh
    lading run --after last --start-after 18:00 --vcpus 2-16 -- sh /in/all.sh

    SOURCE is a file or directory here, a portable data hash, a uuid, or one of them with /PATH; the
    uuid of another request stands for its output. With --json, the outcome is printed as JSON on
    standard output, and the output of the command goes to standard error.

    The exit code is that of the command: 127 if it is not in the image, 126 if it cannot be run,
    124 after --max-run-time, 125 if Lading refused or failed, 130 after Ctrl-C,
    141 where nobody reads the output any more.
    """
    if options["pull"] and not options["image"]:
        raise click.UsageError("--pull: say which --image.")
    if not command and not options["image"]:
        raise click.UsageError(
            "Missing argument COMMAND; name one, or the --image whose own command is to run."
        )
    patterns = output_patterns(options.pop("output_glob"), options["output_path"])
    spec = RequestSpec(
        command=command,
        output_glob=patterns,
        inputs=inputs,
        environment=dict(environment),
        secret_mounts=secret_mounts(secrets, environment, stdin=stdin),
        properties=dict(properties),
        output_properties=dict(output_property),
        use_existing=not no_reuse,
        **options,
    )
    from lading.cli.running.standard_input import has_data, standard_input

    with ExitStack() as exit_stack:
        if stdin:
            spec = structs.replace(
                spec, inputs=(*spec.inputs, exit_stack.enter_context(standard_input()))
            )
        elif not (
            takes_standard_input(secrets) or any(source.target == STDIN for source in inputs)
        ) and has_data(sys.stdin):
            display.warn("standard input is not given to the command; --stdin gives it")
        if preview:
            display.show(_preview(spec, is_verbose=verbose))
        elif detach:
            _detach(spec)
        else:
            check_target(output, overwrite=overwrite)
            sys.exit(with_session(lambda session: follow_to_end(session, spec, output)))


def secret_mounts(
    secrets: Sequence[SecretOption], environment: Sequence[tuple[str, str]], *, stdin: bool
) -> JsonObject:
    """The secret mounts of the options; gives advice about variables that look like secrets. Raises
    Invalid.
    """
    if stdin and takes_standard_input(secrets):
        raise click.UsageError("--stdin and a --secret @- both take standard input; use a file")
    advise(name for name, _ in environment)
    return mounts_of(read_secrets(secrets))


def check_target(directory: Path | None, *, overwrite: bool) -> None:
    """Refuse to mix an output with earlier files, before anything is run. Raises Conflict."""
    if directory is not None and not overwrite and directory.is_dir() and any(directory.iterdir()):
        raise Conflict(
            f"{directory}: has files already; name another directory, or --overwrite to add to them"
        )


async def submit(session: CliSession, spec: RequestSpec) -> Record:
    """Store the inputs and create the request. Raises Invalid and the errors of the API."""
    body = await _body(session, await _placed(session, spec))
    if not spec.image:
        return await session.api.create("container_requests", body)
    record: Record = {}

    async def create() -> None:
        record.update(await session.api.create("container_requests", body))

    # At the same time: nobody should wait for a remark.
    await together(create(), tell_image(session, spec.image))
    return record


async def _placed(session: CliSession, spec: RequestSpec) -> RequestSpec:
    """The request with the uuid of its project, or of its run."""
    if spec.project:
        spec = structs.replace(spec, project=await find_project(session, spec.project))
    return (await join_run(session, [spec]))[0] if is_in_run(spec) or spec.notify else spec


async def _body(session: CliSession, spec: RequestSpec) -> dict[str, Any]:
    await check_storage_classes(session, spec.storage_class)
    if spec.image and spec.pull:
        # Imported here, as `data` below: most runs neither pull nor fetch.
        from lading.cli.images import pull_missing

        await pull_missing(session, spec.image)
    image = spec.image or await default_image(session)
    mounts = await store_inputs(session, spec.inputs, links=spec.links)
    after = [str((await find_request(session, name))["uuid"]) for name in spec.after]
    return request_body(spec, image=image, mounts=mounts, after=after)


def _preview(spec: RequestSpec, *, is_verbose: bool) -> display.Output:
    async def action(session: CliSession) -> Record:
        # Nothing is fetched for a preview.
        project = await find_project(session, spec.project) if spec.project else None
        body = await _body(session, structs.replace(spec, pull=False, project=project))
        answer: Record = await session.api.action("container_requests", None, "preview", body=body)
        return answer

    answer = with_session(action)
    yield answer
    # Imported here: most runs are no previews.
    from lading.cli.running import explanation

    explanation.show_preview(answer, is_verbose=is_verbose)


def _detach(spec: RequestSpec) -> None:
    async def action(session: CliSession) -> None:
        request = await submit(session, spec)
        if display.is_json_command():
            display.emit_json(request)
            return
        click.echo(request["uuid"])
        display.note(f"follow it with: lading request logs -f {request['uuid']}")
        tell_page(session, request["uuid"])

    with_session(action)


async def follow_to_end(
    session: CliSession,
    spec: RequestSpec,
    output: Path | None,
    *,
    further: Mapping[str, Sink] | None = None,
) -> int:
    """Submit the request, show its log until it ends, download its output; return the exit code.
    Raises the errors of the API.

    `further`: receivers of other files of the log, by name.
    """
    # Imported here: `lading run --help` and completion need none.
    from lading.cli.interruption import interruptible
    from lading.cli.running.following import Follower, Watcher

    request = await submit(session, spec)
    display.note(f"{request['uuid']} submitted")
    # Flushed before the command's own output, which goes to the buffer below `sys.stdout`.
    sys.stdout.flush()
    # With --json standard output is for the document.
    out = sys.stderr.buffer if display.is_json_command() else sys.stdout.buffer
    watcher = Watcher(stdout=out, stderr=sys.stderr.buffer, say=display.note, further=further or {})
    follower = Follower(session.api, request, watcher)
    uuid = request["uuid"]
    see = f"lading request show {uuid}"
    async with interruptible(uuid, follower.cancel, see=see) as was_interrupted:
        outcome = await follower.follow()
    code = outcome.exit_code
    # A command that ended well before the cancellation keeps its code.
    if was_interrupted() and code != 0:
        code = INTERRUPTED
    report(outcome, is_interrupted=was_interrupted())
    if code != 0 and not display.is_json_command():
        tell_page(session, request["uuid"])
    if output is not None and outcome.request["output_uuid"]:
        tree = await find_tree(session, FileReference(outcome.request["output_uuid"]))
        from lading.cli.files import data

        place, files, size = await data.write_node(session, tree, output, name="")
        display.note(f"wrote {data.count(files, 'file')}, {display.size(size)}, to {place}")
    if display.is_json_command():
        # The work has ended: its exit code is told, read or not.
        with unread():
            display.emit_json(summary(outcome, code))
    return code


def summary(outcome: RequestOutcome, code: int) -> dict[str, Any]:
    """The outcome for programs; `output` and `log` are portable data hashes."""
    request, container = outcome.request, outcome.container or {}
    return {
        "uuid": request["uuid"],
        "container_uuid": container.get("uuid"),
        "state": container.get("state"),
        "exit_code": code,
        "output": container.get("output"),
        "output_uuid": request["output_uuid"],
        "log": container.get("log"),
        "reused": bool(container) and is_reused(request, container),
        "seconds": run_time(container) if container else 0.0,
        "runtime_status": container.get("runtime_status") or {},
    }


def report(outcome: RequestOutcome, *, is_interrupted: bool) -> None:
    """Print how the request ended, whether a result was reused, and the output."""
    request, container = outcome.request, outcome.container
    if container is None:
        display.warn("cancelled before it had a container")
        return
    if container["state"] != "Complete":
        why = "cancelled" if is_interrupted else f"not finished: {reason(container)}"
        has_log = container["started_at"] and request["log_uuid"]
        display.warn(
            why
            + (
                f" (see: lading request logs {request['uuid']} --file crunch-run.txt)"
                if has_log
                else ""
            )
        )
        if container["output"]:
            display.note(f"its files until then: {container['output']}")
        return
    if (container["runtime_status"] or {}).get("error"):
        display.warn(reason(container))
    for line in warnings(container):
        display.warn(f"warning: {line}")
    now = datetime.now(UTC)
    if is_reused(request, container):
        how = (
            f"reused {container['uuid']}, finished {display.age(container['finished_at'], now)} ago"
        )
    else:
        how = f"ran {display.duration(run_time(container))}"
    output = (
        f"{container['output'] or 'none'}{' (empty)' if container['output'] == EMPTY_PDH else ''}"
    )
    display.note(f"{how}, exit code {container['exit_code']}, output {output}")
