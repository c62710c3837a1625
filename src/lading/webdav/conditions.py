"""Conditions of requests for files, and headers of the answers (RFC 9110, 8.8 and 13).

- Conditions (RFC 9110, 13): If-Match and If-Unmodified-Since refuse with 412. If-None-Match and
  If-Modified-Since answer a reader with 304 and a writer with 412. If-Match and If-Range use the
  strong comparison of entity tags, If-None-Match the weak one.
- Headers: files come from users and are served from the origin of the API. So every file is sent
  with `nosniff`, and every type that a browser could run (HTML, SVG, XML, all types not known as
  harmless) in a sandbox without scripts and origin. The type follows from the name by a table in
  this module, since the tables of machines differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from enum import Enum
from mimetypes import MimeTypes
from typing import Final
from urllib.parse import quote

# An entity tag of RFC 9110, section 8.8.3.
_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
# Suffixes that browsers show as text, besides those of Python's table.
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
_SANDBOX: Final = (
    "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'"
)
SAFE_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class ConditionResult(Enum):
    """Result of the conditions of a request."""

    GO_ON = 200
    NOT_MODIFIED = 304
    REFUSED = 412


@dataclass(frozen=True, slots=True)
class ResourceState:
    """Present state: entity tag without quotes, "" for no file; time of the last change, if
    known.
    """

    tag: str = ""
    modified: datetime | None = None


def judge_conditions(
    headers: Mapping[str, str], state: ResourceState, *, reads: bool
) -> ConditionResult:
    """Evaluate the conditions of a request."""
    wanted, unwanted = headers.get("if-match"), headers.get("if-none-match")
    # RFC 9110, 13.2.2: If-Unmodified-Since is ignored if there is an If-Match, and so below.
    if wanted is not None:
        if not _names(wanted, state, weak=False):
            return ConditionResult.REFUSED
    elif _changed_since(headers.get("if-unmodified-since"), state):
        return ConditionResult.REFUSED
    if unwanted is not None:
        if _names(unwanted, state, weak=True):
            return ConditionResult.NOT_MODIFIED if reads else ConditionResult.REFUSED
    elif reads and _changed_since(headers.get("if-modified-since"), state) is False:
        return ConditionResult.NOT_MODIFIED
    return ConditionResult.GO_ON


def range_holds(headers: Mapping[str, str], state: ResourceState) -> bool:
    """Whether If-Range permits a range of the present state."""
    given = headers.get("if-range")
    if given is None:
        return True
    match = _TAG.fullmatch(given.strip())
    if match is not None:
        # If-Range requires a strong tag.
        return not match[1] and match[2] == state.tag
    moment = _moment(given)
    return (
        moment is not None
        and state.modified is not None
        # HTTP dates have whole seconds.
        and moment == state.modified.replace(microsecond=0)
    )


def http_date(moment: datetime) -> str:
    """A time in the format of HTTP headers."""
    return format_datetime(moment.astimezone(UTC).replace(microsecond=0), usegmt=True)


def _names(header: str, state: ResourceState, *, weak: bool) -> bool:
    if header.strip() == "*":
        return bool(state.tag)
    return any(
        # "*" is any existing file.
        match[2] == state.tag and (weak or not match[1])
        for match in _TAG.finditer(header)
    ) and bool(state.tag)


def _changed_since(header: str | None, state: ResourceState) -> bool | None:
    moment = _moment(header) if header else None
    if moment is None or state.modified is None:
        # None: the header is invalid or the time is unknown, so the condition does not apply.
        return None
    return state.modified.replace(microsecond=0) > moment


def _moment(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _known() -> MimeTypes:
    table = MimeTypes(())
    for suffix in _TEXT:
        table.add_type("text/plain", suffix)
    for suffix in _BYTES:
        table.add_type("application/octet-stream", suffix)
    return table


_TYPES: Final = _known()


def media_type_of(name: str) -> str:
    """The Content-Type of a file, by its name."""
    guessed, encoding = _TYPES.guess_type(f"/{name}")
    if encoding:
        # A compressed file is sent unchanged, so its type is that of the compression.
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
    return headers if harmless else {**headers, "Content-Security-Policy": _SANDBOX}


def disposition(way: str, name: str) -> str:
    """A Content-Disposition header with an arbitrary file name, encoded."""
    # The plain form for old clients; the encoded form is RFC 6266.
    plain = "".join(
        one if one.isascii() and one.isprintable() and one not in '"\\%;' else "_" for one in name
    )
    exact = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'{way}; filename="{plain}"{exact}'
