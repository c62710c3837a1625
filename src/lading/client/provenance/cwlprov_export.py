"""Exports the run of a CWL workflow as a research object of CWLProv, for other programs.

Steps are read in pages; each file is written to the disk once, while it is hashed, and is in the
bag once for each content. The use of memory grows with the number of files alone.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.files.downloads import read_file
from lading.client.provenance.bag_writing import BagWriter, ProvSpool
from lading.client.provenance.crate_sources import (
    ended_in_order,
    read_steps,
    read_tree,
    signed_manifests,
)
from lading.client.provenance.crate_writing import JsonSpool
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Conflict
from lading.core.provenance.batch import cwl_of
from lading.core.provenance.cwl_packing import (
    PackedWorkflow,
    collections_of,
    find_step,
    pack,
)
from lading.core.provenance.cwl_values import StoredFile, literals, located, locations, placed
from lading.core.provenance.cwlprov import (
    JOB,
    OUTPUTS,
    PACKED,
    PROV_JSON,
    PROV_N,
    SNAPSHOT,
    BagManifest,
    WorkflowRun,
    bag_info,
    prefixes,
)
from lading.core.provenance.run_crate import CrateStep

_LARGEST_DOCUMENT: Final = 1 << 20
"""Bytes of a CWL document."""
_LARGEST_OUTPUT: Final = 16 << 20
"""Bytes of `cwl.output.json`."""
_RESULT: Final = "cwl.output.json"
_MANIFEST: Final = "metadata/manifest.json"
Told = Callable[[int, int], None]
"""Called with the steps that are done and all steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BagOptions:
    """Options of a bag. `published`: the present time, as ISO 8601; `version`: of Lading."""

    published: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBag:
    """Number of requests in a bag, and the checksums of its tags, to sign them."""

    requests: int
    checksums: bytes


async def export_cwlprov(
    api: ApiClient,
    blocks: BlockClient,
    uuid: str,
    writer: BagWriter,
    options: BagOptions,
    *,
    progress: Told | None = None,
) -> WrittenBag:
    """Write the run of a workflow: the request of its runner, and the requests that it has made.

    Raises Conflict, naming it, for a request that is no such run or has not ended, and for content
    that is gone or may not be read.
    """
    runner = await _runner(api, uuid)
    documents = cwl_of(runner.container)
    if (
        documents is None
        or not isinstance(documents[0], Mapping)
        or not isinstance(documents[1], Mapping)
    ):
        raise Conflict(
            f"{uuid}: is no run of a CWL workflow by arvados-cwl-runner; "
            "leave out --format, to write it as an RO-Crate"
        )
    collector = _Documents(api=api, blocks=blocks, uuid=uuid)
    workflow = await collector.pack(documents[0])
    with ExitStack() as exit_stack:
        making = _Export(
            api=api,
            blocks=blocks,
            writer=writer,
            workflow=workflow,
            run=(run := WorkflowRun(runner, workflow, version=options.version)),
            manifest=BagManifest(run, published=options.published, version=options.version),
            entries=exit_stack.enter_context(JsonSpool()),
            records=exit_stack.enter_context(ProvSpool()),
        )
        await making.begin(runner, documents[1])
        order = await ended_in_order(api, await _made_by(api, runner))
        async with aclosing(read_steps(api, order)) as pages:
            async for page in pages:
                for step in page:
                    await making.add(step)
                    if progress:
                        progress(making.steps, len(order))
        await making.finish(runner, sorted(collector.collections))
    name = str(runner.request["name"] or uuid)
    day = options.published[:10]
    lines = bag_info(run, name=name, day=day, version=options.version)
    return WrittenBag(requests=len(order) + 1, checksums=writer.finish(lines))


async def _runner(api: ApiClient, uuid: str) -> CrateStep:
    await ended_in_order(api, [uuid])
    async with aclosing(read_steps(api, [uuid])) as pages:
        return (await anext(pages))[0]


async def _made_by(api: ApiClient, runner: CrateStep) -> list[str]:
    """The uuids of the requests that a runner has made."""
    filters = [["requesting_container_uuid", "=", runner.container["uuid"]]]
    uuids: list[str] = []
    async with aclosing(
        api.pages("container_requests", filters=filters, select=("uuid",))
    ) as pages:
        async for rows in pages:
            uuids += (str(row["uuid"]) for row in rows)
    return uuids


@dataclass(slots=True, kw_only=True)
class _Documents:
    """The documents of a workflow, which are in collections."""

    api: ApiClient
    blocks: BlockClient
    uuid: str
    trees: dict[str, FileTree] = field(default_factory=dict)
    collections: set[str] = field(default_factory=set)

    async def pack(self, document: Mapping[str, Any]) -> PackedWorkflow:
        """One document. Raises Conflict for one that is too large or no CWL."""
        sources: dict[str, Any] = {}
        self.collections |= set(collections_of(document))
        while True:
            try:
                packed = pack(document, sources, directory=f"../{SNAPSHOT}")
            except ValueError as error:
                raise Conflict(f"{self.uuid}: its workflow {error}") from error
            if not packed.missing:
                return packed
            for path in packed.missing:
                sources[path] = await self._read(path)
                self.collections |= set(collections_of(sources[path]))

    async def _read(self, key: str) -> Any:
        """The document at `HASH/PATH`; "" for what is no document, and stays a file."""
        # Of the extra `export`: only this export reads CWL.
        import yaml

        pdh, _, path = key.partition("/")
        if pdh not in self.trees:
            self.trees[pdh] = await read_tree(self.api, pdh)
        file = filetree.find(self.trees[pdh], path)
        if not isinstance(file, File) or file.size > _LARGEST_DOCUMENT:
            return ""
        text = await _text(self.blocks, file)
        try:
            # In a thread: a document of a megabyte takes seconds.
            return await asyncio.to_thread(yaml.safe_load, text)
        except (yaml.YAMLError, ValueError, RecursionError):
            return ""


