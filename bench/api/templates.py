"""Rows of the database as the product would have stored them, made many at a time.

One record of each kind is made by the product's own code for each of the inputs; rows differ from
it in their uuids, times and owners, and in the name of their sample, which is put in for MARK. So a
bulk of rows costs microseconds each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from bench.api.sample import IMAGE, INPUTS, MARK, PROJECTS, REFERENCE, USERS, Site, body, name, pdh
from lading.core.containers import recipe, recipe_resolution, request, request_phases
from lading.core.containers.constraints import Policy
from lading.core.containers.container import ContainerState
from lading.core.containers.recipe_resolution import RequestFacts
from lading.core.ids import Infix
from lading.core.quantities import format_time
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_types import COLLECTIONS, LOGS
from lading.core.records.schema import Record, RecordType
from lading.core.values import canonical
from lading.store import records
from lading.store.database import Deferred, Dialect, Row, Value
from lading.store.databases.seal import Seal
from lading.store.databases.sqlite import SqliteDialect

FAILED: Final = 33
"""One container of so many failed."""
OUTPUTS: Final = 10
"""So many containers have the same output."""
_EPOCH: Final = datetime(2025, 1, 1, tzinfo=UTC)
_APART: Final = timedelta(seconds=25)


class Recorder:
    """Takes the place of a transaction, to see how a record is stored."""

    # The values of an insert are the same in every database.
    dialect: Dialect = SqliteDialect()

    def __init__(self, seal: Seal) -> None:
        self.seal = seal
        self.values: Sequence[Value] = ()

    async def fetch(
        self,
        sql: str,  # noqa: ARG002
        values: Sequence[Value] = (),
        *,
        most: int = 0,  # noqa: ARG002
        wide: Sequence[str] = (),  # noqa: ARG002
    ) -> list[Row]:
        """Remember the values of a row."""
        self.values = tuple(values)
        return [(0,)]

    async def execute(
        self,
        sql: str,  # noqa: ARG002
        values: Sequence[Value] = (),
        *,
        is_long: bool = False,  # noqa: ARG002
    ) -> int:
        """Remember the values of a row."""
        self.values = tuple(values)
        return 1

    async def insert_all(
        self,
        table: str,  # noqa: ARG002
        columns: Sequence[str],  # noqa: ARG002
        rows: Sequence[Sequence[Value]],
    ) -> int:
        """Remember the values of the last row."""
        self.values = tuple(rows[-1])
        return 0

    async def defer(self, change: Deferred) -> int:
        """Remember the values of a row."""
        return await self.execute(change.sql, change.values)

    def announce(self) -> None:
        """Nobody listens."""

    def after_commit(self, action: Callable[[], None]) -> None:
        """Nothing is committed."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """Rows of one table."""

    kind: RecordType
    rows: Iterator[Row]
    count: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Their columns: all but the number that the database gives."""
        return columns(self.kind)


def columns(kind: RecordType) -> tuple[str, ...]:
    """The columns that a row is stored with."""
    return tuple(one.name for one in kind.columns if not (kind.numbered and one.name == "id"))


def usable(number: int) -> bool:
    """Whether a container ended well, so that it can be reused."""
    return number % FAILED != 0


def container_uuid(site: Site, number: int) -> str:
    """The container of a filled request."""
    return site.uuid_of(moment(number), Infix.CONTAINER, number)


def request_uuid(site: Site, number: int) -> str:
    """A filled request."""
    return site.uuid_of(moment(number), Infix.REQUEST, number)


def collection_uuid(site: Site, number: int, *what: object) -> str:
    """The log or output of a filled request."""
    return site.uuid_of(moment(number + 40), Infix.COLLECTION, *what)


def moment(number: int) -> datetime:
    """When a filled request was made."""
    return _EPOCH + number * _APART


def created_at(number: int) -> str:
    """The timestamp of that moment."""
    return format_time(moment(number))


