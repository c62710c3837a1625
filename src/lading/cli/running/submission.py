"""Container requests from the options of `lading run`.

Defaults: the command starts in /out, an empty writable directory that becomes the output; 1 virtual
CPU and 256 MiB; priority 500; no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lading.cli import display
from lading.cli.references import (
    LAST,
    FileReference,
    find_collection,
    find_named,
    find_request,
    find_stored,
)
from lading.cli.running.inputs import Input
from lading.core.containers.gpu_words import gpu_constraint
from lading.core.data.globs import relative_pattern
from lading.core.errors import Forbidden, Invalid, LadingError, NotFound
from lading.core.gpu_architectures import CUDA
from lading.core.ids import Infix, is_pdh, is_uuid
from lading.core.values import JsonObject

if TYPE_CHECKING:
    from lading.cli.session import CliSession
    from lading.client.api import Record
    from lading.client.files.deposits import ContentSearch

OUTPUT = "/out"
# Records of one list call: with 1,000 uuids in a filter the address of the call grows long.
_ASKED = 500
# The middle of 1 to 1000, so that there is room above and below it.
PRIORITY = 500


class RequestSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line. Without a `command`, the image's is run."""

    command: tuple[str, ...]
    image: str = ""
    pull: bool = False
    """Fetch the image if the store has none of its name."""
    inputs: tuple[Input, ...] = ()
    has_writable_inputs: bool = False
    """Whether the container gets copies of its inputs, which it may change."""
    links: str = "follow"
    """`LinkPolicy` of inputs that are files on disk."""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    secret_mounts: Mapping[str, Any] = msgspec.field(default_factory=dict)
    vcpus: int | list[int] = 1
    ram: int | list[int] = 256 << 20
    gpus: int | None = None
    gpu_memory: int | None = None
    """Bytes of each GPU."""
    gpu_type: tuple[str, ...] = ()
    cuda: str | None = None
    workdir: str = OUTPUT
    output_path: str = OUTPUT
    output_glob: tuple[str, ...] = ()
    strict_output: bool = False
    tmp: tuple[str, ...] = ()
    output_name: str | None = None
    output_ttl: int = 0
    output_properties: Mapping[str, Any] = msgspec.field(default_factory=dict)
    storage_class: tuple[str, ...] = ()
    name: str | None = None
    description: str | None = None
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)
    project: str | None = None
    run: str | None = None
    """The run that it is a step of."""
    notify: str | None = None
    """The receiver that is told of the end of the run."""
    step: str | None = None
    """The name of its step in the run."""
    priority: int = PRIORITY
    use_existing: bool = True
    match_resources: bool = False
    only_reproduced: bool = False
    container: str | None = None
    network: bool = False
    """Access to the API and the internet."""
    api: bool = False
    internet: bool | None = None
    max_run_time: int = 0
    parallel_group: str | None = None
    max_parallel: int = 0
    """Containers of the group that run at a time; 0: any number."""
    keep_on_failure: int = 0
    partition: tuple[str, ...] = ()
    preemptible: bool = False
    prefer_preemptible: bool = False
    spot_attempts: int | None = None
    deadline: str | None = None
    gang: Mapping[str, object] = msgspec.field(default_factory=dict)
    """Scheduling parameters of a request that is run by several containers together."""
    attempts: int | None = None
    retry: tuple[tuple[str, Mapping[str, object]], ...] = ()
    """Rules for retries by class of failure."""
    after: tuple[str, ...] = ()
    start_after: str | None = None
    expires: str | None = None

    def __post_init__(self) -> None:
        """Refuse options that contradict each other. Raises Invalid."""
        self.gpu_constraint()

    def gpu_constraint(self) -> JsonObject | None:
        """The `gpu` of its runtime constraints; None without GPUs. Raises Invalid."""
        return gpu_constraint(
            self.gpus,
            memory=self.gpu_memory or 0,
            kinds=self.gpu_type,
            version=self.cuda or "",
            stack=CUDA if self.cuda else "",
        )


def _inputs(
    spec: RequestSpec, mounts: Mapping[str, Mapping[str, object]]
) -> Mapping[str, Mapping[str, object]]:
    if not spec.has_writable_inputs:
        return mounts
    return {target: {**mount, "writable": True} for target, mount in mounts.items()}


def output_patterns(written: Sequence[str], output_path: str) -> tuple[str, ...]:
    """The patterns of --output-glob. Raises Invalid for one that can match nothing."""
    try:
        return tuple(relative_pattern(pattern, output_path) for pattern in written)
    except Invalid as error:
        raise Invalid(f"--output-glob {error.message}") from None


