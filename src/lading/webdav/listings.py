"""Directory listings: HTML without scripts, and JSON.

All names and addresses are escaped, and the page may load nothing. Large listings are streamed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from typing import Final

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree, Node
from lading.core.records.schema import JSON
from lading.webdav.addresses import FileAddress
from lading.webdav.archives import Format
from lading.webdav.collection_cache import CachedCollection
from lading.webdav.conditions import http_date
from lading.webdav.media_types import SAFE

# In one string: its hash is in the policy below, which allows no other style.
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;"
    "color:#222;background:#fff}"
    "h1{font-size:1.2em;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}"
    "td,th{padding:.25em .6em;text-align:left;border-bottom:1px solid #ddd;overflow-wrap:anywhere}"
    "td+td,th+th{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    "a{color:#06c;text-decoration:none}a:hover{text-decoration:underline}p,footer{color:#555}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}"
    "a{color:#6af}td,th{border-color:#444}}"
)
# The page may load nothing and run nothing; only this style applies.
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)
HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": _POLICY,
    **SAFE,
}
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# Rows per piece.
_BATCH: Final = 500


def entries(tree: FileTree) -> list[tuple[str, Node]]:
    """Directories first, then files, each by name."""
    return sorted(tree.entries.items(), key=lambda one: (isinstance(one[1], File), one[0]))


def document(shelf: CachedCollection, address: FileAddress, tree: FileTree) -> JSON:
    """The JSON listing: {collection, portable_data_hash, path, items: [{name, type, size}]}."""
    return {
        "collection": address.collection,
        "portable_data_hash": shelf.pdh,
        "path": address.path,
        "items": [
            {"name": name, "type": "file", "size": node.size}
            if isinstance(node, File)
            else {"name": name, "type": "directory"}
            for name, node in entries(tree)
        ],
    }


def page(shelf: CachedCollection, address: FileAddress, tree: FileTree) -> Iterator[str]:
    """The HTML listing, in pieces."""
    found = entries(tree)
    title = escape(f"{shelf.name}/{address.path}".rstrip("/"))
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>{_trail(shelf, address)}</h1>\n"
    )
    yield f"<p>{_summary(found)}{_downloads(address) if found else ''}</p>\n"
    yield "<table>\n<tr><th>Name</th><th>Size</th></tr>\n"
    for start in range(0, len(found), _BATCH):
        yield "".join(_row(address, name, node) for name, node in found[start : start + _BATCH])
    changed = f", last changed {http_date(shelf.modified)}" if shelf.modified else ""
    yield (
        f"</table>\n<footer><p>{escape(shelf.uuid)}, content {escape(shelf.pdh)}{changed}</p>"
        "</footer>\n"
    )
    yield "</body></html>\n"


def size_text(size: int) -> str:
    """Human-readable size."""
    value, unit = float(size), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _trail(shelf: CachedCollection, address: FileAddress) -> str:
    elements = address.path.split("/") if address.path else []
    parts = [f'<a href="{escape(address.url("", folder=True))}">{escape(shelf.name)}</a>']
    for number, element in enumerate(elements, 1):
        above = address.url("/".join(elements[:number]), folder=True)
        parts.append(f'<a href="{escape(above)}">{escape(element)}</a>')
    return " / ".join(parts)


def _summary(found: list[tuple[str, Node]]) -> str:
    files = [node for _, node in found if isinstance(node, File)]
    folders = len(found) - len(files)
    if not found:
        return "Nothing is in this directory."
    return (
        f"{_count(folders, 'directory', 'directories')}, {_count(len(files), 'file', 'files')} of "
        + size_text(sum(file.size for file in files))
    )


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _downloads(address: FileAddress) -> str:
    here = escape(address.url(address.path, folder=True))
    links = (f'<a href="{here}?format={one}" download>{one}</a>' for one in Format)
    return f". All of it as {' or '.join(links)}."


def _row(address: FileAddress, name: str, node: Node) -> str:
    folder = isinstance(node, FileTree)
    path = f"{address.path}/{name}" if address.path else name
    shown = escape(f"{name}/" if folder else name)
    size = "" if isinstance(node, FileTree) else size_text(node.size)
    return (
        f'<tr><td><a href="{escape(address.url(path, folder=folder))}">{shown}</a></td>'
        f"<td>{size}</td></tr>\n"
    )


def subtree(tree: FileTree, path: str) -> FileTree:
    """The directory at `path` as a tree with this one directory; the whole tree for the root."""
    # The archive contains the directory under its name.
    name = path.rpartition("/")[2]
    found = filetree.subtree(tree, path)
    return FileTree({name: found}) if name else found
