"""Timestamps of the API: RFC 3339, UTC, nine fractional digits (docs/spec/api, section Records).

The same text is stored, so comparing texts compares times.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_ZONE = len("+00:00")
# RFC 3339 with any number of fractional digits.
_LENIENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"\s*(Z|[+-]\d\d:?\d\d)?Z?)?"
)


def format_time(moment: datetime) -> str:
    """`2026-01-02T03:04:05.000006000Z`; `moment` must know its time zone."""
    # Not strftime: it writes years before 1000 with fewer digits, which would sort wrongly.
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")[:-_ZONE] + "000Z"


def parse_time(text: str) -> datetime:
    """The time in a client's text, in UTC, to the microsecond.

    Lenient: clients send dates alone, spaces, offsets, and an offset followed by `Z`
    (docs/spec/api, section Filters). Raises ValueError when it is not a date.
    """
    match = _LENIENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a timestamp: {text!r}")
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
