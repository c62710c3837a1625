"""Further columns of a list of requests, which its reader chooses, and its rows grouped by run.

The choice stays in the address. A list without further columns reads nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from lading.client.api import Record
from lading.core.containers.gpu_words import described
from lading.core.errors import LadingError
from lading.core.ids import Infix, infix_of, is_pdh
from lading.core.image_names import REPO_TAG
from lading.core.quantities import size
from lading.core.runs import attempts
from lading.web.requests.rows import RequestRow
from lading.web.runs.rows import names_of
from lading.web.visit import Visit

_SHORT: Final = 12
"""Digits of the hash of an image without a name."""
LABELS: Final[Mapping[str, str]] = {
    "user": "User",
    "project": "Project",
    "image": "Image",
    "cpus": "CPUs",
    "memory": "Memory",
    "gpus": "GPUs",
}
"""The columns by their names in addresses, in their order."""
BY_RUN: Final = "run"
_SELECT: Final = (
    "uuid", "owner_uuid", "committed_by_uuid", "modified_by_user_uuid", "container_image",
    "container_uuid", "runtime_constraints", "requesting_container_uuid", "scheduling_parameters",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCell:
    """A cell of a further column; `address` leads to the page of its subject, "" without one."""

    label: str
    shown: str
    address: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """Rows of one run; `name` and `uuid` are "" for the requests of none."""

    uuid: str
    name: str
    rows: tuple[RequestRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRows:
    """The rows of a list as they are shown: cells of further columns by uuid, groups on demand."""

    columns: tuple[str, ...]
    groups: tuple[RunGroup, ...]
    is_grouped: bool
    cells: Mapping[str, tuple[ColumnCell, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> list[RequestRow]:
        """All rows in the order in which they are shown."""
        return [row for group in self.groups for row in group.rows]


def chosen_columns(visit: Visit) -> tuple[str, ...]:
    """The columns that the address names, as `cols=user,image` or as the form sends them."""
    names = {*visit.query("cols").split(","), *visit.incoming.query_params.getlist("col")}
    return tuple(name for name in LABELS if name in names)


async def arrange(
    visit: Visit, rows: Sequence[RequestRow], columns: tuple[str, ...], *, is_grouped: bool
) -> ListedRows:
    """The rows with these columns, and grouped by run: a group stands where its first row stood."""
    records: dict[str, Record] = {}
    if rows and (columns or is_grouped):
        listed = await visit.api.list(
            "container_requests",
            filters=[["uuid", "in", [row.uuid for row in rows]]],
            select=_SELECT,
            limit=len(rows),
        )
        records = {record["uuid"]: record for record in listed}
    groups = [RunGroup(uuid="", name="", rows=tuple(rows))]
    if is_grouped:
        groups = _grouped(rows, await _runs_of(visit, records.values()))
    return ListedRows(
        columns=columns,
        groups=tuple(groups),
        is_grouped=is_grouped,
        cells=await _cells(visit, records, columns) if columns else {},
    )


def _grouped(rows: Sequence[RequestRow], run_of: Mapping[str, tuple[str, str]]) -> list[RunGroup]:
    members: dict[tuple[str, str], list[RequestRow]] = {}
    for row in rows:
        members.setdefault(run_of.get(row.uuid, ("", "")), []).append(row)
    return [
        RunGroup(uuid=uuid, name=name, rows=tuple(run_rows))
        for (uuid, name), run_rows in members.items()
    ]


async def _runs_of(visit: Visit, records: Iterable[Record]) -> dict[str, tuple[str, str]]:
    """The uuid and the name of the run of each request that is a step of one, by its uuid."""
    requests = list(records)
    projects = {str(request["owner_uuid"]) for request in requests}
    projects = {uuid for uuid in projects if infix_of(uuid) == Infix.GROUP}
    names = {
        group["uuid"]: str(group["name"])
        for group in await _listed(visit, "groups", "uuid", projects, ("name", "properties"))
        if attempts.is_run(group["properties"])
    }
    askers = {str(request["requesting_container_uuid"] or "") for request in requests} - {""}
    runners = {
        runner["container_uuid"]: (str(runner["uuid"]), str(runner["name"] or runner["uuid"]))
        for runner in await _listed(
            visit, "container_requests", "container_uuid", askers,
            ("name", "container_uuid", "scheduling_parameters"),
        )
        if _is_runner(runner)
    }  # fmt: skip
    runs: dict[str, tuple[str, str]] = {}
    for request in requests:
        uuid, owner = str(request["uuid"]), str(request["owner_uuid"])
        asker = request["requesting_container_uuid"]
        if owner in names:
            runs[uuid] = owner, names[owner]
        elif asker in runners:
            runs[uuid] = runners[asker]
    return runs


def _is_runner(request: Record) -> bool:
    return bool((request["scheduling_parameters"] or {}).get("supervisor"))


async def _listed(
    visit: Visit, plural: str, attribute: str, values: set[str], select: tuple[str, ...]
) -> list[Record]:
    """The records with these values; none where the reader's token cannot list them."""
    records: list[Record] = []
    if values:
        with suppress(LadingError):
            records = await visit.api.list(
                plural,
                filters=[[attribute, "in", sorted(values)]],
                select=("uuid", *select),
                limit=4 * len(values),
            )
    return records