def request_body(
    spec: RequestSpec,
    *,
    image: str,
    mounts: Mapping[str, Mapping[str, object]],
    after: Sequence[str] = (),
) -> dict[str, Any]:
    """The attributes of the container request; `after` are the uuids of its dependencies.

    Options that were not given are left out. Raises Invalid when two things have the same target.
    """
    own: dict[str, Mapping[str, object]] = {target: {"kind": "tmp"} for target in spec.tmp}
    if spec.output_path in mounts:
        raise Invalid(
            f"--input {spec.output_path}: is where the output goes; "
            "choose another target or --output-path"
        )
    # "." is the working directory that the image names.
    if spec.workdir != "." and not spec.workdir.startswith("/"):
        raise Invalid(f"--workdir {spec.workdir}: must be an absolute path, or '.' for the image's")
    body: dict[str, Any] = {
        "state": "Committed",
        "name": spec.name,
        "container_image": image,
        "cwd": spec.workdir,
        "environment": dict(spec.environment),
        "mounts": {spec.output_path: {"kind": "tmp"}, **own, **_inputs(spec, mounts)},
        "output_path": spec.output_path,
        "output_glob": list(spec.output_glob),
        "runtime_constraints": {"vcpus": spec.vcpus, "ram": spec.ram},
        "priority": spec.priority,
        "use_existing": spec.use_existing,
    }
    # --network includes the internet unless --no-internet excludes it.
    internet = True if spec.network and spec.internet is None else spec.internet
    if spec.network or spec.api:
        body["runtime_constraints"]["API"] = True
    if internet is not None:
        body["runtime_constraints"]["internet"] = internet
    if gpu := spec.gpu_constraint():
        body["runtime_constraints"]["gpu"] = gpu
    return body | {name: value for name, value in _asked_for(spec, after).items() if value}


def _asked_for(spec: RequestSpec, after: Sequence[str]) -> dict[str, Any]:
    """The attributes that are sent only if they are set."""
    scheduling = {
        "max_run_time": spec.max_run_time,
        "partitions": list(spec.partition),
        "preemptible": "prefer" if spec.prefer_preemptible else spec.preemptible,
        "spot_attempts": spec.spot_attempts,
        "deadline": spec.deadline,
        "keep_on_failure": 60 * spec.keep_on_failure,
        "retry": {name: dict(rule) for name, rule in spec.retry},
        **spec.gang,
    }
    return {
        "command": list(spec.command),
        "secret_mounts": dict(spec.secret_mounts),
        "strict_output": spec.strict_output,
        "match_resources": spec.match_resources,
        "only_reproduced": spec.only_reproduced,
        "parallel_group": spec.parallel_group,
        "max_parallel": spec.max_parallel,
        "scheduling_parameters": {name: value for name, value in scheduling.items() if value},
        "container_count_max": spec.attempts,
        "description": spec.description,
        "properties": dict(spec.properties),
        "owner_uuid": spec.project,
        "output_name": spec.output_name,
        "output_ttl": spec.output_ttl,
        "output_properties": dict(spec.output_properties),
        "output_storage_classes": list(spec.storage_class),
        "container_uuid": spec.container,
        "depends_on": list(after),
        "start_after": spec.start_after,
        "expires_at": spec.expires,
    }


async def default_image(session: CliSession) -> str:
    """The image of a request that names none, and say which one. Raises Invalid if the caller has
    none.
    """
    # Imported here: most calls name their image.
    from lading.client.images.links import newest_own

    chosen = await newest_own(session.api)
    names = ", ".join(chosen.names) or chosen.digest
    display.note(f"image {names}, the one that you added last")
    return chosen.pdh


async def tell_image(session: CliSession, image: str) -> None:
    """Say which image a name means, if the store has it by another one alone."""
    from lading.client.images.links import other_name

    # The answer to the request says what is wrong.
    with suppress(LadingError):
        if other := await other_name(session.api, image):
            display.note(f"image {image} is {other}")


