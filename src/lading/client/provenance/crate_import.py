"""Imports a crate: its contents become collections with the same hashes.

Blocks are made again from the files of the crate; the store hashes each of them. Records of another
server stay documents: they are in a collection with the metadata of the crate, and count nowhere as
something that this server has run.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.files.collections import CollectionWriter
from lading.client.files.downloads import Progress
from lading.client.provenance.crate_reading import MOST_PARSED, CrateReader
from lading.core.data import filetree, locator, manifest
from lading.core.data.filetree import FileTree
from lading.core.errors import Conflict, Corrupt, LadingError, TooLarge
from lading.core.ids import is_pdh
from lading.core.provenance.block_sources import BlockPiece, block_sources
from lading.core.provenance.run_crate import METADATA, inputs_of

# Names of members of a crate that Lading has written.
_MANIFEST: Final = re.compile(r"manifests/([0-9a-f]{32}\+[0-9]+)\.txt")
_RECORD: Final = re.compile(r"records/([a-z0-9]{5}-(?:xvhdp|dz642)-[a-z0-9]{15})\.json")
_MOST_STORED: Final = 4
"""Bytes of blocks for a byte of the crate: blocks may overlap in files, but not without end."""
_MOST_MANIFESTS: Final = 512 << 20
_SMALL: Final = 8 << 20
"""Bytes of a document that is in memory as a whole."""
_SIZED: Final = re.compile(r"[0-9a-f]{32}\+[0-9]{1,10}(?![0-9])")
_EMPTY: Final = f"{locator.EMPTY_HASH}+0"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateRun:
    """A request of a crate with its container, as another server has recorded them."""

    request: Record
    container: Record


@dataclass(slots=True, kw_only=True)
class CrateContents:
    """Contents of a checked crate: runs, the earliest first, and manifests by hash.

    `sources` are the pieces of blocks in files of the crate; `block_paths` the files of
    whole blocks.
    """

    runs: list[CrateRun]
    manifests: dict[str, str]
    sources: dict[str, tuple[BlockPiece, ...]] = field(default_factory=dict)
    block_paths: dict[str, str] = field(default_factory=dict)

    def missing(self, pdh: str) -> list[str]:
        """The blocks of a content that are not in the crate."""
        return [
            block
            for block in dict.fromkeys(map(filetree.bare, manifest.locators(self.manifests[pdh])))
            if block not in self.sources and block not in self.block_paths and block != _EMPTY
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCrate:
    """Result of an import: the project, the hashes of new and of present collections, and the
    images that are neither in the crate nor in the store.
    """

    project_uuid: str
    collection_uuid: str
    new: tuple[str, ...]
    present: tuple[str, ...]
    absent_images: tuple[str, ...]


def read_contents(reader: CrateReader) -> CrateContents:
    """Contents of a crate, after `check`. Raises Corrupt or NotFound, naming the file at fault."""
    _check_sizes(reader)
    manifests, runs = {}, []
    for path in reader.paths:
        if match := _MANIFEST.fullmatch(path):
            manifests[match[1]] = _manifest(reader, path, match[1])
        elif (match := _RECORD.fullmatch(path)) and "-xvhdp-" in path:
            runs.append(_run(reader, match[1]))
    runs.sort(key=lambda run: (str(run.request.get("created_at")), str(run.request["uuid"])))
    return CrateContents(
        runs=runs,
        manifests=manifests,
        sources=_sources(reader, manifests),
        block_paths={
            path.removeprefix("blocks/"): path
            for path in reader.paths
            if path.startswith("blocks/")
        },
    )


def _check_sizes(reader: CrateReader) -> None:
    """Raise TooLarge if all manifests or all records are more than is read into memory."""
    for pattern, most in ((_MANIFEST, _MOST_MANIFESTS), (_RECORD, MOST_PARSED)):
        total = sum(reader.size(path) for path in reader.paths if pattern.fullmatch(path))
        if total > most:
            folder = pattern.pattern.partition("/")[0]
            raise TooLarge(f"{folder}/: has {total} bytes; at most {most} are read")


def _manifest(reader: CrateReader, path: str, pdh: str) -> str:
    """A manifest whose hash is right and whose blocks have sizes. Raises Corrupt."""
    text = reader.text(path)
    if manifest.portable_data_hash(text) != pdh:
        raise Corrupt(f"{path}: is not the manifest of this hash")
    if any(_SIZED.match(block) is None for block in manifest.locators(text)):
        raise Corrupt(f"{path}: names a block without its size")
    return text


def _sources(
    reader: CrateReader, manifests: Mapping[str, str]
) -> dict[str, tuple[BlockPiece, ...]]:
    """The blocks that files of the crate hold as a whole, with their pieces."""
    trees = {f"data/{pdh}": _tree(pdh, manifests) for pdh in _with_files(reader)}
    sources, _ = block_sources(trees)
    return {
        block: pieces
        for block, pieces in sources.items()
        if all(piece.path in reader.paths for piece in pieces)
    }


def contents_of(run: CrateRun) -> list[str]:
    """The hashes of the contents that a run has read and made."""
    output = run.container.get("output")
    hashes = [pdh for _, pdh, _ in inputs_of(run.container)]
    return list(dict.fromkeys([*hashes, *([str(output)] if output else ())]))


async def import_crate(
    api: ApiClient,
    blocks: BlockClient,
    reader: CrateReader,
    *,
    name: str,
    project: str | None = None,
    progress: Progress | None = None,
) -> ImportedCrate:
    """Store the contents of a crate, after `check`, in a new project or in `project`.

    Raises Conflict, naming it, for an input or output that is neither in the crate as a whole nor
    in the store; then nothing is stored. Raises Corrupt, TooLarge as the readers of the crate.
    """
    contents = read_contents(reader)
    contents_needed = {pdh: None for run in contents.runs for pdh in contents_of(run)}
    images = {str(run.container.get("container_image")): None for run in contents.runs}
    for pdh in contents_needed:
        if pdh not in contents.manifests:
            raise Conflict(f"manifests/{pdh}.txt: is missing in the crate")
    # All are looked up before anything is stored, so that an incomplete crate changes nothing.
    present = await _present(api, [*contents_needed, *images])
    stored, absent = _to_store(contents, contents_needed, images, present)
    signed = await _store_blocks(blocks, reader, contents, stored, progress)
    if project is None:
        attributes = {"name": f"Crate {name}", "group_class": "project"}
        group = await api.create("groups", attributes, ensure_unique_name=True)
        project = str(group["uuid"])
    await _store_collections(api, contents, stored, signed, project)
    collection = await _store_documents(api, blocks, reader, name=name, project=project)
    return ImportedCrate(
        project_uuid=project,
        collection_uuid=collection,
        new=tuple(stored),
        present=tuple(pdh for pdh in dict.fromkeys([*contents_needed, *images]) if pdh in present),
        absent_images=tuple(absent),
    )


def _to_store(
    contents: CrateContents,
    needed: Collection[str],
    images: Collection[str],
    present: Container[str],
) -> tuple[list[str], list[str]]:
    """The contents to store, and the images that are neither in the crate nor in the store."""
    stored, absent = [], []
    for pdh in dict.fromkeys([*needed, *images]):
        if pdh in present:
            continue
        lacking = contents.missing(pdh) if pdh in contents.manifests else ["its manifest"]
        if not lacking:
            stored.append(pdh)
        elif pdh in needed:
            raise Conflict(
                f"{pdh}: block {lacking[0]} is neither in the crate nor here; "
                "export it with --data, or store the collection first"
            )
        else:
            absent.append(pdh)
    return stored, absent


async def _store_collections(
    api: ApiClient,
    contents: CrateContents,
    stored: Sequence[str],
    signed: Mapping[str, str],
    project: str,
) -> None:
    """Create a collection for each of these contents. Raises Corrupt for another hash."""
    labels = _labels(contents)
    for pdh in stored:
        manifest_text = manifest.sign(
            contents.manifests[pdh], lambda block: signed.get(filetree.bare(block), block)
        )
        record = await api.create(
            "collections",
            {"name": labels.get(pdh, pdh), "manifest_text": manifest_text, "owner_uuid": project},
            ensure_unique_name=True,
        )
        if record["portable_data_hash"] != pdh:
            raise Corrupt(f"{pdh}: the store has given it another hash")


def _run(reader: CrateReader, uuid: str) -> CrateRun:
    request = reader.record(uuid)
    container_uuid = request.get("container_uuid")
    path = f"records/{uuid}.json"
    if not isinstance(container_uuid, str) or f"records/{container_uuid}.json" not in reader.paths:
        raise Corrupt(f"{path}: the record of its container is missing")
    container = reader.record(container_uuid)
    mounts = container.get("mounts")
    if not isinstance(mounts, dict) or not all(map(_is_mount, mounts.values())):
        raise Corrupt(f"records/{container_uuid}.json: has no mounts")
    for name in ("output", "container_image"):
        value = container.get(name)
        if value is not None and not is_pdh(str(value)):
            raise Corrupt(f"records/{container_uuid}.json: {name} is no hash")
    return CrateRun(request=request, container=container)


def _is_mount(mount: Any) -> bool:
    texts = ("kind", "portable_data_hash", "path")
    return isinstance(mount, dict) and all(
        isinstance(mount.get(name), str | None) for name in texts
    )


def _with_files(reader: CrateReader) -> list[str]:
    places = {
        path.split("/", 2)[1]
        for path in reader.paths
        if path.startswith("data/") and "/" in path[5:]
    }
    return sorted(places)


def _tree(pdh: str, manifests: Mapping[str, str]) -> FileTree:
    if pdh not in manifests:
        raise Corrupt(f"data/{pdh}: has no manifest in the crate")
    try:
        return filetree.from_manifest(manifests[pdh])
    except LadingError as error:
        raise Corrupt(f"manifests/{pdh}.txt: {error.message}") from error


async def _present(api: ApiClient, hashes: list[str]) -> set[str]:
    present: set[str] = set()
    for start in range(0, len(hashes), 100):
        some = hashes[start : start + 100]
        rows = await api.list(
            "collections",
            filters=[["portable_data_hash", "in", some]],
            select=["portable_data_hash"],
            distinct=True,
            limit=len(some),
        )
        present |= {str(row["portable_data_hash"]) for row in rows}
    return present


async def _store_blocks(
    blocks: BlockClient,
    reader: CrateReader,
    contents: CrateContents,
    stored: list[str],
    progress: Progress | None,
) -> dict[str, str]:
    """Store the blocks of these contents; the signed locators by hash and size."""
    blocks_needed = {
        filetree.bare(block_locator): None
        for pdh in stored
        for block_locator in manifest.locators(contents.manifests[pdh])
    }
    sizes = {block: int(block.partition("+")[2]) for block in blocks_needed}
    total = sum(sizes.values())
    # The crate is a stranger's: a few bytes of it must not name petabytes to be stored.
    if total > _MOST_STORED * sum(reader.size(path) for path in reader.paths):
        raise TooLarge(
            f"{reader.path}: names {total} bytes of blocks, far more than its files have"
        )
    signed: dict[str, str] = {}
    done = 0
    for block, size in sizes.items():
        if size > locator.MAX_BLOCK:
            raise TooLarge(f"{block}: is larger than a block can be")
        if size == 0:
            continue
        if block in contents.block_paths:
            data = b"".join(reader.pieces(contents.block_paths[block], 0, size))
        else:
            data = b"".join(
                piece
                for source in contents.sources[block]
                for piece in reader.pieces(source.path, source.position, source.length)
            )
        stored_locator = await blocks.put(data)
        # The store hashes what it gets: a crate cannot place other bytes under a known hash.
        if filetree.bare(stored_locator) != block:
            raise Corrupt(f"{block}: the files of the crate give another block")
        signed[block] = stored_locator
        done += size
        if progress is not None:
            progress(done, total)
    return signed


async def _store_documents(
    api: ApiClient, blocks: BlockClient, reader: CrateReader, *, name: str, project: str
) -> str:
    """Store all of a crate but data and blocks as one collection; its uuid."""
    async with CollectionWriter(blocks) as writer:
        for path in reader.documents():
            # Larger ones go through a file, so that memory stays bounded.
            if reader.size(path) <= _SMALL:
                await writer.add_bytes(path, b"".join(reader.pieces(path)))
                continue
            with tempfile.NamedTemporaryFile() as spool:
                for piece in reader.pieces(path):
                    spool.write(piece)
                spool.flush()
                await writer.add_file(path, Path(spool.name))
        manifest_text = await writer.finish()
    properties = {"crate": name, **({"signed_by": reader.signer} if reader.signer else {})}
    record = await api.create(
        "collections",
        {
            "name": f"Crate {name}",
            "manifest_text": manifest_text,
            "owner_uuid": project,
            "properties": properties,
        },
        ensure_unique_name=True,
    )
    return str(record["uuid"])


def _labels(contents: CrateContents) -> dict[str, str]:
    """Names of collections, from the names of the requests."""
    labels: dict[str, str] = {}
    for run in contents.runs:
        name = _plain(run.request.get("name") or run.request["uuid"])
        if run.container.get("output"):
            labels.setdefault(str(run.container["output"]), f"Output of {name}")
        labels.setdefault(str(run.container.get("container_image")), f"Image of {name}")
    for run in contents.runs:
        name = _plain(run.request.get("name") or run.request["uuid"])
        for target, pdh, _ in inputs_of(run.container):
            labels.setdefault(pdh, f"Input {_plain(target)} of {name}")
    return labels


def _plain(value: Any) -> str:
    """A stranger's text in a form that a name can have."""
    text = "".join(
        character if character.isprintable() and character != "/" else " "
        for character in str(value)
    )
    return text.strip()[:80]


def crate_name(reader: CrateReader) -> str:
    """The name of the crate in its metadata. Raises NotFound, Corrupt."""
    # Too large to be parsed for a name alone.
    if reader.size(METADATA) > MOST_PARSED:
        return "of many steps"
    try:
        graph = json.loads(reader.text(METADATA))["@graph"]
        name = next(entity["name"] for entity in graph if entity["@id"] == "./")
    except (ValueError, KeyError, TypeError, StopIteration, RecursionError) as error:
        raise Corrupt(f"{METADATA}: is no metadata of a crate") from error
    return _plain(name) or "without a name"
