"""`lading admin volumes`, `gc` and `scrub`: maintenance of the block store on its own machine.

They work on the data directory itself, also while a server uses it: the lock of `wiring.upkeep`
makes that safe.
"""

from __future__ import annotations

import os
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lading.cli import display
from lading.cli.interruption import run_in_loop
from lading.client.servers.environment import default_data_directory

if TYPE_CHECKING:
    from lading.blobs.collector import CollectorResult, Look
    from lading.blobs.scrubber import Damage, Findings
    from lading.blobs.volume_set import VolumeMount
    from lading.wiring.directory import DataDirectory
    from lading.wiring.upkeep import Storage, UpkeepState

_Answer = TypeVar("_Answer")
# Steps, lost blocks and failures that are listed without --all.
_SHOWN = 30
DATA = click.option(
    "--data",
    envvar="LADING_DATA",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory.  "
    "[default: $LADING_DATA, which the 'env' of 'lading up' sets, else as 'lading up']",
)


@click.command()
@DATA
@click.option(
    "--count/--no-count", default=True, help="Count the blocks, by going through every index."
)
@display.with_json
def volumes(data: Path | None, count: bool) -> display.Output:
    """Show the volumes: free space, blocks, trash, faults; and the results of the last gc and
    scrub.
    """
    rows, state = _run(_volumes(directory(data), count))
    yield {"volumes": rows, "balance": state.balance, "scrub": state.scrub}
    headings = (
        "VOLUME",
        "DRIVER",
        "STATE",
        "USED",
        "FREE",
        "BLOCKS",
        "SIZE",
        "TRASH",
        "COPIES",
        "CLASSES",
    )
    display.table(headings, (_volume_row(row) for row in rows))
    for row in rows:
        if row["fault"]:
            display.note(f"{row['uuid']}: {row['fault']}")
    click.echo(_last(state))


@click.command()
@DATA
@click.option("--dry-run", is_flag=True, help="Only show the planned actions.")
@click.option("--all", "show_all", is_flag=True, help="List every step.")
@display.with_json
def gc(data: Path | None, dry_run: bool, show_all: bool) -> display.Output:
    """Move blocks that no collection names to the trash, and make the copies that collections need.

    A block goes into the trash of its volume when its last signature has ended
    (Collections.BlobSigningTTL), and is deleted after Collections.BlobTrashLifetime in the trash.
    Until then it is restored when it is read or named again.
    """
    look, outcome = _run(_gc(directory(data), dry_run=dry_run))
    is_well = not (look.plan.lost or (outcome is not None and outcome.failures))
    more = {} if outcome is None else _outcome_json(outcome)
    document = {**_as_json(look), "dry_run": dry_run, **more}
    yield display.Conclusion(document, 0 if is_well else 1)
    _show_plan(look, _SHOWN if not show_all else len(look.plan.steps))
    _show_outcome(look, outcome)


@click.command()
@DATA
@click.option("--volume", default="", help="Check one volume only; its uuid.")
@click.option(
    "--rate",
    metavar="SIZE",
    help="Most bytes a second, such as 50MiB.  [default: no limit]",
)
@display.with_json
def scrub(data: Path | None, volume: str, rate: str | None) -> display.Output:
    """Read every block, repair damaged ones from other volumes, and name the files that have lost
    bytes.
    """
    findings = _run(_scrub(directory(data), volume, rate))
    yield display.Conclusion(findings, 1 if findings.damaged or findings.failures else 0)
    if findings.damaged:
        display.table(
            ("BLOCK", "SIZE", "VOLUME", "DONE", "HITS"),
            (_damage_row(block) for block in findings.damaged),
        )
    for failure in findings.failures:
        display.note(failure)
    click.echo(
        f"lading: {_count(findings.blocks, 'block')}, {display.size(findings.bytes)} read;"
        f" {len(findings.damaged)} damaged"
    )


def _run(work: Coroutine[Any, Any, _Answer]) -> _Answer:
    return run_in_loop(work)


def directory(data: Path | None) -> DataDirectory:
    """The data directory that `--data` names, else that of this user."""
    from lading.wiring.directory import DataDirectory

    return DataDirectory((data or default_data_directory(os.environ)).absolute())


async def _volumes(
    directory: DataDirectory, count: bool
) -> tuple[list[dict[str, Any]], UpkeepState]:
    from lading.wiring.upkeep import open_storage, read_state

    async with open_storage(directory) as storage:
        rows = [await _look_at(storage, mount, count) for mount in storage.mounts.all]
    return rows, read_state(directory)


async def _look_at(storage: Storage, mount: VolumeMount, count: bool) -> dict[str, Any]:
    from lading.core.errors import Unavailable

    row: dict[str, Any] = {
        "uuid": mount.uuid,
        "driver": mount.driver,
        "device": mount.device,
        "read_only": mount.is_read_only,
        "replication": mount.copies,
        "storage_classes": sorted(mount.classes),
        "fault": "",
    }
    try:
        space = await storage.mounts.space(mount)
        row |= {"total": space.total, "free": space.free}
        if count:
            sizes = [stored.size async for stored in mount.volume.index()]
            thrown = [stored.size async for stored in mount.volume.discarded()]
            row |= {
                "blocks": len(sizes),
                "bytes": sum(sizes),
                "trash_blocks": len(thrown),
                "trash_bytes": sum(thrown),
            }
    except Unavailable as error:
        row["fault"] = error.message
    return row