@dataclass(slots=True, kw_only=True)
class _Export:
    """The bag while it is written."""

    api: ApiClient
    blocks: BlockClient
    writer: BagWriter
    workflow: PackedWorkflow
    run: WorkflowRun
    manifest: BagManifest
    entries: JsonSpool
    records: ProvSpool
    steps: int = 0
    stored: dict[str, StoredFile | dict[str, StoredFile]] = field(default_factory=dict)
    """Content at each location that has been seen."""
    logged: set[str] = field(default_factory=set)

    async def begin(self, runner: CrateStep, inputs: Mapping[str, Any]) -> None:
        """Write the workflow and its inputs."""
        self._document(PACKED, self.workflow.document)
        values = await self._placed(inputs)
        self._document(JOB, values)
        self.records.add(self.run.begin(values))
        await self._write_log(runner)

    async def add(self, step: CrateStep) -> None:
        """Write a step."""
        self.steps += 1
        properties = step.request["properties"] or {}
        inputs = await self._placed(properties.get("cwl_input") or {})
        outputs = await self._placed(properties.get("cwl_output") or {})
        plan = find_step(self.workflow, str(step.request["name"]), inputs)
        self.records.add(self.run.step(step, plan, inputs, outputs))
        await self._write_log(step)

    async def finish(self, runner: CrateStep, collections: Iterable[str]) -> None:
        """Write outputs, files of the workflow, and the metadata."""
        outputs = await self._placed(await self._outputs(runner))
        self._document(OUTPUTS, outputs)
        self.records.add(self.run.finish(outputs))
        async with aclosing(signed_manifests(self.api, list(collections))) as manifests:
            async for pdh, manifest_text in manifests:
                await self._copy(f"{SNAPSHOT}/{pdh}", filetree.from_manifest(manifest_text))
        names = prefixes(self.run.uuid)
        self._file(PROV_N, self.records.prov_n(names))
        self._file(PROV_JSON, self.records.prov_json(names))
        self.writer.write(_MANIFEST, self.entries.document("aggregates", self.manifest.rest()))

    async def _outputs(self, runner: CrateStep) -> Any:
        """The outputs of the whole workflow; {} if it has not come so far."""
        pdh = runner.container["output"]
        if not pdh:
            return {}
        file = filetree.find(await read_tree(self.api, str(pdh)), _RESULT)
        if not isinstance(file, File) or file.size > _LARGEST_OUTPUT:
            return {}
        try:
            return located(json.loads(await _text(self.blocks, file)), f"keep:{pdh}")
        except (ValueError, RecursionError) as error:
            raise Conflict(f"{pdh}/{_RESULT}: is no JSON: {error}") from error

    async def _placed(self, value: Any) -> Any:
        """The value with files of the bag, which are written if they are new."""
        by_collection: dict[str, list[str]] = {}
        for location in locations(value):
            if location not in self.stored:
                name = location.removeprefix("keep:").partition("/")[0]
                by_collection.setdefault(name, []).append(location)
        async with aclosing(signed_manifests(self.api, list(by_collection))) as manifests:
            async for name, manifest in manifests:
                tree = filetree.from_manifest(manifest)
                for location in by_collection[name]:
                    self.stored[location] = await self._store(location, tree)
        for literal in literals(value):
            await self._payload(_once(literal))
        return placed(value, self.stored)

    async def _store(self, location: str, tree: FileTree) -> StoredFile | dict[str, StoredFile]:
        path = posixpath.normpath(location.partition("/")[2] or ".")
        node = tree if path == "." else filetree.find(tree, path)
        if node is None:
            raise Conflict(f"{location}: is not in its collection any more")
        if isinstance(node, File):
            return await self._payload(read_file(self.blocks, node))
        return {
            name: await self._payload(read_file(self.blocks, file))
            for name, file in filetree.files(node)
        }

    async def _payload(self, pieces: AsyncGenerator[bytes]) -> StoredFile:
        with self.writer.data() as file:
            async with aclosing(pieces):
                async for piece in pieces:
                    file.add(piece)
            made, is_new = file.finish()
        if is_new:
            self.entries.add([self.manifest.data(made)])
        return made

    async def _write_log(self, step: CrateStep) -> None:
        container = step.container
        if not container["log"] or container["uuid"] in self.logged:
            return
        self.logged.add(container["uuid"])
        tree = await read_tree(self.api, str(container["log"]))
        await self._copy(f"metadata/logs/{container['uuid']}", tree)

    async def _copy(self, directory: str, tree: FileTree) -> None:
        for name, file in filetree.files(tree):
            path = f"{directory}/{name}"
            async with aclosing(read_file(self.blocks, file)) as pieces:
                with self.writer.writing(path) as copy:
                    async for piece in pieces:
                        copy.add(piece)
            self.entries.add([self.manifest.file(path)])

    def _document(self, path: str, value: Any) -> None:
        self.writer.write_json(path, value)
        self.entries.add([self.manifest.file(path)])

    def _file(self, path: str, pieces: Iterable[bytes]) -> None:
        self.writer.write(path, pieces)
        self.entries.add([self.manifest.file(path)])


async def _once(content: bytes) -> AsyncGenerator[bytes]:
    yield content


async def _text(blocks: BlockClient, file: File) -> bytes:
    """The content of a small file."""
    async with aclosing(read_file(blocks, file)) as pieces:
        return b"".join([piece async for piece in pieces])
