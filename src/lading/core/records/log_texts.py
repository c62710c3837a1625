"""The short form in which log rows keep their properties.

The properties of a row that the server writes repeat what its own columns have (uuids, the time),
and texts that nearly all rows of a type share: names of attributes, and defaults. The short form
has a code in place of each, and is a fifth as long. It is plain replacement of texts, so that a
function of either database can undo it and filters on properties go on working.

A code is one of the control characters below, or one of `_PHRASES` and a letter after it. JSON
texts have no control characters, so that each of them begins a code. A row with it also leaves out
columns that repeat others (`repeated`).

Phrases are stored in databases: none is ever changed or removed. A new one is appended to the end
of its tuple in a release that raises the version of the schema, so that no older program reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from lading.core.ids import Infix
from lading.core.records.schema import Record

_OBJECT: Final = "\x02"
_OWNER: Final = "\x03"
_USER: Final = "\x04"
_TIME: Final = "\x05"
_MINUTE: Final = "\x06"
_CLUSTER: Final = "\x07"
MINUTE_SIZE: Final = 17
"""Characters of a time up to the minute, with the colon after it."""
CLUSTER_SIZE: Final = 6
"""Characters of a uuid up to its type."""
_UUID_SIZE: Final = 27
_TIME_SIZE: Final = 30

COLUMNS: Final = ("object_uuid", "object_owner_uuid", "owner_uuid", "created_at")
"""The columns of a log row that codes stand for, in the order of `LogColumns`."""
SUMMARY_JOINT: Final = " of "
"""Between type and uuid in the summary of a row that the server writes."""
_encode = msgspec.json.Encoder().encode
# A letter stands for the position of a phrase, so that this never changes.
_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ANY_KIND: Final = (
    '{"new_etag":"',
    '","new_attributes":{"uuid":"\x02","owner_uuid":"\x03","created_at":"\x05","modified_at":"\x05'
    '","modified_by_user_uuid":"',
    '{"old_etag":"',
    '","old_attributes":{"owner_uuid":"\x03","modified_at":"',
    '"},"new_etag":"',
    '},"new_etag":"',
    '","new_attributes":{"owner_uuid":"\x03","modified_at":"',
    '","modified_by_user_uuid":"',
    'tpzed-000000000000000","',
    '","old_attributes":{"uuid":"\x02","owner_uuid":"\x03","created_at":"',
    ',"output_glob":[],"strict_output":false,"output_storage_classes":["default"],'
    '"output_properties":{},"service":false,"published_ports":{},"steps":[],"',
    ',"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,'
    '"supervisor":false},"output_path":"',
    '"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}',
    '","container_image":"',
    '","cwd":"',
    '","environment":{},"mounts":{"',
    '{"capacity":1048576,"kind":"tmp"}},"runtime_constraints":{"API":false,',
    '{"kind":"tmp","capacity":1048576}},"runtime_constraints":{"API":false,',
    '},"runtime_constraints":{"API":false,',
    '"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":',
    '"keep_cache_disk":0,"keep_cache_ram":0,"ram":',
    '"description":null,"properties":{',
    '000Z","',
    '","name":"',
    '"],"container_image":"',
)
_OF_CONTAINERS: Final = (
    'state":"Queued","command":["',
    'constraint_ranges":{},"priority":',
    ',"runtime_user_uuid":"',
    '","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,'
    '"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"usage":{},'
    '"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"",'
    '"interactive_session_started":false,"traceparent":null,"withdrawn_at":null,'
    '"withdrawn_by_uuid":null,"withdrawn_reason":null}}',
    'state":"Queued","locked_by_uuid":null,"auth_uuid":null,"lock_count":0',
    'state":"Locked","locked_by_uuid":"\x07gj3su-',
    '","auth_uuid":"\x07gj3su-',
    '","lock_count":1}}',
    'state":"Locked","started_at":null',
    'state":"Running","started_at":"',
    'state":"Running","locked_by_uuid":"\x07gj3su-',
    '","log":null,"output":null,"exit_code":null,"usage":{},"finished_at":null',
    'state":"Complete","locked_by_uuid":null,"auth_uuid":null,"log":"',
    '","output":"',
    '","exit_code":',
    ',"usage":{',
    '},"finished_at":"',
    'state":"Queued',
    'state":"Cancelled',
    'runtime_status":{',
)
_OF_REQUESTS: Final = (
    '},"state":"Committed","requesting_container_uuid":',
    ',"container_uuid":"\x07dz642-',
    '","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["',
    'output_name":',
    ',"output_ttl":0,"priority":',
    ',"use_existing":',
    ',"match_resources":false,"only_reproduced":false,"expires_at":null,"filters":null,'
    '"parallel_group":null,"max_parallel":0,"depends_on":[],"start_after":null,"retry_after":null,'
    '"log_uuid":null,"output_uuid":null,"cumulative_cost":',
    ',"committed_by_uuid":"\x03","secrets_needed":[]}}',
    '","state":"Committed","requesting_container_uuid":null',
    ',"log_uuid":null,"output_uuid":null',
    '","state":"Final","requesting_container_uuid":null',
    ',"log_uuid":"\x074zz18-',
    '","output_uuid":"\x074zz18-',
    '{"decision":"new","reason":"',
    '{"decision":"',
    '"the request asks for a new container (use_existing is false)","rule":"',
    "A container of another user is used only if the user of the request can read its inputs and, "
    'once it has ended, its log and its output."',
    '","candidates":[],"nearest":null,"near":[],"git":{}}',
    ',"priority":500',
    ',"priority":0',
)
_OF_COLLECTIONS: Final = (
    "Container output for request \x07xvhdp-",
    "Container log for container \x07dz642-",
    "output for \x07dz642-",
    "logs for \x07dz642-",
    '"type":"output","container_request":"\x07xvhdp-',
    '"type":"output","container_uuid":"\x07dz642-',
    '"type":"log","container_request":"\x07xvhdp-',
    '"type":"log","container_uuid":"\x07dz642-',
    '","container_uuid":"\x07dz642-',
    '"},"portable_data_hash":"',
    '},"portable_data_hash":"',
    '","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,'
    '"storage_classes_desired":["default"],"storage_classes_confirmed":["default"],'
    '"storage_classes_confirmed_at":"',
    'trash_at":null,"delete_at":null,"is_trashed":false,"version":',
    'trash_at":"',
    'delete_at":"',
    'is_trashed":true,"version":',
    '1,"current_version_uuid":"\x02","preserve_version":false,"file_count":',
    ',"file_size_total":',
)
_PHRASES: Final[Mapping[str, tuple[str, ...]]] = {
    "\x01": _ANY_KIND,
    "\x08": _OF_CONTAINERS,
    "\x0e": _OF_REQUESTS,
    "\x0f": _OF_COLLECTIONS,
}
_OF_KIND: Final = {Infix.CONTAINER: "\x08", Infix.REQUEST: "\x0e", Infix.COLLECTION: "\x0f"}
_CODES: Final = {
    f"{mark}{letter}": phrase
    for mark, phrases in _PHRASES.items()
    for letter, phrase in zip(_LETTERS, phrases, strict=False)
}
_CODE: Final = re.compile(f"[{''.join(_PHRASES)}].")


def _longest_first(*marks: str) -> tuple[tuple[str, str], ...]:
    """Phrases and their codes: a phrase may be a part of a longer one."""
    pairs = [(phrase, code) for code, phrase in _CODES.items() if code[0] in marks]
    return tuple(sorted(pairs, key=lambda pair: -len(pair[0])))


_OF_OTHERS: Final = _longest_first("\x01")
_UPDATE: Final = '{"old_etag":"'
"""The beginning of the properties of an update."""
_NOT_OF_UPDATES: Final = frozenset(
    mark + letter
    for mark, letters in {
        "\x01": "019ABCDEFGHIJKLO",
        "\x08": "0123",
        "\x0e": "0234567DEFGH",
    }.items()
    for letter in letters
)
"""Codes of phrases that updates hardly ever have, so that these are not looked for in them."""
_BY_KIND: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    kind: _longest_first("\x01", mark) for kind, mark in _OF_KIND.items()
}

_OF_UPDATES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    kind: tuple((phrase, code) for phrase, code in pairs if code not in _NOT_OF_UPDATES)
    for kind, pairs in _BY_KIND.items()
}


class LogColumns(NamedTuple):
    """The columns of a log row that codes stand for: `user_uuid` is its `owner_uuid`."""

    object_uuid: str
    object_owner_uuid: str
    user_uuid: str
    created_at: str

    def codes(self) -> Iterator[tuple[str, str]]:
        """Each code with the text it stands for, those first that are looked for first."""
        yield _OBJECT, self.object_uuid
        yield _OWNER, self.object_owner_uuid
        yield _USER, self.user_uuid
        yield _TIME, self.created_at
        yield _MINUTE, self.created_at[:MINUTE_SIZE]
        yield _CLUSTER, self.object_uuid[:CLUSTER_SIZE]


def phrases() -> Iterator[tuple[str, str]]:
    """Each code of a phrase with its phrase, which may have codes of columns."""
    yield from _CODES.items()


def shorten(json_text: str, columns: LogColumns) -> str | None:
    """The short form of the properties of a log row, a JSON text; None where there is none."""
    *uuids, time = columns
    # A text that is short or empty would be found everywhere.
    if len(time) != _TIME_SIZE or not all(len(uuid) == _UUID_SIZE for uuid in uuids):
        return None
    short = json_text
    for code, value in columns.codes():
        short = short.replace(value, code)
    by_kind = _OF_UPDATES if json_text.startswith(_UPDATE) else _BY_KIND
    for phrase, code in by_kind.get(columns.object_uuid[6:11], _OF_OTHERS):
        short = short.replace(phrase, code)
    # Nothing that is stored may be lost, whatever an attribute has in it.
    return short if lengthen(short, columns) == json_text else None


def lengthen(short: str, columns: LogColumns) -> str:
    """The properties of a log row, from their short form."""
    text = _CODE.sub(lambda match: _CODES.get(match[0], match[0]), short)
    for code, value in columns.codes():
        text = text.replace(code, value)
    return text


def repeated(row: Record) -> Record:
    """The values that other columns of a log row tell, by the name of the column that repeats
    them.
    """
    return {
        "event_at": row["created_at"],
        "modified_at": row["created_at"],
        "modified_by_user_uuid": row["owner_uuid"],
        "summary": f"{row['event_type']}{SUMMARY_JOINT}{row['object_uuid']}",
    }


def stored(row: Record, *, since: str) -> Record:
    """A new log row as it is stored; `since` is the time from which on rows have the short form.

    Columns that repeat others are null in a row with the short form, which has no other null in
    them.
    """
    properties, short = both_forms(row, since=since)
    changed: Record = {"properties": properties, "shortened": short}
    if short is not None:
        changed |= {name: None for name, value in repeated(row).items() if row.get(name) == value}
    return {**row, **changed}


def both_forms(row: Record, *, since: str) -> tuple[Record | None, str | None]:
    """The values of the columns `properties` and `shortened` of a new log row, one of them None."""
    properties = row["properties"]
    columns = [row[name] for name in COLUMNS]
    # Some rows are about no record.
    if None in columns or row["created_at"] < since:
        return properties, None
    short = shorten(_encode(properties).decode(), LogColumns(*columns))
    return (properties, None) if short is None else (None, short)
