"""Quantities as texts: timestamps of the API, durations, sizes.

Timestamps are RFC 3339 in UTC with nine fractional digits (docs/spec/api, section Records). The
same text is stored, so comparing texts compares times. Sizes and durations are written "64MiB",
"1m30s"; for people "3.4 MiB", "17 s".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from lading.core.errors import Invalid

MAX_SHOWN = 300
"""Maximum number of characters of one value in a message."""
# Of these, characters from the start of a longer value.
_SHOWN_START = 200
_LONG_WORD = re.compile(rf"\S{{{MAX_SHOWN + 1},}}")
_LONG_QUOTED = re.compile(rf"(['\"])(?:\\.|(?!\1)[^\\]){{{MAX_SHOWN - 1},}}\1", re.DOTALL)
# Python's form of a byte of a file name that is not UTF-8 (PEP 383).
_FOREIGN_BYTE = re.compile(r"\\udc([89a-f][0-9a-f])")
_ZONE = len("+00:00")
# RFC 3339 with any number of fractional digits.
_LENIENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"\s*(Z|[+-]\d\d:?\d\d)?Z?)?"
)
# A number and a unit: "64MiB", "1.5G", "100".
# Characters of a size or a duration.
_LONGEST = 80
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]i?)?B?")
# (?!s): "5ms" is milliseconds, not minutes.
_TIME = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_DECIMAL = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_UNITS = {**_DECIMAL, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50}
_SHOWN_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# Seconds per unit, largest first.
_STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def format_time(moment: datetime) -> str:
    """`2026-01-02T03:04:05.000006000Z`; `moment` must know its time zone."""
    # Not strftime: it writes years before 1000 with fewer digits, which would sort wrongly.
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")[:-_ZONE] + "000Z"


def parse_time(timestamp: str) -> datetime:
    """The time in a client's text, in UTC, to the microsecond.

    Lenient: clients send dates alone, spaces, offsets, and an offset followed by `Z`
    (docs/spec/api, section Filters). Raises ValueError when it is not a date.
    """
    match = _LENIENT.fullmatch(timestamp.strip())
    if match is None:
        raise ValueError(f"not a timestamp: {timestamp!r}")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    moment = datetime(
        int(year),
        int(month),
        int(day),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        # Nanoseconds are cut to microseconds: datetime holds no more.
        int(((fraction or "") + "000000")[:6]),
        tzinfo=UTC,
    )
    if zone and zone != "Z":
        sign = 1 if zone[0] == "+" else -1
        moment -= sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return moment


def later(moment: str, seconds: float) -> str:
    """The timestamp `seconds` after another one; at most the end of year 9999."""
    try:
        return format_time(parse_time(moment) + timedelta(seconds=seconds))
    except OverflowError:
        # Beyond the year 9999.
        return format_time(datetime.max.replace(tzinfo=UTC))


def parse_size(amount: str | int) -> int:
    """Bytes of `amount`: 1000, "64MiB", "2G". Raises Invalid."""
    if isinstance(amount, int):
        return amount
    match = _SIZE.fullmatch(amount.strip())
    if match is None or len(amount) > _LONGEST:
        raise Invalid(
            f"not a size: {amount[:_LONGEST]!r}; write a number of bytes, "
            "or for example 512MiB or 2GB"
        )
    return int(float(match[1]) * _UNITS.get(match[2] or "", 1))


def parse_duration(interval: str | float) -> float:
    """Seconds of `interval`: 5, "10s", "336h", "1m30s", "14d". Raises Invalid."""
    if isinstance(interval, int | float):
        return float(interval)
    match = _TIME.fullmatch(interval.strip())
    if match is None or not any(match.groups()) or len(interval) > _LONGEST:
        raise Invalid(
            f"not a duration: {interval[:_LONGEST]!r}; write seconds, or for example 90s or 336h"
        )
    days, hours, minutes, seconds, millis = (float(number or 0) for number in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds + millis / 1000


def size(count: float) -> str:
    """For example `3.4 MiB`."""
    for unit in _SHOWN_UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_SHOWN_UNITS[-1]}"


def duration(seconds: float) -> str:
    """For example `0.42 s`, `17 s`, `3 min`, `5 h`, `2 d`."""
    if seconds < 10:
        return f"{max(seconds, 0):.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    length, unit = next(step for step in _STEPS if seconds >= step[0])
    return f"{seconds / length:.0f} {unit}"


def age(moment: str | None, now: datetime) -> str:
    """Time since a timestamp of the API; empty for none."""
    return duration((now - parse_time(moment)).total_seconds()) if moment else ""


def told_time(moment: str) -> str:
    """A timestamp of the API for readers, to the second: `2026-01-02 03:04:05 UTC`."""
    return f"{parse_time(moment):%Y-%m-%d %H:%M:%S} UTC"


def show_bytes(escaped: str) -> str:
    """A text that Python has escaped, for people: a byte of a name that is not UTF-8 as `\\xff`, in
    place of the `\\udcff` that stands for it.
    """
    return _FOREIGN_BYTE.sub(r"\\x\1", escaped)


def shorten(value: str, limit: int = 60) -> str:
    """At most `limit` characters; the end is cut off."""
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


def shorten_pair(before: str, after: str, limit: int) -> tuple[str, str]:
    """Two texts that differ, each with at most `limit` characters: of a long equal beginning the
    last third of the limit stays, so that the first difference is shown.
    """
    equal = next(
        (at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new),
        min(len(before), len(after)),
    )
    if max(len(before), len(after)) <= limit or equal < limit // 2:
        return shorten(before, limit), shorten(after, limit)
    start = equal - limit // 3
    return shorten(f"…{before[start:]}", limit), shorten(f"…{after[start:]}", limit)


def bounded(message: str) -> str:
    """A message in which no path, word or quoted value has more than `MAX_SHOWN` characters; the
    middle of a longer one is left out. Messages name values of any length: a path of 4,000
    characters, a command of 3 MB.
    """
    if len(message) <= MAX_SHOWN:
        return message
    for pattern in (_LONG_WORD, _LONG_QUOTED):
        message = pattern.sub(lambda match: _without_middle(match[0]), message)
    return message


def _without_middle(long: str) -> str:
    return f"{long[:_SHOWN_START]}…{long[len(long) - (MAX_SHOWN - _SHOWN_START - 1) :]}"
