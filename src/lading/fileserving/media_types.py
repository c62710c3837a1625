"""Media types of files, and the headers that make it safe to show them.

Files come from users and are served from the origin of the API. So every file is sent with
`nosniff`, and every type that a browser could run (HTML, SVG, XML, all types not known as harmless)
in a sandbox without scripts and origin. The type follows from the name by a table in this module,
since the tables of machines differ.
"""

from __future__ import annotations

from mimetypes import MimeTypes
from typing import Final
from urllib.parse import quote

# Suffixes that browsers show as text, besides the suffixes of Python's table.
_TEXT: Final = (
    ".bed", ".cfg", ".cwl", ".fa", ".fai", ".fasta", ".fastq", ".fq", ".gff", ".gtf", ".ini",
    ".log", ".md", ".nf", ".out", ".err", ".r", ".sam", ".sh", ".toml", ".vcf", ".wdl", ".yaml",
    ".yml",
)  # fmt: skip
_BYTES: Final = (".bam", ".bai", ".bcf", ".cram", ".bin", ".exe")
# Types without scripts; they need no sandbox.
_HARMLESS: Final = (
    "text/plain",
    "text/csv",
    "text/css",
    "application/json",
    "application/pdf",
    "application/zip",
)
_HARMLESS_KINDS: Final = ("image/", "audio/", "video/", "font/")
SANDBOX: Final = (
    "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'"
)
"""Content-Security-Policy of a file that a browser might run."""
SAFE_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def _type_table() -> MimeTypes:
    table = MimeTypes(())
    for suffix in _TEXT:
        table.add_type("text/plain", suffix)
    for suffix in _BYTES:
        table.add_type("application/octet-stream", suffix)
    return table


_TYPES: Final = _type_table()


def media_type_of(name: str) -> str:
    """The Content-Type of a file, by its name."""
    guessed, encoding = _TYPES.guess_type(f"/{name}")
    if encoding:
        # A compressed file is sent unchanged, so its type is the type of the compression.
        return f"application/{'gzip' if encoding == 'gzip' else 'octet-stream'}"
    found = guessed or "application/octet-stream"
    return (
        f"{found}; charset=utf-8"
        if found.startswith("text/") or found == "application/json"
        else found
    )


def headers_of(name: str, *, attachment: bool) -> dict[str, str]:
    """The headers of a file: type, disposition, sandbox."""
    kind = media_type_of(name)
    bare = kind.partition(";")[0]
    # SVG is an image that can contain scripts.
    harmless = bare in _HARMLESS or (bare.startswith(_HARMLESS_KINDS) and "svg" not in bare)
    # Bytes of an unknown kind are downloaded, not shown.
    way = "attachment" if attachment or bare == "application/octet-stream" else "inline"
    headers = {"Content-Type": kind, "Content-Disposition": disposition(way, name), **SAFE_HEADERS}
    return headers if harmless else {**headers, "Content-Security-Policy": SANDBOX}


def disposition(way: str, name: str) -> str:
    """A Content-Disposition header with an arbitrary file name, encoded."""
    # The plain form for old clients; the encoded form is RFC 6266.
    plain = "".join(
        character
        if character.isascii() and character.isprintable() and character not in '"\\%;'
        else "_"
        for character in name
    )
    exact = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'{way}; filename="{plain}"{exact}'
