"""Exports requests as a crate: records, logs, manifests, data and images, with the metadata.

Records are read in pages, and each step is written before the next page is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.collections import read_files
from lading.client.images.links import list_images
from lading.client.provenance.crate_writing import CrateWriter, JsonSpool
from lading.core.data import filetree
from lading.core.data.filetree import FileTree
from lading.core.data.manifest import strip_signatures
from lading.core.errors import Conflict, LadingError
from lading.core.provenance.batch import BatchSteps, cwl_of
from lading.core.provenance.block_sources import block_sources
from lading.core.provenance.prov_o import PROV_CONTEXT, ProvGraph
from lading.core.provenance.run_crate import (
    CONTEXT,
    METADATA,
    PROV,
    CrateFile,
    CrateGraph,
    CrateImage,
    CrateStep,
    CrateWorkflow,
    inputs_of,
)

_PAGE: Final = 100
_MANIFESTS: Final = 50
"""Manifests of one call."""
_CALLS: Final = 8
"""Calls at a time."""
_BATCH_FILE: Final = "workflow.json"
_CWL_FILE: Final = "workflow.cwl"
_JOB_FILE: Final = "job.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateOptions:
    """What goes into a crate. `published`: the present time; `version`: that of Lading."""

    published: str
    version: str
    license_text: str = "Not stated."
    with_data: bool = False
    with_images: bool = False


async def export_crate(
    api: ApiClient,
    blocks: BlockClient,
    uuids: Sequence[str],
    writer: CrateWriter,
    options: CrateOptions,
) -> int:
    """Write requests, and return how many; the last one made gives the crate its name.

    Raises Conflict, naming it, for a request that has not ended and for content that is gone or may
    not be read.
    """
    order = await _ordered(api, uuids)
    images = {
        one.pdh: CrateImage(names=one.names, sha256=one.digest.removeprefix("sha256:"))
        for one in await list_images(api)
    }
    workflow = await _find_workflow(api, order)
    with ExitStack() as held:
        entities, nodes, items = (held.enter_context(JsonSpool()) for _ in range(3))
        making = _Export(
            api=api,
            blocks=blocks,
            writer=writer,
            options=options,
            workflow=workflow,
            graph=CrateGraph(images=images, with_data=options.with_data, workflow=workflow),
            entities=entities,
            nodes=nodes,
            items=items,
        )
        async with aclosing(_steps(api, order)) as pages:
            async for page in pages:
                await making.add(page)
        await making.finish()
    return len(order)


@dataclass(slots=True, kw_only=True)
class _Export:
    """The crate while it is written."""

    api: ApiClient
    blocks: BlockClient
    writer: CrateWriter
    options: CrateOptions
    workflow: CrateWorkflow | None
    graph: CrateGraph
    entities: JsonSpool
    nodes: JsonSpool
    items: JsonSpool
    name: str = ""
    prov: ProvGraph = field(default_factory=ProvGraph)
    batch: BatchSteps = field(default_factory=BatchSteps)
    data: dict[str, None] = field(default_factory=dict)
    images: dict[str, None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    """Uuids of the requests and containers that are in the crate."""

    async def add(self, page: Sequence[CrateStep]) -> None:
        """Write some steps."""
        await self._write_logs(page)
        for one in page:
            for record in (one.request, one.container):
                if record["uuid"] not in self.written:
                    self.written.add(record["uuid"])
                    self._note(self.writer.write_json(f"records/{record['uuid']}.json", record))
            self.entities.add(self.graph.step(one))
            self.nodes.add(self.prov.step(one))
            if self.workflow is not None:
                self.items.add([self.batch.step(one)])
                self._write_cwl(one)
            self.images[str(one.container["container_image"])] = None
            self.data |= {pdh: None for _, pdh, _ in inputs_of(one.container)}
            if one.container["output"]:
                self.data[str(one.container["output"])] = None
            self.name = str(one.request["name"] or one.request["uuid"])

    async def finish(self) -> None:
        """Write contents and metadata."""
        await self._write_contents()
        if self.workflow is not None and self.workflow.language == "lading":
            document = self.items.document("container_requests", {})
            self._note(self.writer.write(_BATCH_FILE, document))
        document = self.nodes.document("@graph", {"@context": PROV_CONTEXT})
        self._note(self.writer.write(PROV, document))
        last = self.graph.finish(
            name=self.name,
            published=self.options.published,
            version=self.options.version,
            license_text=self.options.license_text,
        )
        document = self.entities.document("@graph", {"@context": CONTEXT}, last)
        self.writer.write(METADATA, document)

    def _note(self, file: CrateFile) -> None:
        self.entities.add(self.graph.file(file))

    def _write_cwl(self, one: CrateStep) -> None:
        assert self.workflow is not None
        found = cwl_of(one.container) if self.workflow.language == "cwl" else None
        # Workflows within workflows have runners too: the first one is the whole.
        if found is not None and _CWL_FILE not in self.written:
            self.written.add(_CWL_FILE)
            for path, value in zip((_CWL_FILE, _JOB_FILE), found, strict=True):
                self._note(self.writer.write_json(path, value))

    async def _write_logs(self, page: Sequence[CrateStep]) -> None:
        logs = {
            str(one.container["uuid"]): str(one.container["log"])
            for one in page
            if one.container["log"] and one.container["uuid"] not in self.written
        }
        async with aclosing(_manifests(self.api, list(dict.fromkeys(logs.values())))) as found:
            signed = {pdh: text async for pdh, text in found}
        for uuid, log in logs.items():
            tree = filetree.from_manifest(signed[log])
            for file in await write_tree(self.blocks, self.writer, f"logs/{uuid}", tree):
                self._note(file)

    async def _write_contents(self) -> None:
        """Write all manifests, and the files that are wanted."""
        trees: dict[str, FileTree] = {}
        locators: dict[str, str] = {}
        async with aclosing(_manifests(self.api, sorted({**self.data, **self.images}))) as found:
            async for pdh, signed in found:
                text = strip_signatures(signed).encode("utf-8", "surrogatepass")
                self._note(self.writer.write(f"manifests/{pdh}.txt", [text]))
                is_wanted = self.options.with_data and pdh in self.data
                if not is_wanted and not (self.options.with_images and pdh in self.images):
                    continue
                tree = trees[f"data/{pdh}"] = filetree.from_manifest(signed)
                for _, file in filetree.files(tree):
                    for one in file.segments:
                        locators[filetree.bare(one.locator)] = one.locator
                files = await write_tree(self.blocks, self.writer, f"data/{pdh}", tree)
                for made in files:
                    self._note(made)
                paths = [made.path for made in files]
                self.entities.add(self.graph.content(pdh, paths, is_image=not is_wanted))
        for block in block_sources(trees)[1]:
            piece = await self.blocks.get(locators[block])
            self._note(self.writer.write(f"blocks/{block}", [piece]))


async def _ordered(api: ApiClient, uuids: Sequence[str]) -> list[str]:
    """The requests, the earliest first. Raises Conflict for one that has not ended."""
    fields = ("uuid", "created_at", "state", "container_uuid")
    rows = await _by_field(api, "container_requests", "uuid", uuids, fields)
    for one in rows:
        if one["state"] != "Final" or not one["container_uuid"]:
            raise Conflict(f"{one['uuid']}: has not run to its end; wait for it or cancel it first")
    return [one["uuid"] for one in sorted(rows, key=lambda one: (one["created_at"], one["uuid"]))]


async def _find_workflow(api: ApiClient, uuids: Sequence[str]) -> CrateWorkflow | None:
    """The workflow of the requests: CWL if one of them has run `arvados-cwl-runner`; none for a
    single request.
    """
    for start in range(0, len(uuids), _PAGE):
        some = uuids[start : start + _PAGE]
        rows = await _by_field(api, "container_requests", "uuid", some, ("uuid", "mounts"))
        if any(cwl_of(one) for one in rows):
            return CrateWorkflow(path=_CWL_FILE, language="cwl")
    return CrateWorkflow(path=_BATCH_FILE, language="lading") if len(uuids) > 1 else None


async def _steps(api: ApiClient, uuids: Sequence[str]) -> AsyncGenerator[list[CrateStep]]:
    names: dict[str, str] = {}
    for start in range(0, len(uuids), _PAGE):
        some = uuids[start : start + _PAGE]
        rows = await _by_field(api, "container_requests", "uuid", some)
        requests = {one["uuid"]: one for one in rows}
        held = [str(one["container_uuid"]) for one in rows]
        containers = {one["uuid"]: one for one in await _by_field(api, "containers", "uuid", held)}
        people = {_user(one) for one in rows} - names.keys()
        for one in await _by_field(api, "users", "uuid", sorted(people)):
            names[one["uuid"]] = str(one.get("full_name") or one.get("username") or "")
        evidence = await _evidence(api, containers.values())
        made = []
        for uuid in some:
            request = requests[uuid]
            container = containers.get(request["container_uuid"])
            if container is None:
                raise Conflict(f"{uuid}: its container is gone, or you may not read it")
            told = evidence.get(container["uuid"])
            agent = names.get(_user(request), "")
            made.append(CrateStep(request=request, container=container, agent=agent, evidence=told))
        yield made


async def _evidence(api: ApiClient, containers: Iterable[Record]) -> dict[str, Record]:
    found: dict[str, Record] = {}
    gate = asyncio.Semaphore(_CALLS)

    async def ask(uuid: str) -> None:
        async with gate:
            found[uuid] = await api.action("containers", uuid, "evidence", method="GET")

    async with asyncio.TaskGroup() as group:
        for one in containers:
            group.create_task(ask(one["uuid"]))
    return found


def _user(request: Mapping[str, Any]) -> str:
    return str(request.get("modified_by_user_uuid") or request["owner_uuid"])


async def write_tree(
    blocks: BlockClient, writer: CrateWriter, place: str, tree: FileTree
) -> list[CrateFile]:
    """Write the files of a tree below a path; what was written."""
    named = list(filetree.files(tree))
    made = []
    async with aclosing(read_files(blocks, [file for _, file in named])) as pieces:
        ahead = await anext(pieces, None)
        for number, (name, _) in enumerate(named):
            with writer.writing(f"{place}/{name}") as file:
                while ahead is not None and ahead[0] == number:
                    file.add(ahead[1])
                    ahead = await anext(pieces, None)
            made.append(file.made())
    return made


async def _manifests(api: ApiClient, hashes: Sequence[str]) -> AsyncGenerator[tuple[str, str]]:
    """The signed manifests of contents. Raises Conflict for one that is gone or may not be read."""
    for start in range(0, len(hashes), _MANIFESTS):
        some = hashes[start : start + _MANIFESTS]
        rows = await api.list(
            "collections",
            filters=[["portable_data_hash", "in", list(some)]],
            select=["portable_data_hash", "manifest_text"],
            distinct=True,
            limit=len(some),
        )
        found = {one["portable_data_hash"]: one["manifest_text"] for one in rows}
        for pdh in some:
            if pdh in found:
                yield pdh, found[pdh]
                continue
            try:
                yield pdh, str((await api.get("collections", pdh))["manifest_text"])
            except LadingError as error:
                raise Conflict(f"{pdh}: cannot be exported: {error.message}") from error


async def _by_field(
    api: ApiClient,
    plural: str,
    field_name: str,
    values: Sequence[str],
    select: Sequence[str] = (),
) -> list[Record]:
    found: list[Record] = []
    for start in range(0, len(values), _PAGE):
        filters = [[field_name, "in", list(values[start : start + _PAGE])]]
        async with aclosing(api.pages(plural, filters=filters, select=select)) as pages:
            async for rows in pages:
                found += rows
    return found
