"""Files in collections of Lading, as a storage of Snakemake sees them.

Nothing of Snakemake is imported here.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import lading
from lading.client.files.downloads import download
from lading.core.data import filetree, manifest
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Invalid, NotFound
from lading.core.ids import is_pdh, is_uuid

PREFIX = "lading://"
_QUERY = re.compile(r"lading://(?P<collection>[^/]+)/(?P<path>.+)")
_TIMES = "snakemake_times"
"""The property of a collection with the time at which each path got its content, and its hash."""
_STEADY = 1.0
"""The time of what never changes: in the past of every file."""


@dataclass(frozen=True)
class Query:
    """A file or directory of a collection, which is a portable data hash, a uuid or a name."""

    collection: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Query:
        """`lading://COLLECTION/PATH`. Raises Invalid."""
        found = _QUERY.fullmatch(text)
        if found is None or ".." in found["path"].split("/"):
            raise Invalid(f"{text}: write lading://COLLECTION/PATH")
        return cls(found["collection"], found["path"].strip("/"))


@dataclass
class _Known:
    record: dict[str, Any]
    tree: FileTree


class Collections:
    """Collections of a server. Each is read once, until it is written here."""

    def __init__(self, site: lading.Site) -> None:
        self.site = site
        self._known: dict[str, _Known | None] = {}
        self._lock = threading.Lock()

    def find(self, query: Query) -> File | FileTree | None:
        """Entry at the path, or None."""
        known = self._collection(query.collection)
        return None if known is None else filetree.find(known.tree, query.path)

    def files(self, name: str) -> list[str]:
        """The paths of all files of a collection."""
        known = self._collection(name)
        return [] if known is None else sorted(path for path, _ in filetree.files(known.tree))

    def size(self, query: Query) -> int:
        """Bytes of a file, of all files of a directory. Raises NotFound."""
        return filetree.total_size(self._subtree(query))

    def content(self, query: Query) -> str:
        """The portable data hash of the file or directory alone. Raises NotFound."""
        return _hash(self._subtree(query))

    def mtime(self, query: Query) -> float:
        """When the path got the content that it has; the same for ever in a collection that is
        named by its hash. Raises NotFound.
        """
        known = self._collection(query.collection)
        if known is None:
            raise NotFound(f"{query.collection}: no such collection")
        if is_pdh(query.collection):
            return _STEADY
        found = self._times(known).get(query.path)
        if found is not None and found[0] == self.content(query):
            return float(found[1])
        return _seconds(known.record["modified_at"])

    def retrieve(self, query: Query, place: Path) -> None:
        """Write the file or directory to a path here. Raises NotFound."""
        tree = self._subtree(query)
        is_file = isinstance(self.find(query), File)
        with tempfile.TemporaryDirectory(prefix=".lading-", dir=place.parent) as folder:
            inner = Path(folder, "content")
            self.site.call(download(self.site.blocks, tree, inner))
            made = inner / Path(query.path).name if is_file else inner
            if place.is_dir():
                shutil.rmtree(place)
            made.replace(place)

    def store(self, query: Query, source: Path) -> None:
        """Store a file or directory at the path; what is there is replaced. Raises Invalid for a
        collection that is named by its hash.
        """
        if is_pdh(query.collection):
            raise Invalid(f"{query.collection}: a hash names what it is; store under a name")
        content = self.site.put(source)
        piece = content + ("/" if source.is_dir() else f"/{source.name}")
        with self._lock:
            self._forget(query.collection)
            known = self._collection(query.collection)
            if known is None:
                made = self.site.call(
                    self.site.api.create("collections", {"name": query.collection})
                )
                known = _Known(made, FileTree())
            times = self._times(known)
            # The same content at the same place has not changed: it keeps its time.
            single = self._single(query, content, source)
            before = times.get(query.path)
            if before is None or before[0] != single:
                times[query.path] = [single, time.time()]
            self._update(query, known, piece, times)

    def remove(self, query: Query) -> None:
        """Remove the path from its collection."""
        with self._lock:
            self._forget(query.collection)
            known = self._collection(query.collection)
            if known is None or filetree.find(known.tree, query.path) is None:
                return
            times = {path: one for path, one in self._times(known).items() if path != query.path}
            self._update(query, known, "", times)

    def mount(self, query: Query) -> dict[str, Any] | None:
        """The mount that shows it in a container, or None if it is not there."""
        known = self._collection(query.collection)
        if known is None or filetree.find(known.tree, query.path) is None:
            return None
        content = known.record["portable_data_hash"]
        return {"kind": "collection", "portable_data_hash": content, "path": query.path}

    def _single(self, query: Query, content: str, source: Path) -> str:
        """The hash that `content` gives for the path: of the file under the name that it has
        there.
        """
        record = self.site.call(self.site.api.get("collections", content))
        tree = filetree.from_manifest(record["manifest_text"])
        if source.is_dir():
            return _hash(tree)
        file = filetree.get(tree, source.name)
        return _hash(filetree.from_files({_name(query): file}))

    def _update(self, query: Query, known: _Known, piece: str, times: dict[str, list[Any]]) -> None:
        record = known.record
        attributes = {"properties": {**(record.get("properties") or {}), _TIMES: times}}
        self.site.call(
            self.site.api.update(
                "collections",
                record["uuid"],
                attributes,
                replace_files={f"/{query.path}": piece},
            )
        )
        self._forget(query.collection)

    def _subtree(self, query: Query) -> FileTree:
        """The file or directory as a tree of its own. Raises NotFound."""
        found = self.find(query)
        if found is None:
            raise NotFound(f"{PREFIX}{query.collection}/{query.path}: no such file or directory")
        if isinstance(found, File):
            return filetree.from_files({_name(query): found})
        known = self._collection(query.collection)
        assert known is not None
        return filetree.subtree(known.tree, query.path)

    def _times(self, known: _Known) -> dict[str, list[Any]]:
        return dict((known.record.get("properties") or {}).get(_TIMES) or {})

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)

    def _collection(self, name: str) -> _Known | None:
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> _Known | None:
        api = self.site.api
        uuid = name
        if not (is_pdh(name) or is_uuid(name)):
            found = self.site.call(
                api.list(
                    "collections",
                    filters=[["name", "=", name]],
                    order=["modified_at desc"],
                    select=["uuid"],
                    limit=1,
                )
            )
            if not found:
                return None
            uuid = found[0]["uuid"]
        try:
            record = self.site.call(api.get("collections", uuid))
        except NotFound:
            return None
        return _Known(record, filetree.from_manifest(record["manifest_text"]))


def _name(query: Query) -> str:
    return Path(query.path).name


def _hash(tree: FileTree) -> str:
    return manifest.portable_data_hash(filetree.to_manifest(tree))


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
