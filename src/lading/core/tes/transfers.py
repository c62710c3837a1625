"""Transfers of a task: its inputs are fetched before it runs, its outputs delivered afterwards.

    FETCHING -> RUNNING -> DELIVERING -> DONE
       |           |            |
       +-----------+------------+--> FAILED, CANCELLED

* A task with an input by URL is an Uncommitted request while FETCHING, and committed then.
* An object is fetched once: `object_key` names it by its URL and its validator, which is a strong
ETag, or the time of its last change with its size. Without either it is fetched again.
* A checksum that the server names is compared with the bytes that came (`checksums`).
* A task is delivered when its container is Complete, whatever the exit code; with keep_on_failure
also when a limit or a fault of the machine ended it.

Source: docs/spec/transfers.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lading.core.containers.container import ContainerState
from lading.core.tes.document_shapes import objects, string
from lading.core.tes.file_roots import FileRoot, find_live_root
from lading.core.tes.locations import LocationScheme, parse_location
from lading.core.values import JsonObject

# The Content-Range of RFC 9110, section 14.4; the length may be unknown.
_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/(?:[0-9]{1,18}|\*)")
# S3 gives the MD5 of an object as its entity tag, unless it was stored in parts.
_ETAG_MD5 = re.compile(r'"([0-9a-f]{32})"')
MOST_FAILURES = 6
"""Attempts of a transfer in a row that bring nothing, after which it is given up."""
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_ASKED = 0.5, 30.0, 120.0


class TransferPhase(StrEnum):
    """Progress of the transfers of a task."""

    FETCHING = "fetching"
    RUNNING = "running"
    DELIVERING = "delivering"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({TransferPhase.DONE, TransferPhase.FAILED, TransferPhase.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTransfer:
    """The stored transfer of a task. `user_uuid` is the user who created the task, `note` a
    sentence on what goes on or why it failed, `failures` counts attempts that the server itself
    could not carry out. `task` is the checked document, `request` the attributes of its request,
    both as they were created: others may change the record, but not what is done for its user.
    """

    request_uuid: str
    user_uuid: str
    phase: TransferPhase
    note: str = ""
    failures: int = 0
    task: JsonObject = field(default_factory=dict)
    request: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WaitingTransfer:
    """A transfer that nobody works on, and the user who created its task."""

    request_uuid: str
    user_uuid: str


def next_transfers(
    waiting: Sequence[WaitingTransfer], active: Mapping[str, int], most: int
) -> list[str]:
    """The requests whose transfers begin now. `waiting` has the longest waiting one first, `active`
    the transfers of each user that go on, `most` is the number at a time.

    Users take turns: the user with the fewest comes first. A user begins a further one only while
    more places are free than the user has: of 8 places one user gets 4, the next one 2, then 1,
    and the last is for a fourth. So slow transfers of a few users hold up no other one, and each
    user has one at least. A user's first one needs a free place alone.
    """
    counts = dict(active)
    queues: dict[str, deque[str]] = {}
    for transfer in waiting:
        queues.setdefault(transfer.user_uuid, deque()).append(transfer.request_uuid)
    chosen: list[str] = []
    free = most - sum(counts.values())
    while free > 0 and queues:
        # Of equals, the one that has waited longest: `min` takes the first.
        user = min(queues, key=lambda name: counts.get(name, 0))
        if counts.get(user, 0) >= free:
            break
        chosen.append(queues[user].popleft())
        if not queues[user]:
            del queues[user]
        counts[user] = counts.get(user, 0) + 1
        free -= 1
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTask:
    """A task that ran, whose request is Final or `is_deleted`: the state of its container and the
    uuid of its output collection, "" for none. `keeps`: its outputs are wanted although its
    container was ended by a limit or a fault; `is_cancelled`: nobody wants it any more.
    """

    request_uuid: str
    is_deleted: bool = False
    container_state: str = ""
    output_uuid: str = ""
    keeps: bool = False
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredFile:
    """A file that was delivered to a URL: its size in bytes, and its checksum."""

    url: str
    size: int
    checksum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFacts:
    """Facts that a server reports about an object: its size in bytes or None, `validator` of
    `validator_of`, `etag` if it is strong, and its checksums by algorithm (md5, sha256), in
    hexadecimal digits.
    """

    size: int | None = None
    validator: str = ""
    etag: str = ""
    checksums: tuple[tuple[str, str], ...] = ()


def is_fetched(task_input: Mapping[str, object], roots: Collection[FileRoot] = ()) -> bool:
    """Whether an input of a checked task is fetched from a URL before the task runs. `roots` are
    those of `file` URLs; what is in a live one is mounted.
    """
    url = task_input.get("url")
    if "content" in task_input or not isinstance(url, str):
        return False
    if live_place(task_input, roots) is not None:
        return False
    return parse_location(url).scheme is not LocationScheme.KEEP


def live_place(
    task_input: Mapping[str, object], roots: Collection[FileRoot]
) -> tuple[FileRoot, str] | None:
    """The live root of an input of a checked task, and the path below it; None for another
    input.
    """
    url = task_input.get("url")
    if "content" in task_input or not isinstance(url, str):
        return None
    location = parse_location(url)
    path = location.path.rstrip("/")
    if location.scheme is not LocationScheme.FILE:
        return None
    root = find_live_root(roots, path)
    return None if root is None else (root, path[len(root.prefix) :].strip("/"))


def is_delivered(output: JsonObject) -> bool:
    """Whether an output of a checked task is delivered to a URL."""
    return parse_location(string(output, "url")).scheme is not LocationScheme.KEEP


def first_phase(task: JsonObject, roots: Collection[FileRoot] = ()) -> TransferPhase | None:
    """The first phase of a checked task; None if nothing is transferred."""
    if any(is_fetched(task_input, roots) for task_input in objects(task, "inputs")):
        return TransferPhase.FETCHING
    return phase_of_committed(task)


def phase_of_committed(task: JsonObject) -> TransferPhase | None:
    """The phase of a task that waits or runs; None if no output has to be delivered."""
    delivers = any(is_delivered(output) for output in objects(task, "outputs"))
    return TransferPhase.RUNNING if delivers else None


def phase_of_ended(ended: EndedTask) -> TransferPhase:
    """The phase of a task whose request is Final or deleted."""
    if ended.is_deleted:
        return TransferPhase.CANCELLED
    kept = ended.keeps and not ended.is_cancelled
    ends_well = ended.container_state == ContainerState.COMPLETE
    delivers = bool(ended.output_uuid) and (ends_well or kept)
    return TransferPhase.DELIVERING if delivers else TransferPhase.DONE


def object_key(url: str, validator: str, *, namespace: str = "") -> str:
    """The name of one state of an object, a digest. `namespace` is the server of a bucket, or the
    user who sees the object where its server may show each user another one.
    """
    text = "\0".join((url, namespace, validator))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def facts_of(headers: Mapping[str, str], *, is_bucket: bool = False) -> ObjectFacts:
    """Read size, validator and checksums of an object from the headers of a response, whose names
    are in lower case. The size is that of the whole object, also in the response to a request for
    a range. `is_bucket`: the server speaks S3.
    """
    etag = headers.get("etag", "").strip()
    # Weak tags (RFC 9110, 8.8.1) stand for contents that are alike, not equal.
    strong = etag if etag.startswith('"') and len(etag) > 2 else ""
    size = _size(headers)
    changed = headers.get("last-modified", "").strip()
    validator = strong
    if not strong and changed and size is not None:
        validator = f"{changed} {size}"
    sums = _checksums(headers, is_bucket=is_bucket)
    return ObjectFacts(size=size, validator=validator, etag=strong, checksums=tuple(sums.items()))


def _size(headers: Mapping[str, str]) -> int | None:
    span = headers.get("content-range", "")
    text = span.rpartition("/")[2] if span else headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def range_start(headers: Mapping[str, str]) -> int | None:
    """The first byte of the range that an answer of status 206 has; None if it names none."""
    match = _RANGE.fullmatch(headers.get("content-range", ""))
    return int(match[1]) if match else None


def md5_of_etag(headers: Mapping[str, str]) -> str:
    """The MD5 of an object of S3 that its ETag is, in hexadecimal digits; "" if it is none: that of
    an object in several parts, or one that is encrypted with the key of a client or a key service.
    """
    is_own = headers.get("x-amz-server-side-encryption", "AES256") == "AES256"
    if not is_own or "x-amz-server-side-encryption-customer-algorithm" in headers:
        return ""
    match = _ETAG_MD5.fullmatch(headers.get("etag", ""))
    return match[1] if match else ""


def _checksums(headers: Mapping[str, str], *, is_bucket: bool) -> dict[str, str]:
    checksums: dict[str, str] = {}
    if is_bucket and (md5 := md5_of_etag(headers)):
        checksums["md5"] = md5
    for name, encoded, size in (
        ("md5", headers.get("content-md5", ""), 16),
        ("sha256", headers.get("x-amz-checksum-sha256", ""), 32),
        *_digests(headers),
    ):
        plain = _binary(encoded)
        # Of an object in parts, it is the checksum of checksums, which has their number behind it.
        if plain is not None and len(plain) == size:
            checksums[name] = plain.hex()
    return checksums


def _digests(headers: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """Digests of RFC 9530, and of RFC 3230 before it. Only those of the representation: that of the
    content is of the range alone.
    """
    digests = []
    for header in (headers.get("digest", ""), headers.get("repr-digest", "")):
        for member in header.split(","):
            name, _, value = member.strip().partition("=")
            if name.lower() == "sha-256":
                digests.append(("sha256", value.strip(":"), 32))
    return digests


def _binary(encoded: str) -> bytes | None:
    try:
        return base64.b64decode(encoded.strip(), validate=True)
    except ValueError:
        return None


def pause(failures: int, asked: float, chance: float) -> float:
    """Seconds before the next attempt after so many failures in a row. `asked`: those of the
    answer's Retry-After, 0 for none; `chance`: a random number from 0 to 1.
    """
    full: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (failures - 1))
    return max(full * (1 - chance / 2), min(asked, _LONGEST_ASKED))


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds of a Retry-After header; 0 for none or a date."""
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0.0
