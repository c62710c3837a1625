"""Limits of a quota as people write them: numbers, sizes, dollars, and `none` for no limit."""

from __future__ import annotations

import re
from typing import Final

from lading.core.errors import Invalid
from lading.core.policy.quotas import Limit
from lading.core.quantities import parse_size
from lading.core.records.schema import Record

NONE: Final = "none"
_MONEY: Final = re.compile(r"\$?(\d+(?:\.\d+)?)(?:/(day|week|month))?")


def read_limit(limit: Limit, text: str) -> Record:
    """The attributes of a quota that a text sets. Raises Invalid."""
    if text == NONE:
        return {limit.value: None}
    if limit in (Limit.RAM, Limit.BYTES):
        return {limit.value: parse_size(text)}
    if limit in (Limit.MONEY, Limit.BUDGET):
        return _read_money(limit, text)
    if not (text.isascii() and text.isdecimal()):
        raise Invalid(f"{limit}: {text!r} must be a number, or {NONE} for no limit")
    return {limit.value: int(text)}


def _read_money(limit: Limit, text: str) -> Record:
    match = _MONEY.fullmatch(text)
    if match is None or (limit is Limit.BUDGET and match[2]):
        example = "200/month" if limit is Limit.MONEY else "500"
        raise Invalid(f"{limit}: {text!r} is no amount in dollars, such as {example}")
    period = {"period": match[2]} if match[2] else {}
    return {limit.value: float(match[1]), **period}
