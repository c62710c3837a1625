"""Messages between processes of this product: JSON objects, decoded strictly, replies in parts.

Pure: `lading.net.rpc` carries them over pipes, sockets and SSH channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from lading.core.errors import Malformed

Message = Mapping[str, Any]
LIMIT = 4 << 20
"""Bytes of one message. The largest is a container's assignment with its record, some 100 KB."""
_Kind = TypeVar("_Kind")


def encode(message: object) -> bytes:
    """Serialize a mapping, struct or dataclass. No line break is in the result."""
    return msgspec.json.encode(message)


def decode(data: bytes | bytearray, kind: type[_Kind]) -> _Kind:
    """Read one message of this type. Raises Malformed."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"The message cannot be read: {error}") from error


def read_object(data: bytes) -> dict[str, Any]:
    """Read a JSON object; an empty one for anything else."""
    try:
        return decode(data, dict[str, Any])
    except Malformed:
        return {}


def request_number(message: Message) -> int:
    """The `id` of the request that a reply belongs to; 0 without one."""
    number = message.get("id")
    return number if isinstance(number, int) else 0


def is_last(message: Message) -> bool:
    """Whether no further part of the reply follows."""
    return message.get("more") is not True


def join_parts(parts: Sequence[Message]) -> dict[str, Any]:
    """One reply of its parts: the last one, with the lists of all."""
    joined = dict(parts[-1])
    for name, value in joined.items():
        if isinstance(value, list):
            joined[name] = [
                item for part in parts if isinstance(part.get(name), list) for item in part[name]
            ]
    return joined
