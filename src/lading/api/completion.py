"""The end of a container for its requests: another attempt or the state Final, and the costs.

`core.containers.attempts.retry` plans the retries, `core.containers.finalize` the collections that
a request keeps. The content of such a collection is that of existing collections, so that no block
is moved; a collection whose content is missing is not made. Requests that the container made are
cancelled; requests that depend on its requests are released or end too.

An interval of allocation (when a container held resources, and for which request) begins and ends
with each change of a container's state and of a request's state, priority or container
(`store.containers.intervals`); `docs/requests.md` describes the intervals. The cost of a request
that a container made is added to the `subrequests_cost` of that container.

Source: docs/spec/containers, sections Retry, Finalization, Dependencies and Cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from lading.api import learning, priorities, run_times
from lading.api.events import audit
from lading.api.metrics import METRICS
from lading.api.server.wait_statuses import STATUSES
from lading.api.services import ApiServices
from lading.api.unit import ChangeFollower, ChangeRequest, Effect, FailRequest, Mark, Unit
from lading.core.containers import finalize, request, request_phases
from lading.core.containers.attempts import retry
from lading.core.containers.attempts.retry_rules import RetryRules, read_container_policy
from lading.core.containers.constraints import Learning
from lading.core.containers.container import (
    FINAL,
    HELD,
    Container,
    ContainerState,
    has_succeeded,
)
from lading.core.containers.finalize import LOG_DIRECTORY, CollectionPlan, Keeps
from lading.core.containers.mounting import mount_resolution
from lading.core.containers.priority import Readiness
from lading.core.containers.request import ContainerRequest
from lading.core.data import manifest, placement
from lading.core.data.manifest_parts import are_apart, assemble
from lading.core.ids import Infix
from lading.core.quantities import later
from lading.core.records.attributes import distinct_name
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_types import COLLECTIONS, GROUPS
from lading.core.records.schema import Record
from lading.core.values import JsonObject
from lading.store import contents, permission_queries, permissions, records
from lading.store.containers import intervals, waiting
from lading.store.database import Transaction

_KEPT_IN: Final = {Keeps.LOG: "log_uuid", Keeps.OUTPUT: "output_uuid"}
_Contents: TypeAlias = Mapping[str, contents.StoredContent]


async def finish(unit: Unit, before: Container, after: Container) -> list[Effect]:
    """The changes that give the Committed requests of an ended container another container, or make
    them Final.
    """
    wanting, ended_before = await _requests_of(unit, after)
    rows = {subject.uuid: row for row, subject in wanting}
    left = {subject.uuid: subject for _, subject in wanting}
    trashed = await priorities.owners_in_trash(unit.tx, left.values(), unit.now)
    earlier = await _containers(
        unit.tx, (uuid for subject in left.values() for uuid in subject.attempted_container_uuids)
    )
    again = None
    if not has_succeeded(after):
        # Requests of projects in the trash get no further attempt.
        allowed = [subject for subject in left.values() if subject.owner_uuid not in trashed]
        again = await _plan_retry(unit, before, after, allowed, earlier)
    if unit.services.policy.learning is not Learning.OFF:
        await learning.learn(unit, after, left.values(), earlier)
    await run_times.learn(unit, after)
    effects: list[Effect] = []
    if again is not None:
        await unit.add_container(again.container.to_record())
        for planned in again.changes:
            subject = left.pop(planned.request.uuid)
            change = await _with_attempt_log(unit, subject, after, planned)
            effects.append(ChangeRequest(rows[subject.uuid], change))
    for subject in left.values():
        change = await make_final(unit, subject, after, reused=False)
        effects.append(ChangeRequest(rows[subject.uuid], change))
    for row, subject in ended_before:
        await _keep_log(unit, row, subject, after)
    await unit.services.features[STATUSES].forget(unit.tx, [after.uuid])
    if after.log is not None:
        # After the commit: until then readers take the log from the spool.
        unit.tx.after_commit(lambda: unit.services.access.spool.remove(after.uuid))
    return effects


async def _plan_retry(
    unit: Unit,
    before: Container,
    after: Container,
    subjects: Sequence[ContainerRequest],
    earlier: Mapping[str, Container],
) -> retry.Retry | None:
    """The next attempt for the requests of a container that gave no result; None if none gets
    one.
    """
    return retry.plan_retries(
        after,
        subjects,
        before=before,
        parents=await _containers(
            unit.tx, (subject.requesting_container_uuid for subject in subjects)
        ),
        earlier=earlier,
        uuid=unit.services.ids.new_uuid(CONTAINERS.infix),
        now=unit.now,
        policy=unit.services.policy,
        projects=await _project_rules(unit.tx, subjects),
    )


async def _project_rules(
    tx: Transaction, subjects: Iterable[ContainerRequest]
) -> dict[str, list[RetryRules]]:
    """The rules for retries of the owner of each request and of the projects above it, by owner."""
    rules_by_owner: dict[str, list[RetryRules]] = {}
    for owner in {subject.owner_uuid for subject in subjects}:
        above = await permission_queries.owners_above(tx, owner)
        rows = {row["uuid"]: row for row in await records.among(tx, GROUPS, "uuid", above)}
        policies = [rows[uuid]["container_policy"] for uuid in above if uuid in rows]
        rules_by_owner[owner] = [read_container_policy(policy) for policy in policies if policy]
    return rules_by_owner


async def make_final(
    unit: Unit, subject: ContainerRequest, container: Container | None, *, reused: bool
) -> request.RequestChange:
    """The change that makes a request Final, not stored yet: its collections are made, and the
    container that made the request is charged.
    """
    parent = None
    if subject.requesting_container_uuid is not None:
        row = await unit.container(subject.requesting_container_uuid)
        parent = Container.from_record(row) if row else None
    keeps = not await _is_closed(unit, subject)
    end = finalize.finalize(
        subject, container, now=unit.now, parent=parent, reused=reused, keep_collections=keeps
    )
    attributes: JsonObject = {}
    plans = finalize.retained(end.collections, now=unit.now, policy=unit.services.policy)
    uuids = await keep(unit, plans)
    for plan, uuid in zip(plans, uuids, strict=True):
        if uuid is not None and plan.keeps in _KEPT_IN:
            attributes[_KEPT_IN[plan.keeps]] = uuid
    if end.parent_uuid is not None and parent is not None:
        await charge(unit, end.parent_uuid, parent.subrequests_cost + end.parent_cost)
    return request.with_values(end.change, attributes) if attributes else end.change


async def refresh_logs(unit: Unit, container: Container) -> None:
    """Bring the log collections of a running container's requests up to date."""
    for row, subject in await unit.committed(container.uuid):
        await _keep_log(unit, row, subject, container)


