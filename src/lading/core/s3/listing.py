"""Listings of keys: prefix, delimiter, pages.

Keys are listed in the order of their bytes in UTF-8, in which a directory stands by its name with a
slash. A directory that cannot hold a key of the page is never entered. An empty directory is listed
as a key that ends in a slash. Source: docs/spec/s3, section Listings.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from lading.core.data.filetree import File, FileTree, Node
from lading.core.s3.refusals import S3Refusal

MOST_KEYS: Final = 1000
"""Entries of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingQuery:
    """The keys asked for: those with `prefix` behind `after`, at most `limit`. Keys that have
    `delimiter` behind the prefix are joined to one entry; "" joins none.
    """

    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    limit: int = MOST_KEYS


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key; `file` is None for an empty directory."""

    key: str
    file: File | None


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """Keys that are joined, by their common beginning."""

    key: str


Entry = ListedKey | CommonPrefix


class DirectoryVisit(Enum):
    """Treatment of a directory by a listing."""

    SKIP = auto()
    JOIN = auto()
    ENTER = auto()


def visit(directory: str, query: ListingQuery) -> DirectoryVisit:
    """What a listing does with a directory, whose keys begin with `directory`."""
    prefix = query.prefix
    if not directory.startswith(prefix):
        return DirectoryVisit.ENTER if prefix.startswith(directory) else DirectoryVisit.SKIP
    if query.after >= directory and not query.after.startswith(directory):
        return DirectoryVisit.SKIP
    # Of a directory above, the delimiter in the name would have joined this one already.
    if query.delimiter == "/" and directory != prefix:
        return DirectoryVisit.SKIP if query.after >= directory else DirectoryVisit.JOIN
    return DirectoryVisit.ENTER


def list_tree(tree: FileTree, base: str, query: ListingQuery) -> Iterator[Entry]:
    """The entries of a tree, whose keys begin with `base`; more than a page, of which `fill_page`
    takes what it needs.
    """
    for name, node in sorted_entries(tree, base, query):
        key = f"{base}{name}"
        if isinstance(node, File):
            yield from _one_key(key, node, query)
            continue
        decision = visit(key, query)
        if decision is DirectoryVisit.JOIN:
            yield CommonPrefix(key)
        elif decision is DirectoryVisit.ENTER:
            below = list_tree(node, key, query) if node.entries else _one_key(key, None, query)
            yield from below


def sorted_entries(tree: FileTree, base: str, query: ListingQuery) -> list[tuple[str, Node]]:
    """The entries of a directory that can have a key of the page, in the order of keys."""
    prefix, after = query.prefix, query.after
    # Only names that go on as the prefix does: a directory may have very many.
    begin = prefix[len(base) :] if prefix.startswith(base) else ""
    first = begin.partition("/")[0]
    entries = []
    for name, node in tree.entries.items():
        if not name.startswith(first):
            continue
        written = f"{name}/" if isinstance(node, FileTree) else name
        key = f"{base}{written}"
        if key > after or after.startswith(key):
            entries.append((written, node))
    entries.sort(key=lambda entry: entry[0])
    return entries


def _one_key(key: str, file: File | None, query: ListingQuery) -> Iterator[Entry]:
    prefix, delimiter = query.prefix, query.delimiter
    if not key.startswith(prefix) or key <= query.after:
        return
    end = key.find(delimiter, len(prefix)) if delimiter else -1
    if end < 0:
        yield ListedKey(key, file)
    elif (joined := key[: end + len(delimiter)]) > query.after:
        yield CommonPrefix(joined)


@dataclass(slots=True)
class ListingPage:
    """A page; `is_cut`: more entries follow behind `last`."""

    query: ListingQuery
    keys: list[ListedKey] = field(default_factory=list[ListedKey])
    prefixes: list[str] = field(default_factory=list[str])
    is_cut: bool = False
    last: str = ""

    def add(self, entry: Entry) -> bool:
        """Add the next entry, unless it is joined with the last one; False when the page was full
        before.
        """
        if isinstance(entry, CommonPrefix) and self.prefixes[-1:] == [entry.key]:
            return True
        if len(self.keys) + len(self.prefixes) >= self.query.limit:
            # A page of no entries is never cut: a client would ask for ever.
            self.is_cut = self.query.limit > 0
            return False
        self.last = entry.key
        if isinstance(entry, CommonPrefix):
            self.prefixes.append(entry.key)
        else:
            self.keys.append(entry)
        return True


def fill_page(query: ListingQuery, entries: Iterable[Entry]) -> ListingPage:
    """The page of a query, from all entries in order."""
    page = ListingPage(query)
    for entry in entries:
        if not page.add(entry):
            break
    return page


def write_token(key: str) -> str:
    """A continuation token: the listing goes on behind this key."""
    return base64.urlsafe_b64encode(key.encode("utf-8", "surrogatepass")).decode()


def read_token(token: str) -> str:
    """The key of a continuation token. Raises S3Refusal."""
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except ValueError:
        raise S3Refusal(
            "InvalidArgument", "continuation-token: is none of an earlier page"
        ) from None


def read_limit(parameter: str, name: str, most: int = MOST_KEYS) -> int:
    """The number of entries of a page; `most` where the client asks for none or for more. Raises
    S3Refusal.
    """
    if not parameter:
        return most
    if not parameter.isascii() or not parameter.isdigit() or len(parameter) > 10:
        raise S3Refusal("InvalidArgument", f"{name}: must be a number from 0 to 2147483647")
    return min(int(parameter), most)