async def store_inputs(
    session: CliSession,
    inputs: Sequence[Input],
    *,
    is_quiet: bool = False,
    links: str = "follow",
    search: ContentSearch | None = None,
) -> dict[str, dict[str, object]]:
    """The mounts of the inputs; files on disk are stored first (`links`: a `LinkPolicy`; `search`
    is that of `deposit`). Raises Invalid, NotFound.
    """
    mounts: dict[str, dict[str, object]] = {}
    outputs = await _outputs(session, inputs)
    for source in inputs:
        if source.target in mounts:
            raise Invalid(f"--input {source.target}: given twice")
        if source.path is not None:
            mounts[source.target] = await _store(
                session, source.path, is_quiet=is_quiet, links=links, search=search
            )
        elif source.stored is not None and (output := outputs.get(source.stored.name)):
            mounts[source.target] = output | (
                {"path": source.stored.path} if source.stored.path else {}
            )
        elif source.stored is not None:
            try:
                mounts[source.target] = await _mount(session, source.stored)
            except NotFound as error:
                raise NotFound(f"--input {source.target}: no file here; {error.message}") from error
    return mounts


async def _outputs(session: CliSession, inputs: Sequence[Input]) -> dict[str, dict[str, object]]:
    """Mounts of the outputs of several requests by their uuids, found by two calls of the API for
    each _ASKED. `_mount` looks for the other inputs, and raises their errors.
    """
    stored = (source.stored.name for source in inputs if source.stored is not None)
    uuids = list(dict.fromkeys(name for name in stored if is_uuid(name, Infix.REQUEST)))
    mounts: dict[str, dict[str, object]] = {}
    for start in range(0, len(uuids) if len(uuids) > 1 else 0, _ASKED):
        # A token may be limited to single records.
        with suppress(Forbidden):
            requests = await _listed(
                session, "container_requests", uuids[start : start + _ASKED], "state", "output_uuid"
            )
            ended = {
                request["uuid"]: request["output_uuid"]
                for request in requests
                if request["state"] == "Final"
            }
            mounts |= {
                request["uuid"]: {"kind": "output", "container_request": request["uuid"]}
                for request in requests
                if request["uuid"] not in ended
            }
            outputs = [uuid for uuid in ended.values() if uuid]
            rows = await _listed(session, "collections", outputs, "portable_data_hash")
            hashes = {row["uuid"]: row["portable_data_hash"] for row in rows}
            mounts |= {
                uuid: {"kind": "collection", "portable_data_hash": hashes[output]}
                for uuid, output in ended.items()
                if output in hashes
            }
    return mounts


async def _listed(
    session: CliSession, plural: str, uuids: Sequence[str], *fields: str
) -> list[Record]:
    """The records with these uuids, at most _ASKED."""
    if not uuids:
        return []
    return await session.api.list(
        plural, filters=[["uuid", "in", uuids]], select=["uuid", *fields], limit=_ASKED
    )


async def _store(
    session: CliSession, path: Path, *, is_quiet: bool, links: str, search: ContentSearch | None
) -> dict[str, object]:
    # Imported here: most calls store nothing.
    from lading.client.files.deposits import arrange, deposit, label_of
    from lading.client.files.listing import LinkPolicy

    sources = arrange([path])
    stored = await deposit(
        session.api,
        session.blocks,
        sources,
        label=label_of(path),
        links=LinkPolicy(links),
        search=search,
        progress=partial(display.progress, is_quiet=is_quiet),
    )
    for line in stored.remarks:
        display.warn(line)
    mount: dict[str, object] = {
        "kind": "collection",
        "portable_data_hash": stored.portable_data_hash,
    }
    return mount if "" in sources else {**mount, "path": next(iter(sources))}


async def _mount(session: CliSession, stored: FileReference) -> dict[str, object]:
    mount: dict[str, object] = {"kind": "collection"}
    name = stored.name
    if is_pdh(name):
        mount["portable_data_hash"] = name
        return {**mount, "path": stored.path} if stored.path else mount
    if not is_uuid(name):
        # Of the newest: one that has not ended is waited for.
        newest = LAST if name == LAST else await find_named(session, name)
        name = newest if await _find_open(session, newest) else await find_stored(session, name)
    if is_uuid(name, Infix.COLLECTION):
        mount["uuid"] = name
    elif open_one := await _find_open(session, name):
        # Its output is not known yet; the server mounts it when it is.
        mount = {"kind": "output", "container_request": open_one}
    else:
        found = await find_collection(session, FileReference(name))
        mount["portable_data_hash"] = found["portable_data_hash"]
    return {**mount, "path": stored.path} if stored.path else mount


async def _find_open(session: CliSession, name: str) -> str:
    """The uuid of the request of this name, if it has not ended; else ""."""
    if name != LAST and not is_uuid(name, Infix.REQUEST):
        return ""
    found = await find_request(session, name)
    return "" if found["state"] == "Final" else str(found["uuid"])