async def bulks(site: Site, seal: Seal, count: int) -> list[Bulk]:
    """All rows of `count` finished requests: themselves, their containers, outputs, logs, and some
    of the trail.
    """
    maker = _Maker(site, seal)
    made = [await maker.template(reads) for reads in range(INPUTS)]
    numbers = range(count)
    kept = await maker.collection(properties={"type": "log"}, name=MARK)
    trail = await maker.trail()
    return [
        Bulk(
            REQUESTS, (maker.request(number, made[number % INPUTS][0]) for number in numbers), count
        ),
        Bulk(
            CONTAINERS,
            (maker.container(number, *made[number % INPUTS][1:]) for number in numbers),
            count,
        ),
        Bulk(
            COLLECTIONS,
            maker.collections(kept, count),
            count + len(range(0, count, OUTPUTS)) + INPUTS + 2,
        ),
        Bulk(
            LOGS,
            (maker.event(number, trail) for number in range(count - count // 5, count)),
            count // 5,
        ),
    ]


_Template = dict[str, Value]


class _Maker:
    def __init__(self, site: Site, seal: Seal) -> None:
        self.site = site
        self.recorder = Recorder(seal)

    async def stored(self, kind: RecordType, record: Record) -> _Template:
        """How a record is stored, by column."""
        await records.insert(self.recorder, kind, record)
        return dict(zip(columns(kind), self.recorder.values, strict=True))

    async def template(self, reads: int) -> tuple[_Template, _Template, str, str]:
        """A request, its container, and the texts that the two keys of that are hashes of."""
        site, now = self.site, created_at(0)
        change = request.create(
            body(MARK, reads), uuid=site.uuid(Infix.REQUEST, "template"),
            owner_uuid=site.project(0), user_uuid=site.user(1), now=now, policy=Policy(),
        )  # fmt: skip
        hashes: Mapping[str, str | None] = {
            REFERENCE: REFERENCE,
            pdh("reads", reads): pdh("reads", reads),
        }
        facts = RequestFacts(image_pdh=IMAGE, hashes=hashes, user_uuid=site.user(1))
        made_of = recipe_resolution.resolve(change.request, facts, policy=Policy())
        container = recipe.new_container(
            made_of, uuid=site.uuid(Infix.CONTAINER, "template"), now=now
        )
        ended = replace(
            container,
            state=ContainerState.COMPLETE,
            exit_code=0,
            lock_count=1,
            cost=0.25,
            started_at=now,
            finished_at=now,
        )
        final = replace(
            change.request,
            state=request_phases.RequestState.FINAL,
            container_count=1,
            cumulative_cost=0.25,
        )
        owned = {
            "owner_uuid": f"{site.cluster}-tpzed-000000000000000",
            "created_at": now,
            "modified_at": now,
        }
        values = recipe.compared(made_of)
        sizes = {
            key: value for key, value in recipe_sizes(values).items() if key not in ("ram", "vcpus")
        }
        return (
            await self.stored(REQUESTS, {**final.to_record(), "modified_at": now}),
            await self.stored(CONTAINERS, {**ended.to_record(), **owned}),
            canonical(values),
            canonical({**values, "runtime_constraints": sizes}),
        )

    async def collection(self, **more: object) -> _Template:
        """A collection with one small file."""
        text = f". {pdh('block')[:32]}+20000 0:20000:{MARK}.txt\n"
        return await self.stored(
            COLLECTIONS,
            {
                **COLLECTIONS.defaults,
                "manifest_text": text,
                "file_count": 1,
                "file_size_total": 20000,
                **more,
            },
        )

    async def trail(self) -> _Template:
        """The end of a request as a row of the trail."""
        sides = {"state": "Final", "name": f"align {MARK}", "requesting_container_uuid": None}
        properties = {"old_attributes": {**sides, "state": "Committed"}, "new_attributes": sides}
        return await self.stored(
            LOGS, {"event_type": "update", "summary": MARK, "properties": properties}
        )

    def request(self, number: int, template: _Template) -> Row:
        site, ended = self.site, created_at(number + 40)
        owner = site.user(1 + number % (USERS - 1))
        row = template | {
            "uuid": request_uuid(site, number),
            "owner_uuid": site.project(number % PROJECTS),
            "created_at": created_at(number),
            "modified_at": ended,
            "modified_by_user_uuid": owner,
            "committed_by_uuid": owner,
            "container_uuid": container_uuid(site, number),
            "log_uuid": collection_uuid(site, number, "log", number),
            "output_uuid": collection_uuid(
                site, number // OUTPUTS * OUTPUTS, "output", number // OUTPUTS
            ),
        }
        return _named(row, number)

    def container(self, number: int, template: _Template, compared: str, broad: str) -> Row:
        sample, ended = name(number), created_at(number + 40)
        row = template | {
            "uuid": container_uuid(self.site, number),
            "created_at": created_at(number),
            "modified_at": ended,
            "started_at": created_at(number + 1),
            "finished_at": ended,
            "exit_code": 0 if usable(number) else 1,
            "log": pdh("log", number),
            "output": pdh("output", number // OUTPUTS),
            "reuse_key": hashlib.sha256(compared.replace(MARK, sample).encode()).hexdigest(),
            "broad_key": hashlib.sha256(broad.replace(MARK, sample).encode()).hexdigest(),
        }
        return _named(row, number)

    def collections(self, template: _Template, count: int) -> Iterator[Row]:
        for number in range(count):
            yield self._kept(number, template, "log", number)
        for number in range(0, count, OUTPUTS):
            yield self._kept(number, template, "output", number // OUTPUTS)
        for number in range(INPUTS):
            yield self._kept(number, template, "reads", number)
        for number, what in enumerate(("image", "reference")):
            yield self._kept(number, template, what)

    def _kept(self, number: int, template: _Template, *what: object) -> Row:
        uuid, made = collection_uuid(self.site, number, *what), created_at(number + 40)
        row = template | {
            "uuid": uuid,
            "current_version_uuid": uuid,
            "owner_uuid": self.site.project(
                number % PROJECTS if what[0] in ("log", "output") else 0
            ),
            "created_at": made,
            "modified_at": made,
            "name": f"{what[0]} of {MARK}",
            "portable_data_hash": pdh(*what),
        }
        return _named(row, number)

    def event(self, number: int, template: _Template) -> Row:
        ended, user = created_at(number + 40), self.site.user(1 + number % (USERS - 1))
        row = template | {
            "uuid": self.site.uuid_of(moment(number + 40), Infix.LOG, number),
            "owner_uuid": user,
            "created_at": ended,
            "modified_at": ended,
            "event_at": ended,
            "object_uuid": request_uuid(self.site, number),
            "object_owner_uuid": self.site.project(number % PROJECTS),
        }
        return _named(row, number)


def recipe_sizes(values: Record) -> Record:
    """The sizes among what is compared."""
    sizes: Record = values["runtime_constraints"]
    return sizes


def _named(row: _Template, number: int) -> Row:
    sample = name(number)
    return tuple(
        value.replace(MARK, sample) if isinstance(value, str) else value for value in row.values()
    )
