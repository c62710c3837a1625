"""Words about quotas that the command line and the page show alike.

A record of a quota, and an item of `quotas/uses`, are those of the API (docs/spec/api).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lading.core.ids import Infix, infix_of
from lading.core.policy.quotas import Limit
from lading.core.records.schema import Record
from lading.core.resources import format_bytes

SHOWN: Final = (
    "uuid",
    "subject_uuid",
    "name",
    "containers",
    "vcpus",
    "ram",
    "gpus",
    "queued",
    "bytes_stored",
    "money",
    "period",
    "budget",
    "warn_share",
    "stop",
    "contact",
)
"""Attributes of a quota that people see."""
_LABELS: Final = {
    Limit.CONTAINERS: "containers",
    Limit.VCPUS: "VCPUs",
    Limit.RAM: "RAM",
    Limit.GPUS: "GPUs",
    Limit.QUEUED: "queued",
    Limit.BYTES: "stored",
    Limit.MONEY: "money",
    Limit.BUDGET: "budget",
}
_FULL, _EMPTY, _WIDTH = "█", "░", 10


@dataclass(frozen=True, slots=True)
class UseLine:
    """One limit of a quota with its use: `share` of the limit, 1 and more where it is reached."""

    label: str
    used: str
    most: str
    share: float

    @property
    def bar(self) -> str:
        """The share as ten blocks; a use above nothing shows at least one."""
        filled = min(_WIDTH, round(self.share * _WIDTH))
        if self.share > 0:
            filled = max(1, filled)
        return _FULL * filled + _EMPTY * (_WIDTH - filled)


def is_of_group(quota: Record) -> bool:
    """Whether the subject is a project or a role: both are groups in the API."""
    return infix_of(quota["subject_uuid"]) == Infix.GROUP


def kind_text(quota: Record, group_class: str = "") -> str:
    """The kind of the subject. `group_class`: that of a project or a role, if it can be read."""
    if is_of_group(quota):
        return group_class if group_class in ("project", "role") else "project or role"
    kinds = {Infix.USER: "user", Infix.REQUEST: "request"}
    return kinds.get(Infix(infix_of(quota["subject_uuid"])), "")


def use_lines(quota: Record, use: Record) -> list[UseLine]:
    """The limits of a quota that are set, with their use."""
    lines = []
    for limit, label in _LABELS.items():
        most, used = quota[limit.value], use.get(limit.value) or 0
        if most is None:
            continue
        share = used / most if most else 1.0
        if limit is Limit.MONEY:
            label = f"{label} a {quota['period']}"
        lines.append(UseLine(label, _text(limit, used), _text(limit, most), share))
    return lines


def _text(limit: Limit, amount: float) -> str:
    if limit in (Limit.RAM, Limit.BYTES):
        return format_bytes(int(amount))
    return f"${amount:.2f}" if limit in (Limit.MONEY, Limit.BUDGET) else str(int(amount))
