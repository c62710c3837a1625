"""Manifests in calls and answers: verified, spliced, stripped of signatures, and signed.

Source: docs/spec/api, sections Collections and Manifests. Stored manifests have no signatures; an
answer is signed for the calling token. Admins may store unsigned locators if the scopes of their
token let them read collections; other callers prove with a signature that they could read the
block. The scopes of the token must include a GET of each content that `replace_files` names. Large
texts are worked on in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from lading.api.authorization import check_content_scope
from lading.api.http import ApiCall
from lading.api.mounts.tree_cache import TREES, Trees
from lading.api.server.blocks import Blocks
from lading.api.server.identifiers import ApiClock
from lading.config.site import Config
from lading.core import ids
from lading.core.data import filetree, locator, manifest, placement, splice
from lading.core.data.filetree import FileTree
from lading.core.data.splice import Repoint, SpliceSource
from lading.core.errors import Forbidden, Invalid, LadingError, Malformed, NotFound
from lading.core.quantities import parse_time
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import REQUESTS
from lading.core.records.expressions import Among, Column, Compare, Either, Expression
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record, Type
from lading.store import records
from lading.store.containers import attempts
from lading.store.database import Database, Transaction

# Characters from which a manifest is worked on in a thread: shorter ones take less time than the
# switch to a thread and back.
LARGE: Final = 1 << 18
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Splicing:
    """The splices of a call: sources by target, and segments."""

    files: Mapping[str, SpliceSource]
    segments: tuple[Repoint, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.segments)


def not_trashed(now: str) -> Expression:
    """The condition that a collection is not in the trash."""
    trash_at = Column("trash_at", Type.TIME)
    return Either((Compare(trash_at, "=", None), Compare(trash_at, ">", now)))


async def find_content(tx: Transaction, clock: ApiClock, principal: Principal, pdh: str) -> Record:
    """A readable collection outside the trash with this content, the one that is kept longest.
    Raises NotFound.
    """
    parts = pdh.split("+")
    bare_pdh = "+".join(parts[:2])
    if not ids.is_pdh(bare_pdh):
        raise NotFound(f"Path not found: {pdh[:80]!r} is neither a uuid nor a portable data hash")
    now = clock.now()
    where = (
        records.equals(COLLECTIONS, "portable_data_hash", bare_pdh),
        not_trashed(now),
        *access.readable(COLLECTIONS, principal, now=now),
    )
    collections = await records.find(tx, tx.dialect, COLLECTIONS, where)
    if not collections:
        return await _find_log(tx, clock, principal, bare_pdh)
    # Signatures end with the trash time: the collection that is kept longest gives the longest
    # ones.
    return max(
        collections,
        key=lambda collection: (collection["trash_at"] is None, collection["trash_at"] or ""),
    )


async def _find_log(tx: Transaction, clock: ApiClock, principal: Principal, pdh: str) -> Record:
    """The log with this content of a container of a readable request, or of an earlier attempt.
    Raises NotFound.
    """
    requests = await attempts.requests_with_log(tx, pdh)
    if requests:
        named = Among(Column("uuid", Type.STRING), tuple(requests))
        where = (named, *access.readable(REQUESTS, principal, now=clock.now()))
        if await records.exists(tx, tx.dialect, REQUESTS, where):
            for row in await records.matching(tx, COLLECTIONS, portable_data_hash=pdh):
                # It is in the trash, but kept as long as the request is.
                return {**row, "trash_at": None}
    raise NotFound(f"Path not found: no collection with content {pdh}")


def read_splicing(call: ApiCall, attributes: Record) -> Splicing:
    """The splices in the parameters of a call. Raises Malformed."""
    files, segments = call.params.get("replace_files"), call.params.get("replace_segments")
    return Splicing(
        splice.read_files(files, supplied=bool(attributes.get("manifest_text"))) if files else {},
        splice.read_segments(segments) if segments else (),
    )


async def read_content(
    call: ApiCall,
    attributes: Record,
    stored: Record | None,
    splicing: Splicing,
    *,
    sent_locators: frozenset[str] = frozenset(),
) -> Record:
    """The manifest that results from a call, and the attributes that follow from it; empty if the
    call does not change the content.

    `attributes` are the attributes sent, `stored` the present record, None on create. Blocks whose
    locators are among `sent_locators` came with the call and need no signature. Raises Invalid for
    a wrong manifest or hash, Malformed for a splicing, Forbidden for a block that the caller could
    not read.
    """
    services, principal = call.services, call.caller
    manifest_text = attributes.get("manifest_text")
    # The content is not part of the call: a client that sends the whole record back sends its hash.
    if manifest_text is None and not splicing and stored is not None:
        _check_hash(attributes, stored["portable_data_hash"])
        return {}
    supplied = manifest_text or ""
    counts = await _apart(
        # The check looks at each word: that of a large manifest would hold up all other calls.
        len(supplied),
        lambda: _check_manifest(
            services.clock, services.config, principal, supplied, sent_locators
        ),
    )
    if not splicing:
        content = await _apart(
            len(supplied), lambda: _facts(manifest.strip_signatures(supplied), *counts)
        )
        _check_hash(attributes, content["portable_data_hash"])
        return content
    await _apart(
        0, lambda: _check_segments(services.clock, services.config, principal, splicing.segments)
    )
    current = stored["manifest_text"] if stored is not None else ""
    contents = await _fetch(
        services.database, services.clock, principal, splice.contents_of(splicing.files)
    )
    size = len(supplied) + len(current) + sum(map(len, contents.values()))
    content = await _apart(
        size, lambda: _spliced(services.features[TREES], splicing, current, manifest_text, contents)
    )
    _check_hash(attributes, content["portable_data_hash"])
    return content


async def sign(
    clock: ApiClock, config: Config, principal: Principal, manifest_text: str, trash_at: str | None
) -> str:
    """The manifest, signed for a token until the signature's lifetime or the trash time ends,
    whichever is first.
    """
    return await _apart(
        len(manifest_text), lambda: _sign(clock, config, principal, manifest_text, trash_at)
    )


async def _fetch(
    database: Database, clock: ApiClock, principal: Principal, hashes: set[str]
) -> dict[str, str]:
    if not hashes:
        return {}
    async with database.reading() as tx:
        for pdh in sorted(hashes):
            # All scopes before the first content: the error must not depend on which contents
            # exist.
            await check_content_scope(tx, clock, principal, pdh, "replace_files")
        try:
            return {
                pdh: (await find_content(tx, clock, principal, pdh))["manifest_text"]
                for pdh in sorted(hashes)
            }
        except NotFound as error:
            raise Malformed(f"replace_files: {error.message}") from None


async def _apart(size: int, work: Callable[[], _Result]) -> _Result:
    """The result of work on a text, in a thread if the text is large."""
    return await asyncio.to_thread(work) if size > LARGE else work()


def _spliced(
    trees: Trees,
    splicing: Splicing,
    current: str,
    supplied: str | None,
    contents: Mapping[str, str],
) -> Record:
    before = trees.read(current)
    sent = filetree.from_manifest(manifest.strip_signatures(supplied or ""))
    tree = before
    if splicing.files:
        source_trees: dict[str, FileTree] = {
            pdh: trees.read(manifest_text) for pdh, manifest_text in contents.items()
        }
        tree = splice.replace_files(before, splicing.files, supplied=sent, contents=source_trees)
    elif supplied is not None:
        tree = sent
    if splicing.segments:
        tree = splice.replace_segments(tree, splicing.segments)
    try:
        rendered = filetree.to_manifest(tree)
        # The tree is remembered for the next call only under a text without signatures, which is
        # what is stored.
        stored_text = manifest.strip_signatures(rendered)
        if stored_text == rendered:
            trees.note(stored_text, tree)
        return _facts(stored_text, *manifest.check_total(*filetree.counts(tree)))
    except (Invalid, Malformed) as error:
        raise Malformed(f"replace_files: {error.message}") from None


def _facts(manifest_text: str, files: int, size: int) -> Record:
    """The stored attributes that follow from a manifest without signatures."""
    return {
        "manifest_text": manifest_text,
        "portable_data_hash": manifest.portable_data_hash(manifest_text),
        "file_count": files,
        "file_size_total": size,
    }


def _check_hash(attributes: Record, computed: str) -> None:
    sent = attributes.get("portable_data_hash")
    if sent and str(sent).partition("+")[0] != computed.partition("+")[0]:
        raise Invalid(f"Portable data hash '{sent}' does not match computed hash '{computed}'")


def _check_manifest(
    clock: ApiClock,
    config: Config,
    principal: Principal,
    manifest_text: str,
    sent_locators: frozenset[str],
) -> tuple[int, int]:
    """Number of files, and their bytes."""
    try:
        counts = manifest.counts(manifest_text)
    except Malformed as error:
        raise Invalid(f"manifest_text: {error.message}") from None
    named = [
        block_locator
        for block_locator in manifest.locators(manifest_text)
        if block_locator not in sent_locators
    ]
    _check_locators(clock, config, principal, named, "manifest_text")
    return counts


def _check_segments(
    clock: ApiClock, config: Config, principal: Principal, segments: tuple[Repoint, ...]
) -> None:
    _check_locators(
        clock, config, principal, [segment.new.locator for segment in segments], "replace_segments"
    )


def _check_locators(
    clock: ApiClock, config: Config, principal: Principal, locators: list[str], where: str
) -> None:
    settings = config.Collections
    if not settings.BlobSigning or (
        principal.is_admin and access.covers_list(principal, COLLECTIONS)
    ):
        return
    now, ttl, key = (
        int(clock.time().timestamp()),
        int(settings.BlobSigningTTL),
        settings.BlobSigningKey,
    )
    for block_locator in dict.fromkeys(locators):
        # The empty block is no secret.
        if block_locator.startswith(locator.EMPTY_BLOCK):
            continue
        try:
            locator.verify(block_locator, token=principal.token, ttl=ttl, key=key, now=now)
        except LadingError as error:
            raise Forbidden(f"Forbidden: {where}: {error.message}") from None


def _sign(
    clock: ApiClock, config: Config, principal: Principal, manifest_text: str, trash_at: str | None
) -> str:
    settings = config.Collections
    now = clock.time()
    expiry = now + timedelta(seconds=settings.BlobSigningTTL)
    if trash_at is not None:
        trashed = parse_time(trash_at)
        if trashed <= now:
            return manifest_text
        expiry = min(expiry, trashed)
    if not settings.BlobSigning or not settings.BlobSigningKey:
        return manifest_text
    until, ttl = int(expiry.timestamp()), int(settings.BlobSigningTTL)
    return manifest.sign(
        manifest_text,
        lambda block_locator: locator.signed(
            block_locator, token=principal.token, expiry=until, ttl=ttl, key=settings.BlobSigningKey
        ),
    )


async def confirm_classes(clock: ApiClock, blocks: Blocks, record: Record) -> Record:
    """The attributes of a collection that say which of its desired storage classes its blocks are
    in now. Call it outside of transactions: it may ask volumes.
    """
    classes = await blocks.classes(
        manifest.locators(record["manifest_text"]), record["storage_classes_desired"]
    )
    return placement.confirmation(classes, clock.now())
