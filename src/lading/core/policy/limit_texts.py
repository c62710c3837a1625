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


def read_limit(limit: Limit, limit_text: str) -> Record:
    """The attributes of a quota that a text sets. Raises Invalid."""
    if limit_text == NONE:
        return {limit.value: None}
    if limit in (Limit.RAM, Limit.BYTES):
        return {limit.value: parse_size(limit_text)}
    if limit in (Limit.MONEY, Limit.BUDGET):
        return _read_money(limit, limit_text)
    if not (limit_text.isascii() and limit_text.isdecimal()):
        raise Invalid(f"{limit}: {limit_text!r} must be a number, or {NONE} for no limit")
    return {limit.value: int(limit_text)}


def _read_money(limit: Limit, amount: str) -> Record:
    match = _MONEY.fullmatch(amount)
    if match is None or (limit is Limit.BUDGET and match[2]):
        example = "200/month" if limit is Limit.MONEY else "500"
        raise Invalid(f"{limit}: {amount!r} is no amount in dollars, such as {example}")
    period = {"period": match[2]} if match[2] else {}
    return {limit.value: float(match[1]), **period}