async def _keep_log(
    unit: Unit, row: Record, subject: ContainerRequest, container: Container
) -> None:
    """Bring the log collection of one request up to date."""
    if await _is_closed(unit, subject):
        return
    plan = finalize.refresh_log(subject, container, now=unit.now)
    uuid = await keep_one(unit, plan)
    if uuid is not None and uuid != subject.log_uuid:
        await unit.write_request(row, {"log_uuid": uuid}, expected={})


async def _requests_of(
    unit: Unit, container: Container
) -> tuple[list[tuple[Record, ContainerRequest]], list[tuple[Record, ContainerRequest]]]:
    """The Committed requests of a container that has just ended, and those that users have made
    Final while it ran: they have no other way to its log.
    """
    wanting, ended = [], []
    for row in await records.matching(unit.tx, REQUESTS, container_uuid=container.uuid):
        subject = ContainerRequest.from_record(row)
        if subject.state is request_phases.RequestState.COMMITTED:
            wanting.append((row, subject))
        elif subject.state is request_phases.RequestState.FINAL:
            ended.append((row, subject))
    return wanting, ended


async def _release_dependents(unit: Unit, ended: Iterable[str]) -> list[Effect]:
    """Let the requests that depend on ended or deleted requests run; the changes of the others."""
    concerned: dict[str, None] = {}
    for request_uuid in ended:
        dependents = await waiting.dependents(unit.tx, request_uuid)
        ends_them = bool(dependents) and await priorities.is_broken(unit.tx, request_uuid)
        for uuid in dependents:
            # An end that breaks nothing changes nothing for a request that waits for others, too.
            # Each end of a thousand that one merge waits for would else read the thousand.
            if ends_them or not await waiting.waits_on(unit.tx, uuid):
                concerned[uuid] = None
    effects = [await _release(unit, uuid) for uuid in concerned]
    return [effect for effect in effects if effect is not None]


