"""Exports requests as a crate: records, logs, manifests, data and images, with the metadata.

Records are read in pages, and each step is written before the next page is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from typing import Final

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.files.downloads import Progress
from lading.client.images.links import list_images
from lading.client.provenance.crate_sources import (
    ended_in_order,
    read_steps,
    rows_by_field,
    signed_manifests,
    write_tree,
)
from lading.client.provenance.crate_writing import CrateWriter, JsonSpool
from lading.core.data import filetree
from lading.core.data.filetree import FileTree
from lading.core.data.manifest import strip_signatures
from lading.core.provenance.batch import BatchSteps, cwl_of
from lading.core.provenance.block_sources import block_sources
from lading.core.provenance.cwl_packing import collections_of
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
_BATCH_FILE: Final = "workflow.json"
_CWL_FILE: Final = "workflow.cwl"
_JOB_FILE: Final = "job.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateOptions:
    """Contents and options of a crate. `published`: the present time; `version`: that of Lading."""

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
    *,
    progress: Progress | None = None,
) -> int:
    """Write requests, and return how many; the last one made gives the crate its name.

    Raises Conflict, naming it, for a request that has not ended and for content that is gone or may
    not be read.
    """
    order = await ended_in_order(api, uuids)
    images = {
        image.pdh: CrateImage(names=image.names, sha256=image.digest.removeprefix("sha256:"))
        for image in await list_images(api)
    }
    workflow = await _find_workflow(api, order)
    with ExitStack() as exit_stack:
        entities, nodes, items = (exit_stack.enter_context(JsonSpool()) for _ in range(3))
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
        done, report = 0, progress or _untold
        async with aclosing(read_steps(api, order)) as pages:
            async for page in pages:
                await making.add(page)
                done += len(page)
                # Contents follow, whose number is not known yet.
                report(done, len(order) + len(making.data) + len(making.images))
        await making.finish(lambda contents, total: report(done + contents, done + total))
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
        for step in page:
            for record in (step.request, step.container):
                if record["uuid"] not in self.written:
                    self.written.add(record["uuid"])
                    self._note(self.writer.write_json(f"records/{record['uuid']}.json", record))
            self.entities.add(self.graph.step(step))
            self.nodes.add(self.prov.step(step))
            if self.workflow is not None:
                self.items.add([self.batch.step(step)])
                self._write_cwl(step)
            self.images[str(step.container["container_image"])] = None
            self.data |= {pdh: None for _, pdh, _ in inputs_of(step.container)}
            if step.container["output"]:
                self.data[str(step.container["output"])] = None
            self.name = str(step.request["name"] or step.request["uuid"])

    async def finish(self, report: Progress) -> None:
        """Write contents and metadata."""
        await self._write_contents(report)
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

    def _write_cwl(self, step: CrateStep) -> None:
        assert self.workflow is not None
        documents = cwl_of(step.container) if self.workflow.language == "cwl" else None
        # Workflows within workflows have runners too: the first one is the whole.
        if documents is not None and _CWL_FILE not in self.written:
            self.written.add(_CWL_FILE)
            for path, value in zip((_CWL_FILE, _JOB_FILE), documents, strict=True):
                self._note(self.writer.write_json(path, value))
            # The documents name tools and files of collections that no step has mounted.
            self.data |= dict.fromkeys(collections_of(list(documents)))

    async def _write_logs(self, page: Sequence[CrateStep]) -> None:
        logs = {
            str(step.container["uuid"]): str(step.container["log"])
            for step in page
            if step.container["log"] and step.container["uuid"] not in self.written
        }
        async with aclosing(
            signed_manifests(self.api, list(dict.fromkeys(logs.values())))
        ) as manifests:
            signed = {pdh: signed_manifest async for pdh, signed_manifest in manifests}
        for uuid, log in logs.items():
            tree = filetree.from_manifest(signed[log])
            for file in await write_tree(self.blocks, self.writer, f"logs/{uuid}", tree):
                self._note(file)

    async def _write_contents(self, report: Progress) -> None:
        """Write all manifests, and the files that the options ask for."""
        trees: dict[str, FileTree] = {}
        locators: dict[str, str] = {}
        hashes = sorted({**self.data, **self.images})
        number = 0
        async with aclosing(signed_manifests(self.api, hashes)) as manifests:
            async for pdh, signed in manifests:
                number += 1
                report(number, len(hashes))
                manifest_bytes = strip_signatures(signed).encode("utf-8", "surrogatepass")
                self._note(self.writer.write(f"manifests/{pdh}.txt", [manifest_bytes]))
                is_wanted = self.options.with_data and pdh in self.data
                if not is_wanted and not (self.options.with_images and pdh in self.images):
                    continue
                tree = trees[f"data/{pdh}"] = filetree.from_manifest(signed)
                for _, node in filetree.files(tree):
                    for segment in node.segments:
                        locators[filetree.bare(segment.locator)] = segment.locator
                files = await write_tree(self.blocks, self.writer, f"data/{pdh}", tree)
                for file in files:
                    self._note(file)
                paths = [file.path for file in files]
                self.entities.add(self.graph.content(pdh, paths, is_image=not is_wanted))
        for block in block_sources(trees)[1]:
            piece = await self.blocks.get(locators[block])
            self._note(self.writer.write(f"blocks/{block}", [piece]))


async def _find_workflow(api: ApiClient, uuids: Sequence[str]) -> CrateWorkflow | None:
    """The workflow of the requests: CWL if a request has run `arvados-cwl-runner`; None for a
    single request.
    """
    for start in range(0, len(uuids), _PAGE):
        some = uuids[start : start + _PAGE]
        rows = await rows_by_field(api, "container_requests", "uuid", some, ("uuid", "mounts"))
        if any(cwl_of(row) for row in rows):
            return CrateWorkflow(path=_CWL_FILE, language="cwl")
    return CrateWorkflow(path=_BATCH_FILE, language="lading") if len(uuids) > 1 else None


def _untold(done: int, total: int) -> None:
    """Ignore the progress."""
