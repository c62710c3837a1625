"""`lading prune`: move outputs and logs of old requests to the trash, with a preview.

Collections that the server made for requests have the uuid of their request in the property
`container_request`; a named output (`--output-name`) counts among the user's own data, as in
`lading ls`. Data that is needed by a waiting or running container, or by a request that waits for
the output of another one, is never removed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.files.data import UNNAMED_OUTPUT, count
from lading.cli.options import DURATION
from lading.cli.running import selection
from lading.cli.running.selection import RequestSelection, selecting, state_option
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.core.containers.mounting import mount_resolution
from lading.core.containers.steps import image_names
from lading.core.data.packing import blocks_of, sizes_of
from lading.core.quantities import format_time

MADE: Final = ["properties.container_request", "exists", True]
"""Filter of the collections that the server made for requests."""
_FIELDS = ("uuid", "name", "portable_data_hash", "properties", "file_size_total")
# As many as the server gives in one answer, so that there are few calls.
_PAGE: Final = 1000
# Collections with their manifests in one answer.
_MANIFESTS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningPlan:
    """The records that go to the trash, and the bytes that this frees once the trash is emptied."""

    requests: set[str]
    collections: list[Record]
    needed: int
    """Collections that matched and are needed."""
    freed: int
    shared: int
    """Bytes of blocks that other collections have too."""


@click.command()
@selecting
@state_option
@click.option("--older", type=DURATION, metavar="TIME",
              help="Prune requests submitted longer ago than this, such as 30d.")  # fmt: skip
@click.option("--never-reused", is_flag=True, help="Prune results that nothing has used since.")
@click.option("--logs-only", is_flag=True, help="Prune logs only; outputs stay.")
@click.option("--named", is_flag=True, help="Outputs with a name of their own too.")
@click.option("--requests", is_flag=True, help="Delete the records of the requests, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@display.with_json
def prune(
    older: int | None,
    never_reused: bool,
    logs_only: bool,
    named: bool,
    requests: bool,
    yes: bool,
    **selected: Any,
) -> display.Output:
    """Move outputs and logs of requests that have ended to the trash, after showing what that
    frees.

    The requests themselves stay without --requests, and with them the last copy of each log, in
    the trash. A result whose output or log is in the trash is not reused. `lading undelete --all`
    shows what can be taken out again.

    \b
    lading prune --older 30d --never-reused
    lading prune --failed --requests --yes
    """
    wanted = RequestSelection(**selected)
    if wanted == RequestSelection() and older is None and not never_reused:
        raise click.UsageError(
            "Say which: --older, --never-reused, --failed, --state, --name, --project, --user, "
            "--property or --since."
        )
    choice = _Choice(
        older=older or 0,
        never_reused=never_reused,
        logs_only=logs_only,
        named=named,
        requests=requests,
    )
    plan = with_session(lambda session: _plan(session, wanted, choice))
    is_empty = not plan.collections and not (requests and plan.requests)
    if not (is_empty or display.is_json_command()):
        _show(plan, with_requests=requests)
    done = not is_empty and _is_sure(plan, yes)
    if done:
        with_session(lambda session: _trash(session, plan, choice))
    yield _as_json(plan, done=done)
    _tell_end(plan, is_empty=is_empty, done=done)


def _as_json(plan: PruningPlan, *, done: bool) -> dict[str, object]:
    return {
        "requests": sorted(plan.requests),
        "collections": [collection["uuid"] for collection in plan.collections],
        "kept": plan.needed,
        "freed": plan.freed,
        "shared": plan.shared,
        "done": done,
    }


def _tell_end(plan: PruningPlan, *, is_empty: bool, done: bool) -> None:
    if is_empty:
        display.note(f"nothing to prune{_and_kept(plan)}")
    elif done:
        display.note(f"{count(len(plan.collections), 'collection')} in the trash{_and_kept(plan)}")
    else:
        display.note(f"nothing was changed; --yes does it{_and_kept(plan)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    older: int
    never_reused: bool
    logs_only: bool
    named: bool
    requests: bool


def _is_sure(plan: PruningPlan, yes: bool) -> bool:
    if yes or not sys.stdin.isatty():
        return yes
    return click.confirm(f"Prune {count(len(plan.requests), 'request')}?", err=True)


def _show(plan: PruningPlan, *, with_requests: bool) -> None:
    kinds: dict[str, list[int]] = {}
    for collection in plan.collections:
        kinds.setdefault(kind_of(collection), []).append(collection["file_size_total"] or 0)
    display.table(
        ("KIND", "COLLECTIONS", "SIZE"),
        (
            (kind, str(len(sizes)), display.size(sum(sizes)))
            for kind, sizes in sorted(kinds.items())
        ),
    )
    display.note(
        f"of {count(len(plan.requests), 'request')}; frees {display.size(plan.freed)} when the "
        f"trash is emptied; {display.size(plan.shared)} are used elsewhere and stay"
    )
    if "log" in kinds and not with_requests:
        display.note("the logs stay in the trash as long as their requests; --requests takes those")


def _and_kept(plan: PruningPlan) -> str:
    return f"; {count(plan.needed, 'collection')} still needed" if plan.needed else ""


def kind_of(collection: Mapping[str, Any]) -> str:
    """`log`, `output` or `data`."""
    properties = collection["properties"] or {}
    if "container_request" not in properties:
        return "data"
    return "log" if properties.get("type") == "log" else "output"


async def _plan(session: CliSession, criteria: RequestSelection, choice: _Choice) -> PruningPlan:
    ended = await _ended(session, criteria, choice)
    use = await _usage(session)
    collections = [collection async for collection in _made_for(session, ended, choice)]
    needed = [collection for collection in collections if _is_needed(collection, use)]
    needed_uuids = {collection["uuid"] for collection in needed}
    chosen = [collection for collection in collections if collection["uuid"] not in needed_uuids]
    used = _makers_of_inputs(chosen, use) if choice.never_reused else set[str]()
    chosen = [collection for collection in chosen if _maker(collection) not in used]
    # The last log of a container stays in the trash as long as a request has the container.
    leaving = {
        collection["uuid"]
        for collection in chosen
        if choice.requests or kind_of(collection) != "log"
    }
    mine, others = await _blocks(session, leaving)
    every = ended.keys() - used - set(map(_maker, needed))
    return PruningPlan(
        requests=every if choice.requests else set(map(_maker, chosen)),
        collections=chosen,
        needed=len(needed),
        # Blocks that another collection has stay in the store.
        freed=sizes_of(mine - others),
        shared=sizes_of(mine & others),
    )


def _is_needed(collection: Mapping[str, Any], use: _Usage) -> bool:
    """Whether a request that has not ended has its content, or waits for it."""
    if collection["portable_data_hash"] in use.live:
        return True
    return kind_of(collection) == "output" and _maker(collection) in use.awaited


def _makers_of_inputs(collections: Iterable[Mapping[str, Any]], use: _Usage) -> set[str]:
    """The requests whose outputs another request has mounted."""
    return {
        _maker(collection)
        for collection in collections
        if kind_of(collection) == "output" and collection["portable_data_hash"] in use.mounted
    }


def _maker(collection: Mapping[str, Any]) -> str:
    """The uuid of the request that a collection was made for."""
    return str(collection["properties"]["container_request"])


async def _ended(
    session: CliSession, criteria: RequestSelection, choice: _Choice
) -> dict[str, str | None]:
    """The requests that match and have ended, with their containers."""
    selected = await selection.find(session, criteria, ("output_uuid",))
    before = format_time(datetime.now(UTC) - timedelta(seconds=choice.older))
    ended = {
        outcome.request["uuid"]: outcome.request["container_uuid"]
        for outcome in selected.requests
        if outcome.request["state"] == "Final"
        and (not choice.older or outcome.request["created_at"] < before)
    }
    if not choice.never_reused:
        return ended
    sharing = await _sharing(session, ended.values())
    return {
        request_uuid: container_uuid
        for request_uuid, container_uuid in ended.items()
        if sharing[container_uuid or ""] <= 1
    }


async def _made_for(
    session: CliSession, requests: Mapping[str, str | None], choice: _Choice
) -> AsyncGenerator[Record]:
    """The collections that were made for these requests and that the options choose."""
    filters = [MADE, *([["properties.type", "=", "log"]] if choice.logs_only else [])]
    async with aclosing(
        session.api.pages("collections", filters=filters, select=_FIELDS, size=_PAGE)
    ) as pages:
        async for page in pages:
            for collection in page:
                if collection["properties"]["container_request"] not in requests:
                    continue
                is_named = kind_of(collection) == "output" and not (
                    collection["name"] or ""
                ).startswith(UNNAMED_OUTPUT)
                if choice.named or not is_named:
                    yield collection


@dataclass(frozen=True, slots=True)
class _Usage:
    live: set[str]
    """Hashes of collections that waiting and running containers mount."""
    mounted: set[str]
    """Hashes of collections that any container mounts or mounted."""
    awaited: set[str]
    """Requests whose outputs others wait for."""


async def _usage(session: CliSession) -> _Usage:
    use = _Usage(set(), set(), set())
    fields = ("mounts", "state", "container_image", "steps")
    async with aclosing(session.api.pages("containers", select=fields, size=_PAGE)) as pages:
        async for page in pages:
            for container in page:
                named = {
                    *mount_resolution.named_hashes(container["mounts"]),
                    *image_names(container["steps"]),
                }
                named.add(container["container_image"])
                use.mounted.update(named)
                if container["state"] in ("Queued", "Locked", "Running"):
                    use.live.update(named)
    filters = [["state", "=", "Committed"], ["container_uuid", "=", None]]
    async with aclosing(
        session.api.pages("container_requests", filters=filters, select=("mounts",), size=_PAGE)
    ) as pages:
        async for page in pages:
            for request in page:
                use.awaited.update(
                    source.request_uuid for source in mount_resolution.outputs(request["mounts"])
                )
                use.live.update(mount_resolution.named_hashes(request["mounts"]))
    return use


async def _sharing(session: CliSession, containers: Iterable[str | None]) -> Counter[str]:
    """Number of requests of each container."""
    distinct, counts = sorted({uuid for uuid in containers if uuid}), Counter[str]()
    for start in range(0, len(distinct), _MANIFESTS):
        some = [["container_uuid", "in", distinct[start : start + _MANIFESTS]]]
        async with aclosing(
            session.api.pages(
                "container_requests", filters=some, select=("container_uuid",), size=_PAGE
            )
        ) as pages:
            async for page in pages:
                counts.update(request["container_uuid"] for request in page)
    return counts


async def _blocks(session: CliSession, chosen: set[str]) -> tuple[set[str], set[str]]:
    """The blocks of the chosen collections, and of all other readable collections."""
    mine, others = set[str](), set[str]()
    if not chosen:
        return mine, others
    async with aclosing(manifests(session, ())) as every:
        async for collection in every:
            (mine if collection["uuid"] in chosen else others).update(
                blocks_of(collection["manifest_text"])
            )
    return mine, others


async def manifests(session: CliSession, filters: Sequence[Any]) -> AsyncGenerator[Record]:
    """The collections that match, with their manifests; a bar shows how many were read."""
    fields = (*_FIELDS, "owner_uuid", "file_count", "manifest_text")
    answer: Any = await session.api.request(
        "GET", "collections", params={"filters": [*filters], "limit": 0, "count": "exact"}
    )
    done = 0
    with display.progress("Collections", is_bytes=False) as report:
        async with aclosing(
            session.api.pages("collections", filters=filters, select=fields, size=_MANIFESTS)
        ) as pages:
            async for page in pages:
                for collection in page:
                    yield collection
                done += len(page)
                report(done, max(done, answer["items_available"]))


async def _trash(session: CliSession, plan: PruningPlan, choice: _Choice) -> None:
    deleted = [("collections", str(collection["uuid"])) for collection in plan.collections]
    if choice.requests:
        deleted += [("container_requests", uuid) for uuid in sorted(plan.requests)]
    with display.progress("Trash", is_bytes=False) as report:
        for number, (plural, uuid) in enumerate(deleted, start=1):
            await session.api.delete(plural, uuid)
            report(number, len(deleted))