async def _release(unit: Unit, uuid: str) -> Effect | None:
    """Let a request run if none of its dependencies holds it any more; the change that ends it, or
    that lets the server find its container.
    """
    row = await records.get(unit.tx, REQUESTS, uuid)
    if row is None or row["state"] != request_phases.RequestState.COMMITTED:
        await waiting.unwatch(unit.tx, uuid)
        return None
    subject = ContainerRequest.from_record(row)
    # Its times do not matter here, only the requests that it depends on.
    timeless = replace(subject, expires_at=None, start_after=None, retry_after=None, max_parallel=0)
    reader = subject.committed_by_uuid or subject.owner_uuid
    judgement = await priorities.judge_one(unit.tx, timeless, now=unit.now, reader=reader)
    if judgement.readiness is Readiness.READY:
        # Before priorities are computed: only then it may have its turn in a group.
        await waiting.unwatch(unit.tx, uuid)
    if judgement.readiness is Readiness.BROKEN:
        return FailRequest(row, judgement.sentence)
    if row["container_uuid"] is not None:
        unit.stale([row["container_uuid"]])
    elif judgement.readiness is Readiness.READY and mount_resolution.outputs(subject.mounts):
        # Its inputs are known now, so the server can find its container.
        return ChangeRequest(row, request.defer(subject))
    return None


async def _with_attempt_log(
    unit: Unit, subject: ContainerRequest, ended: Container, change: request.RequestChange
) -> request.RequestChange:
    """The change to a further attempt, with the log of the attempt that ended."""
    if await _is_closed(unit, subject):
        return change
    plan = finalize.attempt_log(subject, ended, now=unit.now)
    uuid = await keep_one(unit, plan)
    return request.with_values(change, {"log_uuid": uuid}) if uuid else change


async def _is_closed(unit: Unit, subject: ContainerRequest) -> bool:
    """Whether the owner of a request is a frozen project or one in the trash, in which no
    collection is made.
    """
    owner = subject.owner_uuid
    found = (await permissions.flags_by_group(unit.tx, [owner])).get(owner)
    return found is not None and (
        found.frozen or (found.trash_at is not None and found.trash_at <= unit.now)
    )


async def _containers(tx: Transaction, uuids: Iterable[str | None]) -> dict[str, Container]:
    """Containers by uuid."""
    wanted = sorted({uuid for uuid in uuids if uuid})
    rows = await records.among(tx, CONTAINERS, "uuid", wanted) if wanted else []
    return {row["uuid"]: Container.from_record(row) for row in rows}


async def keep(unit: Unit, plans: Sequence[CollectionPlan]) -> list[str | None]:
    """Make or renew the planned collections; the uuid of each, or None when its content is not
    there.
    """
    tx, services, user_uuid = unit.tx, unit.services, unit.user_uuid
    fresh = {record["portable_data_hash"]: _fresh(record) for record in unit.results}
    hashes = dict.fromkeys(
        piece.pdh for plan in plans for piece in plan.pieces if piece.pdh not in fresh
    )
    old = {
        row["uuid"]: row for row in await records.among(tx, COLLECTIONS, "uuid", _renewed(plans))
    }
    names = dict.fromkeys((plan.owner_uuid, plan.name) for plan in plans if plan.uuid not in old)
    stored_contents, taken = await contents.for_keeping(tx, hashes, names)
    stored_contents |= fresh
    uuids: list[str | None] = []
    now = services.clock.now()
    for plan in plans:
        former = old.get(plan.uuid or "")
        content = _content(plan, stored_contents, former["manifest_text"] if former else "")
        if content is None:
            uuids.append(None)
        elif former is not None:
            # The pieces replace the former content, or are added to it.
            before = [former["storage_classes_confirmed"]] if former["manifest_text"] else []
            content |= _confirmation(plan, stored_contents, now, *before)
            uuids.append(await _renew(tx, services, former, content, user_uuid))
        else:
            content |= _confirmation(plan, stored_contents, now)
            uuids.append(await _make(tx, services, plan, content, taken, user_uuid, now))
            unit.has_kept(content["portable_data_hash"])
    return uuids


