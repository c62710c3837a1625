"""Capabilities of machines that a request asks for by name, as runtime constraints such as `clock`.

A constraint is true (the capability must be there), false (it must not), a value, or a range
[least, most] of numbers, both included. A capability that a machine does not offer is not there.
Names that no machine offers are accepted: the request waits, with the reason. Source:
docs/spec/containers, section Runtime constraints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeGuard

import msgspec

from lading.core.errors import Invalid
from lading.core.values import Json, printable

OFFERED: Final[Mapping[str, Json]] = MappingProxyType({"clock": True})
"""Capabilities of every machine: the kernel shows its clock to each container."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_MOST: Final = 50
# Characters of a value.
_LONGEST: Final = 200


def check(named: Mapping[str, Json]) -> None:
    """Check the capabilities of a request. Raises Invalid naming one."""
    unexpected = sorted(name for name in named if not _NAME.fullmatch(name))
    if unexpected:
        raise Invalid(
            f"Runtime constraints contains unexpected keys [{printable(', '.join(unexpected))}]"
        )
    if len(named) > _MOST:
        raise Invalid(f"Runtime constraints: more than {_MOST} names of capabilities")
    for name, value in named.items():
        if not _is_value(value) and span(value) is None:
            raise Invalid(
                f"Runtime constraints [{name}]: must be true, false, a number, a text of 1 to "
                f"{_LONGEST} characters, or [least, most] of numbers"
            )


def read_offered(configured: Mapping[str, Json]) -> dict[str, Json]:
    """All capabilities of machines that are configured with these. Raises Invalid."""
    for name, value in configured.items():
        if not _NAME.fullmatch(name) or not _is_value(value):
            raise Invalid(
                f"configuration: Containers.Capabilities.{printable(name)}: must be a name with "
                f"true, false, a number, or a text of 1 to {_LONGEST} characters"
            )
    return {**OFFERED, **configured}


def lacking(named: Mapping[str, Json], offered: Mapping[str, Json]) -> str:
    """The first capability that machines with those `offered` lack, or have and must not have, in
    words; "" for none.
    """
    for name, required in sorted(named.items()):
        has = offered.get(name, False)
        if required is False and has is not False:
            return f"no {name}"
        if required is not False and not _offers(has, required):
            return name if required is True else f"{name} {_brief(required)}"
    return ""


def span(value: Json) -> tuple[float, float] | None:
    """Least and most of a range; None for any other value."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    low, high = value
    return (low, high) if _is_number(low) and _is_number(high) and low <= high else None


def _offers(has: Json, required: Json) -> bool:
    if has is False or required is True:
        return has is not False
    within = span(required)
    if within is not None:
        return _is_number(has) and within[0] <= has <= within[1]
    return has is not True and has == required


def _brief(value: Json) -> str:
    return printable(msgspec.json.encode(value).decode()[:60])


def _is_value(value: Json) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST and value.isprintable()
    return isinstance(value, bool) or _is_number(value)


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 63
