"""Object identifiers: `<cluster>-<infix>-<15 characters>`, and portable data hashes.

The infix names the record type (docs/spec/api, section Records). Randomness is an argument: the
caller supplies the bytes.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
# Milliseconds that share the first characters of an ordered uuid (make_ordered_uuid).
_PERIOD = 2
# Two characters at a time halve the divisions of long integers in `encode`.
_PAIRS = tuple(f"{low}{high}" for high in ALPHABET for low in ALPHABET)
MOST_TOGETHER = len(_PAIRS)
"""Most uuids of one call of make_ordered_uuids."""
# Cluster, type of the record, and 15 random characters.
UUID = re.compile(r"[0-9a-z]{5}-[0-9a-z]{5}-[0-9a-z]{15}")
CLUSTER = re.compile(r"[0-9a-z]{5}")
# The portable data hash: MD5 and length of the manifest without signatures.
PDH = re.compile(r"[0-9a-f]{32}\+[0-9]+")
EMPTY_PDH = "d41d8cd98f00b204e9800998ecf8427e+0"
# One character for each byte. 256 is no multiple of 36, so four characters are a little more
# frequent; request ids need not be secret.
_CHARACTERS = bytes(ord(ALPHABET[byte % len(ALPHABET)]) for byte in range(256))


class Infix(StrEnum):
    """The middle part of a uuid, one for each record type."""

    COLLECTION = "4zz18"
    GROUP = "j7d0g"
    USER = "tpzed"
    TOKEN = "gj3su"
    LINK = "o0j2j"
    LOG = "57u5n"
    CONTAINER = "dz642"
    REQUEST = "xvhdp"
    WORKFLOW = "7fd4e"
    KEEP_SERVICE = "bi6l4"
    VIRTUAL_MACHINE = "2x53u"
    AUTHORIZED_KEY = "fngyi"
    CREDENTIAL = "oss07"
    REPOSITORY = "s0uqq"
    WEBHOOK = "hk4wb"
    QUOTA = "qu0ta"


def is_uuid(value: str, infix: str | None = None) -> bool:
    """Whether `value` is a uuid, and of the given type if one is named."""
    return UUID.fullmatch(value) is not None and (infix is None or value[6:11] == infix)


def is_pdh(value: str) -> bool:
    """Whether `value` is a portable data hash without hints."""
    return PDH.fullmatch(value) is not None


def infix_of(uuid: str) -> str:
    """The five characters that name the record type."""
    return uuid[6:11]


def encode(entropy: bytes, length: int) -> str:
    """`length` base-36 characters drawn from `entropy` (pass at least 0.65 bytes a character)."""
    number, text = int.from_bytes(entropy, "big"), []
    for _ in range(length // 2):
        number, pair = divmod(number, len(_PAIRS))
        text.append(_PAIRS[pair])
    return "".join(text) + ALPHABET[number % 36] * (length % 2)


def make_request_id(entropy: bytes) -> str:
    """The id of one call: one character for each random byte, twenty in Arvados."""
    return f"req-{entropy.translate(_CHARACTERS).decode()}"


def make_uuid(cluster: str, infix: str, entropy: bytes) -> str:
    """A uuid of the given type from at least 10 random bytes."""
    return f"{cluster}-{infix}-{encode(entropy, 15)}"


def make_ordered_uuid(cluster: str, infix: str, entropy: bytes, *, milliseconds: int) -> str:
    """A uuid that sorts after those made 2 ms or more earlier, from at least 5 random bytes;
    `milliseconds` since 1970.

    Records of one time are neighbours in every index of the database: new ones go to pages that are
    in memory and written anyway. The first eight characters repeat after 178 years; the other seven
    are random.
    """
    number, first = divmod(int.from_bytes(entropy, "big"), len(_PAIRS))
    number, second = divmod(number, len(_PAIRS))
    number, third = divmod(number, len(_PAIRS))
    ending = f"{_PAIRS[first]}{_PAIRS[second]}{_PAIRS[third]}{ALPHABET[number % 36]}"
    return f"{cluster}-{infix}-{_beginning(milliseconds // _PERIOD)}{ending}"


def make_ordered_uuids(
    cluster: str, infix: str, entropy: bytes, count: int, *, milliseconds: int
) -> list[str]:
    """As many ordered uuids of one time, at most MOST_TOGETHER, from at least 5 random bytes. They
    differ in their last two characters, so that another batch has none of them unless its five
    random characters are the same.
    """
    number, first = divmod(int.from_bytes(entropy, "big"), len(_PAIRS))
    number, second = divmod(number, len(_PAIRS))
    random = f"{_PAIRS[first]}{_PAIRS[second]}{ALPHABET[number % 36]}"
    beginning = f"{cluster}-{infix}-{_beginning(milliseconds // _PERIOD)}{random}"
    return [beginning + ending for ending in _PAIRS[:count]]


# Uuids are made in bursts: all of one period have the same beginning.
@lru_cache(4)
def _beginning(period: int) -> str:
    """Common first characters of the uuids of one period."""
    text = ""
    for _ in range(4):
        period, pair = divmod(period, len(_PAIRS))
        text += _PAIRS[pair]
    return text[::-1]


def milliseconds_of(uuid: str) -> int:
    """The time since 1970 at which an ordered uuid was made, to 2 ms (make_ordered_uuid)."""
    return int(uuid[12:20], 36) * _PERIOD


def system_user(cluster: str) -> str:
    """The system user, which owns containers and may do everything."""
    return f"{cluster}-{Infix.USER}-000000000000000"


def anonymous_user(cluster: str) -> str:
    """The user that the anonymous token acts for."""
    return f"{cluster}-{Infix.USER}-anonymouspublic"


def is_user(uuid: str) -> bool:
    """Whether a uuid is one of a user."""
    return infix_of(uuid) == Infix.USER


def is_group(uuid: str) -> bool:
    """Whether a uuid is one of a group."""
    return infix_of(uuid) == Infix.GROUP


def anonymous_token(cluster: str) -> str:
    """The pseudo uuid of the configured anonymous token."""
    return f"{cluster}-{Infix.TOKEN}-anonymouspublic"


def system_group(cluster: str) -> str:
    """The group of the system."""
    return f"{cluster}-{Infix.GROUP}-000000000000000"


def all_users(cluster: str) -> str:
    """The role of which every user who is set up is a member."""
    return f"{cluster}-{Infix.GROUP}-fffffffffffffff"


def anonymous_group(cluster: str) -> str:
    """The role of the anonymous user: records shared with it are public."""
    return f"{cluster}-{Infix.GROUP}-anonymouspublic"


def public_favorites(cluster: str) -> str:
    """The project whose stars everybody sees."""
    return f"{cluster}-{Infix.GROUP}-publicfavorites"


def empty_collection(cluster: str) -> str:
    """The collection without files that everybody can read."""
    return f"{cluster}-{Infix.COLLECTION}-000000000000000"


def root_token(cluster: str) -> str:
    """The pseudo uuid of the configured system root token."""
    return f"{cluster}-{Infix.TOKEN}-000000000000000"