def _fresh(record: Record) -> contents.StoredContent:
    """The content of the record of a collection."""
    return contents.StoredContent(
        record["manifest_text"],
        record["file_count"],
        record["file_size_total"],
        tuple(record["storage_classes_confirmed"]),
    )


async def keep_one(unit: Unit, plan: CollectionPlan | None) -> str | None:
    """Make or renew a collection, if one is planned; its uuid, or None when its content is not
    there.
    """
    return (await keep(unit, [plan]))[0] if plan is not None else None


def _renewed(plans: Sequence[CollectionPlan]) -> list[str]:
    return [plan.uuid for plan in plans if plan.uuid]


async def _renew(
    tx: Transaction, services: ApiServices, old: Record, content: Record, user_uuid: str
) -> str:
    if old["portable_data_hash"] != content["portable_data_hash"]:
        changes = {
            **content,
            "modified_at": services.clock.now(),
            "modified_by_user_uuid": user_uuid,
        }
        await records.change(tx, COLLECTIONS, old["uuid"], changes, expected={})
        await audit.changed(tx, services, COLLECTIONS, old, {**old, **changes}, user_uuid=user_uuid)
    return str(old["uuid"])


async def _make(
    tx: Transaction,
    services: ApiServices,
    plan: CollectionPlan,
    content: Record,
    taken: set[tuple[str, str]],
    user_uuid: str,
    now: str,
) -> str:
    uuid = services.ids.new_uuid(Infix.COLLECTION)
    free = (plan.owner_uuid, plan.name) not in taken
    record: Record = {
        **COLLECTIONS.defaults,
        **content,
        "uuid": uuid,
        "current_version_uuid": uuid,
        "owner_uuid": plan.owner_uuid,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": user_uuid,
        "name": plan.name if free else distinct_name(plan.name, uuid),
        "properties": plan.properties,
        "storage_classes_desired": plan.storage_classes or ["default"],
    }
    # The names of all plans are looked up with one query; those made here are added.
    taken.add((plan.owner_uuid, plan.name))
    if plan.trash_at is not None:
        # A trashed output is kept as long as signatures for its blocks are valid.
        delete_at = max(plan.trash_at, later(now, services.config.Collections.BlobSigningTTL))
        record |= {"trash_at": plan.trash_at, "delete_at": delete_at}
    await records.add(tx, COLLECTIONS, record)
    await audit.created(tx, services, COLLECTIONS, record, user_uuid=user_uuid)
    return uuid


def _confirmation(
    plan: CollectionPlan, stored_contents: _Contents, now: str, *before: Sequence[str]
) -> Record:
    """The confirmed storage classes of a planned collection: those of all its pieces."""
    desired = plan.storage_classes or ["default"]
    pieces = [stored_contents[piece.pdh].confirmed for piece in plan.pieces]
    return placement.confirmation(placement.common(desired, [*pieces, *before]), now)


