"""Sizes and durations in text form: "64MiB", "1m30s"."""

from __future__ import annotations

import re

from lading.core.errors import Invalid

# A number and a unit: "64MiB", "1.5G", "100".
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?")
# (?!s): "5ms" is milliseconds, not minutes.
_TIME = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_DECIMAL = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS = {**_DECIMAL, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def parse_size(text: str | int) -> int:
    """Bytes of `text`: 1000, "64MiB", "2G". Raises Invalid."""
    if isinstance(text, int):
        return text
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise Invalid(
            f"not a size: {text!r}; write a number of bytes, or for example 512MiB or 2GB"
        )
    return int(float(match[1]) * _UNITS.get(match[2] or "", 1))


def parse_duration(text: str | float) -> float:
    """Seconds of `text`: 5, "10s", "336h", "1m30s", "14d". Raises Invalid."""
    if isinstance(text, int | float):
        return float(text)
    match = _TIME.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise Invalid(f"not a duration: {text!r}; write seconds, or for example 90s or 336h")
    days, hours, minutes, seconds, millis = (float(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds + millis / 1000
