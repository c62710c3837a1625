"""Requests that the command line submits as steps of a run: `--run`, or `LADING_RUN`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import structs

from lading.core.drawing.step_names import step_name
from lading.core.errors import Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.runs import attempts

if TYPE_CHECKING:
    from lading.cli.running.submission import RequestSpec
    from lading.cli.session import CliSession


def is_in_run(spec: RequestSpec) -> bool:
    """Whether a request is to be a step of a run."""
    return bool(spec.run or os.environ.get("LADING_RUN", "").strip())


async def join_run(session: CliSession, specs: list[RequestSpec]) -> list[RequestSpec]:
    """Make the requests steps of their run, and begin or join that run. All requests have the same
    run, in the project of the first request. Without a run the requests stay unchanged. Raises
    Invalid, Forbidden.
    """
    if not specs or not is_in_run(specs[0]):
        if specs and specs[0].notify:
            raise Invalid("--notify: tells of the end of a run; name the run with --run")
        return specs
    # Imported here: most requests are in no run.
    import asyncio

    from lading.client.run_records import reading, submitting

    name, number = submitting.need_run(submitting.run_of(os.environ, specs[0].run))
    uuid = name if is_uuid(name, Infix.GROUP) else ""
    if uuid and number is None:
        raise Invalid(f"{name}: name the attempt too, as 'lading runs begin' prints it")
    if not uuid:
        begun = await reading.begin(
            session.api,
            name,
            project=specs[0].project,
            attempt=number,
            session=submitting.this_session(),
        )
        uuid, number = str(begun["uuid"]), int(begun["attempt"])
        if begun["is_new"] and (source := await asyncio.to_thread(submitting.this_source)):
            # With the attempt that was begun: a later step says nothing new.
            await reading.begin(
                session.api, name, project=specs[0].project, attempt=number, source=source
            )
    if specs[0].notify:
        # Before the first step: its end is not missed.
        await _notify(session, uuid, specs[0].notify)
    return [_member(spec, uuid, number or 1) for spec in specs]


async def _notify(session: CliSession, uuid: str, receiver: str) -> None:
    from lading.cli import display
    from lading.client.run_records import notifying

    project = await session.api.get("groups", uuid, select=("name",))
    wish = await notifying.notify(session.api, uuid, str(project["name"]), receiver)
    if wish.secret:
        display.note(f"deliveries are signed with {wish.secret}, which is shown this once")


def _member(spec: RequestSpec, uuid: str, number: int) -> RequestSpec:
    program = spec.command[0].rpartition("/")[2] if spec.command else ""
    step = spec.step or step_name(spec.name or program)
    marks = {attempts.ATTEMPT: number, **({attempts.STEP: step} if step else {})}
    return structs.replace(
        spec,
        project=uuid,
        properties={**spec.properties, **marks},
        output_name=spec.output_name or (f"{spec.name or step}" if spec.name or step else None),
    )