def _volume_row(row: dict[str, Any]) -> Sequence[str]:
    state = "failed" if row["fault"] else "read-only" if row["read_only"] else "ok"
    total, free = row.get("total"), row.get("free")
    used = f"{100 * (1 - free / total):.0f} %" if total and free is not None else ""
    trash = (
        f"{row['trash_blocks']} ({display.size(row['trash_bytes'])})"
        if row.get("trash_blocks")
        else ""
    )
    return (
        row["uuid"],
        row["driver"],
        state,
        used,
        display.size(free) if total and free is not None else "",
        str(row.get("blocks", "")),
        display.size(row["bytes"]) if "bytes" in row else "",
        trash,
        "all" if row["replication"] is None else str(row["replication"]),
        ", ".join(row["storage_classes"]),
    )


def _last(state: UpkeepState) -> str:
    now, sentences = time.time(), []
    balance, scrub = state.balance, state.scrub
    if balance.at:
        lost = f", {_count(len(balance.lost), 'block')} lost" if balance.lost else ""
        sentences.append(
            f"gc {display.duration(now - balance.at)} ago: {_done(balance.done or {})}{lost}"
        )
    if scrub.ended:
        damaged = len(scrub.damaged or ())
        sentences.append(
            f"scrub {display.duration(now - scrub.ended)} ago: {_count(scrub.blocks, 'block')}, "
            f"{damaged} damaged"
        )
    elif scrub.began:
        sentences.append(
            f"scrub under way: {_count(scrub.blocks, 'block')} read, "
            f"{len(scrub.damaged or ())} damaged"
        )
    return f"lading: {'; '.join(sentences)}" if sentences else "lading: no gc or scrub was done yet"


async def _gc(directory: DataDirectory, *, dry_run: bool) -> tuple[Look, CollectorResult | None]:
    from lading.wiring.upkeep import alone, open_storage, write_balance

    async with open_storage(directory) as storage:
        with (
            display.steps("Garbage collection") as report,
            alone(directory, "gc"),
            # One run at a time on this machine, `lading up` included.
        ):
            collector = storage.collector()
            look = await collector.look(progress=report)
            if dry_run:
                return look, None
            outcome = await collector.carry_out(look, progress=report)
            write_balance(directory, look, outcome)
    return look, outcome


def _show_plan(look: Look, limit: int) -> None:
    steps = look.plan.steps[:limit]
    if steps:
        display.table(
            ("STEP", "BLOCK", "SIZE", "VOLUME", "WHY"),
            (
                (step.kind, step.hash, display.size(step.size), step.volume, step.reason)
                for step in steps
            ),
        )
    if len(look.plan.steps) > limit:
        click.echo(f"and {len(look.plan.steps) - limit} more; --all lists them")
    for hash in look.plan.lost[:limit]:
        display.note(f"block {hash}: a collection names it, and no volume has it")


def _show_outcome(look: Look, outcome: CollectorResult | None) -> None:
    findings = (
        f"{_count(look.blocks, 'block')}, {display.size(look.bytes)}, "
        f"{look.named} named by collections"
    )
    sizes: dict[str, int] = {}
    for step in look.plan.steps:
        sizes[step.kind] = sizes.get(step.kind, 0) + 1
    if outcome is None:
        click.echo(f"lading: {findings}; would do: {_done(sizes)}; nothing was changed")
        return
    for failure in outcome.failures[:_SHOWN]:
        display.note(failure)
    left = f"; {outcome.left} left alone, as they were used meanwhile" if outcome.left else ""
    lacking = f"; {len(look.plan.lacking)} lack copies" if look.plan.lacking else ""
    recorded = (
        f"; copies of {_count(outcome.recorded, 'collection')} recorded" if outcome.recorded else ""
    )
    click.echo(f"lading: {findings}; done: {_done(outcome.done)}{recorded}{left}{lacking}")


def _as_json(look: Look) -> dict[str, Any]:
    return {
        "blocks": look.blocks,
        "bytes": look.bytes,
        "named": look.named,
        "steps": look.plan.steps,
        "lost": look.plan.lost,
        "lacking": look.plan.lacking,
    }


def _outcome_json(outcome: CollectorResult) -> dict[str, Any]:
    return {"done": dict(outcome.done), "left": outcome.left, "failures": outcome.failures}


def _done(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.items() if count) or "nothing"


async def _scrub(directory: DataDirectory, volume: str, rate: str | None) -> Findings:
    from lading.core.quantities import parse_size
    from lading.wiring.upkeep import alone, open_storage, write_scrub

    async with open_storage(directory) as storage:
        if volume:
            # Raises NotFound before anything is read.
            storage.mounts.find(volume)
        total = 0
        for mount in storage.mounts.all:
            if volume in ("", mount.uuid):
                total += sum([stored.size async for stored in mount.volume.index()])
        began = time.time()
        with display.progress("Reading") as report, alone(directory, "scrub"):

            async def show(findings: Findings) -> None:
                report(findings.bytes, total)

            scrubber = storage.scrubber(rate=parse_size(rate) if rate else 0)
            findings = await scrubber.run(volume=volume, progress=show)
            # A scrub of one volume does not count as a scrub of the store.
            if not volume:
                write_scrub(directory, findings, began=began, ended=time.time())
    return findings


def _damage_row(damage: Damage) -> Sequence[str]:
    hits = [f"{hit.name or hit.uuid}/{path}" for hit in damage.hits for path in hit.files]
    more = f" and {len(hits) - 3} more" if len(hits) > 3 else ""
    return (
        damage.hash,
        display.size(damage.size),
        damage.volume,
        damage.remedy,
        ", ".join(hits[:3]) + more,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