def _content(plan: CollectionPlan, stored_contents: _Contents, existing: str) -> Record | None:
    if any(piece.pdh not in stored_contents for piece in plan.pieces):
        return None
    pieces = [(stored_contents[piece.pdh].manifest_text, piece.directory) for piece in plan.pieces]
    # The content of one collection, unchanged: its text and hash are known, nothing is parsed.
    if not existing and len(pieces) == 1 and not pieces[0][1]:
        manifest_text, files, size, _ = stored_contents[plan.pieces[0].pdh]
        return {
            "manifest_text": manifest_text,
            "portable_data_hash": plan.pieces[0].pdh,
            "file_count": files,
            "file_size_total": size,
        }
    manifest_text = assemble(existing, pieces, keep=LOG_DIRECTORY)
    # Pieces in directories of their own cannot overlap: their counts add up.
    if not existing and are_apart(pieces, below=LOG_DIRECTORY):
        parts = [stored_contents[piece.pdh] for piece in plan.pieces]
        files, size = manifest.check_total(
            sum(content.files for content in parts), sum(content.size for content in parts)
        )
    else:
        files, size = manifest.counts(manifest_text)
    return {
        "manifest_text": manifest_text,
        "portable_data_hash": manifest.portable_data_hash(manifest_text),
        "file_count": files,
        "file_size_total": size,
    }


class Endings(ChangeFollower):
    """Keeps intervals of allocation, counts changes of states, and lets the dependents of requests
    that ended go on.
    """

    of_requests = ("state", "priority", "container_uuid")
    of_containers = ("state", "priority")
    works_off = Mark.ENDED

    async def request_changed(self, unit: Unit, old: Record, new: Record) -> None:
        """End and begin intervals after a request's change or creation."""
        former = old.get("container_uuid")
        # All intervals of a container ended with it.
        if (
            former
            and former not in unit.over
            and old["state"] == request_phases.RequestState.COMMITTED
        ):
            await intervals.end_intervals(unit.tx, former, unit.now, request_uuid=new["uuid"])
        uuid = new["container_uuid"]
        # A container that was made in this transaction is Queued: it holds nothing, and need not
        # be read.
        if (
            uuid is None
            or uuid in unit.created
            or new["state"] != request_phases.RequestState.COMMITTED
        ):
            return
        container = await unit.container(uuid)
        if container is not None and container["state"] in HELD:
            interval = intervals.Interval(
                request_uuid=new["uuid"],
                user_uuid=new["committed_by_uuid"] or new["owner_uuid"],
                priority=new["priority"] or 0,
                state=container["state"],
                started_at=unit.now,
            )
            await intervals.begin_interval(unit.tx, uuid, interval)

    async def container_changed(self, unit: Unit, old: Record, new: Record) -> None:
        """End and begin intervals after a container's change, and count it."""
        if not old:
            return
        if old["priority"] != new["priority"] == 0 and old["state"] in HELD:
            # One whose dispatcher's token has ended is to be ended by the timers.
            unit.tx.after_commit(unit.services.events.wakeups.wake)
        if new["state"] == old["state"]:
            return
        metrics, now = unit.services.features[METRICS], unit.now
        unit.tx.after_commit(lambda: metrics.note_transition(old, new, now))
        if old["state"] in HELD:
            ended = new["finished_at"] if new["state"] in FINAL else unit.now
            await intervals.end_intervals(unit.tx, new["uuid"], ended)
        if new["state"] in HELD:
            await intervals.begin_intervals(unit.tx, new["uuid"], new["state"], unit.now)

    async def settle(self, unit: Unit) -> Sequence[Effect]:
        """Release or end the requests that depend on requests that ended or were deleted."""
        return await _release_dependents(unit, unit.take(Mark.ENDED))


async def end_request(unit: Unit, row: Record) -> None:
    """End the interval of a request that was deleted."""
    if row["container_uuid"] is not None:
        await intervals.end_intervals(
            unit.tx, row["container_uuid"], unit.now, request_uuid=row["uuid"]
        )


async def charge_parent(unit: Unit, subject: ContainerRequest) -> None:
    """Charge a request that ends before its container to the container that made the request, while
    the latter runs.
    """
    if subject.requesting_container_uuid is not None and subject.cumulative_cost > 0:
        row = await unit.container(subject.requesting_container_uuid)
        if row is not None and row["state"] == ContainerState.RUNNING:
            await charge(unit, row["uuid"], row["subrequests_cost"] + subject.cumulative_cost)


async def charge(unit: Unit, container_uuid: str, cost: float) -> None:
    """Set the cost of the requests that a container made."""
    row = await unit.container(container_uuid)
    if row is not None:
        await unit.write_container(row, {"subrequests_cost": cost}, expected={})