async def _cells(
    visit: Visit, records: Mapping[str, Record], columns: tuple[str, ...]
) -> dict[str, tuple[ColumnCell, ...]]:
    requests = list(records.values())
    named: set[str] = set()
    if "user" in columns:
        named |= {_user_of(request) for request in requests}
    if "project" in columns:
        named |= {str(request["owner_uuid"]) for request in requests}
    names = await names_of(visit, named) if named else {}
    images = await _image_names(visit, requests) if "image" in columns else {}
    needs_usage = not {"memory", "gpus"}.isdisjoint(columns)
    used = await _usage(visit, requests) if needs_usage else {}

    return {
        str(request["uuid"]): tuple(
            _cell(request, column, names=names, images=images, used=used) for column in columns
        )
        for request in requests
    }


def _cell(
    request: Record,
    column: str,
    *,
    names: Mapping[str, str],
    images: Mapping[str, str],
    used: Mapping[str, Record],
) -> ColumnCell:
    """One cell; `names` are those of users and projects, `used` is the usage by container."""
    label = LABELS[column]
    if column == "user":
        user = _user_of(request)
        return ColumnCell(label=label, shown=names.get(user, user))
    if column == "project":
        return _project_cell(str(request["owner_uuid"]), names)
    if column == "image":
        image = str(request["container_image"] or "")
        short = image[:_SHORT] if is_pdh(image) else image
        return ColumnCell(label=label, shown=images.get(image, short))
    constraints = request["runtime_constraints"] or {}
    if column == "cpus":
        return ColumnCell(label=label, shown=str(_largest(constraints.get("vcpus")) or ""))
    usage = used.get(str(request["container_uuid"] or ""), {})
    if column == "gpus":
        return _gpu_cell(constraints, usage)
    memory = _largest(constraints.get("ram"))
    most = int(usage.get("memory") or 0)
    note = f"used {size(most)}" if most else ""
    return ColumnCell(label=label, shown=size(memory) if memory else "", note=note)


def _project_cell(owner: str, names: Mapping[str, str]) -> ColumnCell:
    name = names.get(owner, owner)
    return ColumnCell(
        label=LABELS["project"],
        shown=f"Home of {name}" if infix_of(owner) == Infix.USER else name,
        address=f"/ui/projects/{owner}",
    )


async def _image_names(visit: Visit, requests: Sequence[Record]) -> dict[str, str]:
    """The first name of each image by its portable data hash; images without one are left out."""
    hashes = {str(request["container_image"] or "") for request in requests}
    collections = await _listed(
        visit, "collections", "portable_data_hash", {image for image in hashes if is_pdh(image)},
        ("portable_data_hash",),
    )  # fmt: skip
    hash_of = {str(each["uuid"]): str(each["portable_data_hash"]) for each in collections}
    names: dict[str, str] = {}
    links = await _listed(
        visit, "links", "head_uuid", set(hash_of), ("head_uuid", "link_class", "name")
    )
    for link in sorted(links, key=lambda link: str(link["name"])):
        if link["link_class"] == REPO_TAG:
            names.setdefault(hash_of[link["head_uuid"]], str(link["name"]))
    return names


def _gpu_cell(constraints: Record, usage: Record) -> ColumnCell:
    """The GPUs that a request asks for, and how its container used them."""
    words = [] if usage.get("gpu") is None else [f"{float(usage['gpu']):.2g} in use"]
    words += [size(int(usage["gpu_memory"]))] if usage.get("gpu_memory") else []
    note = f"used {', '.join(words)}" if words else ""
    return ColumnCell(label=LABELS["gpus"], shown=described(constraints), note=note)


async def _usage(visit: Visit, requests: Sequence[Record]) -> dict[str, Record]:
    """Use of resources of each container, by its uuid."""
    containers = {str(request["container_uuid"] or "") for request in requests} - {""}
    return {
        container["uuid"]: container["usage"] or {}
        for container in await _listed(visit, "containers", "uuid", containers, ("usage",))
    }


def _user_of(request: Record) -> str:
    """Who submitted a request; of a draft who changed it last."""
    return str(request["committed_by_uuid"] or request["modified_by_user_uuid"] or "")


def _largest(value: Any) -> int:
    """A need as one number: of a range the largest; 0 for none."""
    return int((max(value, default=0) if isinstance(value, list) else value) or 0)
