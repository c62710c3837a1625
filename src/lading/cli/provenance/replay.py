"""`lading replay`: run a request, a tree of requests or a crate again, and compare the outputs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from lading import __version__
from lading.cli import display
from lading.cli.options import secret_option
from lading.cli.references import FileReference, find_tree, find_with_output
from lading.cli.running.secrets import SecretOption, read_needed, secrets_again
from lading.cli.running.waiting import wait_and_show
from lading.cli.session import CliSession, session_with, with_session
from lading.client.api import Record
from lading.client.outcomes import RequestOutcome
from lading.client.provenance.causes import side_of
from lading.client.provenance.crate_export import CrateOptions, export_crate
from lading.client.provenance.crate_import import crate_name, import_crate, read_contents
from lading.client.provenance.crate_reading import CrateReader
from lading.client.provenance.crate_writing import CHECKSUMS, CrateWriter
from lading.client.provenance.origins import find_origins
from lading.client.provenance.replaying import FirstDifference, first_difference, replay_request
from lading.client.request_states import shown_command
from lading.client.servers.environment import read_server
from lading.core.errors import Conflict, LadingError

_PAGE: Final = 500
"""Requests of one batch."""
_LINK: Final = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    request: Record
    container: Record

    @property
    def name(self) -> str:
        return str(self.request["name"] or shown_command(self.request))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replay:
    """A step with the outcome of its replay; `fault`: why there is nothing to compare."""

    step: _Step
    outcome: RequestOutcome
    difference: FirstDifference | None = None
    fault: str = ""

    @property
    def is_equal(self) -> bool:
        return self.difference is None and not self.fault

    @property
    def said(self) -> str:
        return self.fault or (str(self.difference) if self.difference else "equal")


@click.command()
@click.argument("request", metavar="REQUEST|CRATE")
@click.option(
    "--tree", "is_tree", is_flag=True, help="Replay all requests that led to this one, too."
)
@click.option(
    "--at",
    "server_file",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Replay on another server; FILE is the file 'env' in its data directory.",
)
@secret_option
@display.with_json
def replay(
    request: str,
    is_tree: bool,
    server_file: Path | None,
    secrets: tuple[SecretOption, ...],
) -> display.Output:
    """Run REQUEST again as its container is recorded, and compare the outputs.

    CRATE, a directory or an archive of `lading export`, stands for all requests in it. With --at
    inputs and images are brought to another server, and the replay is there; what came of it is
    kept beside the container, here.

    An earlier result is never used. Equal outputs have equal hashes; otherwise the first file and
    byte that differ are told. With --tree each step runs on its recorded inputs: a step that does
    not repeat changes nothing for those after it. No record has secrets: --secret gives them
    again. Steps with access to the API, as runners of
    workflows, are left out of a tree. The exit code is 1 unless all are equal.
    """
    crate = Path(request)
    is_crate = (
        crate.suffix == ".zip"
        or request.startswith((".", "/", "~"))
        or (crate / CHECKSUMS).is_file()
    )

    async def action(session: CliSession) -> list[_Replay]:
        async with AsyncExitStack() as exit_stack:
            target = session
            if server_file is not None:
                target = await exit_stack.enter_async_context(
                    session_with(read_server(server_file))
                )
            if is_crate:
                steps = await _bring(target, crate, is_here=server_file is None)
                contents = read_needed(secrets, (step.request for step in steps))
                return await _replay(target, steps, contents, is_foreign=True)
            steps = await _steps(session, request, is_tree=is_tree)
            contents = read_needed(secrets, (step.request for step in steps))
            if server_file is None:
                return await _replay(session, steps, contents, is_foreign=False)
            await _carry(session, target, steps)
            replays = await _replay(target, steps, contents, is_foreign=True)
            await _remember(session, replays, target.address)
            return replays

    replays = with_session(action)
    is_equal = all(replayed.is_equal for replayed in replays)
    yield display.Conclusion([_document(replayed) for replayed in replays], 0 if is_equal else 1)
    _show(replays)


async def _replay(
    session: CliSession,
    steps: Sequence[_Step],
    contents: Mapping[str, str],
    *,
    is_foreign: bool,
) -> list[_Replay]:
    """Submit the steps, wait for all, and compare. `contents`: the contents of secrets by their
    names. Raises Invalid for a secret that is missing.
    """
    bodies = [
        {
            **replay_request(step.request, step.container, is_foreign=is_foreign),
            **secrets_again(step.request, contents),
        }
        for step in steps
    ]
    submitted: list[Record] = []
    for start in range(0, len(bodies), _PAGE):
        body = {"container_requests": bodies[start : start + _PAGE]}
        answer = await session.api.action("container_requests", None, "batch", body=body)
        submitted += answer["items"]
    if not display.is_json_command():
        display.note(f"{len(submitted)} submitted: {submitted[0]['name']}{_more(submitted)}")
    ended = await wait_and_show(session.api, [str(request["uuid"]) for request in submitted])
    return [
        await _compared(session, step, outcome) for step, outcome in zip(steps, ended, strict=True)
    ]


async def _steps(session: CliSession, name: str, *, is_tree: bool) -> list[_Step]:
    """The steps to replay, the earliest first. Raises Conflict for one without a container."""
    uuids = [await find_with_output(session, name)]
    if is_tree:
        uuids = await find_origins(session.api, uuids[0])
    steps = []
    for uuid in uuids:
        side = await side_of(session.api, await session.api.get("container_requests", uuid))
        if side.container is None:
            raise Conflict(f"{uuid}: never ran, so that nothing is recorded to replay")
        steps.append(_Step(request=dict(side.request), container=dict(side.container)))
    return _replayed(steps, uuids[0], is_tree=is_tree)


def _replayed(steps: Sequence[_Step], subject: str, *, is_tree: bool) -> list[_Step]:
    """The steps that can be replayed, the earliest first; of a container one. Raises Conflict if
    there are none.
    """
    replayable: dict[str, _Step] = {}
    for step in sorted(steps, key=lambda step: str(step.request["created_at"])):
        if is_tree and (step.container["runtime_constraints"] or {}).get("API"):
            display.note(f"{display.plain(step.name)}: has access to the API, left out")
            continue
        replayable.setdefault(str(step.container["uuid"]), step)
    if not replayable:
        raise Conflict(f"{subject}: no step of it can be replayed")
    return list(replayable.values())


async def _bring(session: CliSession, crate: Path, *, is_here: bool) -> list[_Step]:
    """The steps of a crate, whose contents are stored on the server if need be."""
    with CrateReader(crate) as reader:
        reader.check()
        contents = read_contents(reader)
        steps = [_Step(request=run.request, container=run.container) for run in contents.runs]
        chosen = _replayed(steps, str(crate), is_tree=True)
        with display.progress("Storing") as report:
            imported = await import_crate(
                session.api, session.blocks, reader, name=crate_name(reader), progress=report
            )
    if imported.absent_images:
        where = "here" if is_here else f"on {session.address}"
        raise Conflict(
            f"{imported.absent_images[0]}: this image is neither in the crate nor {where}; "
            "export it with --images, or add the image"
        )
    return chosen


async def _carry(session: CliSession, target: CliSession, steps: Sequence[_Step]) -> None:
    """Bring inputs, outputs and images of the steps to another server, by a crate."""
    options = CrateOptions(
        published=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        with_data=True,
        with_images=True,
    )
    with tempfile.TemporaryDirectory(prefix="lading-replay-") as folder:
        crate = Path(folder) / "crate"
        with CrateWriter(crate, packed=False) as writer:
            uuids = [str(step.request["uuid"]) for step in steps]
            await export_crate(session.api, session.blocks, uuids, writer, options)
            writer.finish()
        await _bring(target, crate, is_here=False)


async def _remember(session: CliSession, replays: Sequence[_Replay], where: str) -> None:
    """Keep the results of replays on another server, as links on the containers."""
    gate = asyncio.Semaphore(8)

    async def keep(replayed: _Replay) -> None:
        link = {
            "link_class": _LINK,
            "name": "reproduced" if replayed.is_equal else "differs",
            "head_uuid": replayed.step.container["uuid"],
            "properties": {
                "instance": where,
                "request": replayed.outcome.request["uuid"],
                **({} if replayed.is_equal else {"difference": replayed.said}),
            },
        }
        async with gate:
            await session.api.create("links", link)

    async with asyncio.TaskGroup() as group:
        for replayed in replays:
            group.create_task(keep(replayed))


async def _compared(session: CliSession, step: _Step, outcome: RequestOutcome) -> _Replay:
    again = outcome.container or {}
    before, after = step.container, again
    if again.get("state") != "Complete":
        return _Replay(step=step, outcome=outcome, fault=f"not finished: {outcome.fault}")
    if before["exit_code"] != after["exit_code"]:
        fault = f"exit code {after['exit_code']}, it was {before['exit_code']}"
        return _Replay(step=step, outcome=outcome, fault=fault)
    if before["output"] == after["output"]:
        return _Replay(step=step, outcome=outcome)
    try:
        trees = [
            await find_tree(session, FileReference(container["output"]))
            for container in (before, after)
        ]
        difference = await first_difference(session.blocks, *trees)
    except LadingError as error:
        fault = f"another hash; the files cannot be compared: {error.message}"
        return _Replay(step=step, outcome=outcome, fault=fault)
    return _Replay(step=step, outcome=outcome, difference=difference)


def _show(replays: Sequence[_Replay]) -> None:
    equal = sum(replayed.is_equal for replayed in replays)
    if len(replays) > 1 or equal < len(replays):
        display.table(
            ("STEP", "REPLAY", "RESULT"),
            [
                (
                    display.shorten(replayed.step.name, 30),
                    str(replayed.outcome.request["uuid"]),
                    display.plain(replayed.said),
                )
                for replayed in replays
            ],
        )
        click.echo()
    click.echo(f"reproduced {equal} of {len(replays)}")


def _document(replayed: _Replay) -> dict[str, Any]:
    difference = replayed.difference
    return {
        "name": replayed.step.name,
        "request": replayed.step.request["uuid"],
        "replay": replayed.outcome.request["uuid"],
        "reproduced": replayed.is_equal,
        "fault": replayed.fault or None,
        "difference": difference
        and {
            "path": difference.path,
            "offset": difference.offset,
            "before": difference.before,
            "after": difference.after,
        },
    }


def _more(submitted: Sequence[Record]) -> str:
    return f" and {len(submitted) - 1} more" if len(submitted) > 1 else ""
