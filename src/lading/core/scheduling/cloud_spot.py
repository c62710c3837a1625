"""Preemptible VMs: types and zones that were reclaimed lately, and the choice of ordinary VMs.

Reclaims (docs/spec/cloud, section Preemptible types):

- When the cloud takes a preemptible VM away, its type is avoided in its zone for a pause. The pause
  doubles, up to `AVOIDED_LONGEST`, when the next VM there is lost before another such pause is
  over; VMs that are lost within `WAVE` seconds count as one loss.
- A type is avoided while each zone of the driver is avoided for it. An avoided type is passed over
  for another eligible one; where all are avoided, they are used all the same by containers that
  accept preemptible VMs alone.

A container that prefers preemptible VMs (`TrackedContainer.prefers`) gets ordinary ones

- when its deadline comes near: when the loss of a preemptible VM at the end of its run would leave
  too little time for another run (`is_deadline_near`);
- while none of its preemptible types can be had: none holds it, or each is avoided or was refused.

Nothing here lasts: every pause ends by itself. Times are seconds on one clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from lading.core.quantities import told_time
from lading.core.resources import Resources, machine_share
from lading.core.scheduling.cloud_limits import Ban, CloudRules, Limits
from lading.core.scheduling.instance_types import (
    ContainerShape,
    Gpu,
    InstanceType,
    eligible,
    on_machine,
)
from lading.core.scheduling.planning import TrackedContainer
from lading.core.values import JsonObject

AVOIDED_SHORTEST, AVOIDED_LONGEST = 600.0, 7200.0
"""Seconds for which a type is avoided in a zone after a reclaim."""
WAVE = 60.0
BOOT = 120.0
"""Seconds that are assumed for the creation and boot of a VM."""

Reclaims: TypeAlias = Mapping[tuple[str, str], Ban]
"""Pauses by the cloud's name of the type and the zone; "" is the zone of a driver that names none.
"""


def reclaimed(reclaims: Reclaims, type_: str, zone: str, *, now: float) -> Reclaims:
    """The pauses after the loss of a VM."""
    # A pause that is over for as long as it was has no effect on the next one.
    active = {key: ban for key, ban in reclaims.items() if now < ban.until + ban.length}
    past = active.get((type_, zone))
    length = AVOIDED_SHORTEST
    if past is not None:
        is_wave = now < past.until - past.length + WAVE
        length = past.length if is_wave else min(past.length * 2, AVOIDED_LONGEST)
    why = f"{type_} was taken away{f' in {zone}' if zone else ''}"
    return {**active, (type_, zone): Ban(now + length, length, why)}


def avoided_zones(reclaims: Reclaims, type_: str, *, now: float) -> frozenset[str]:
    """The zones where a type is avoided now."""
    return frozenset(
        zone for (name, zone), ban in reclaims.items() if name == type_ and now < ban.until
    )


def avoided_types(reclaims: Reclaims, zones: Collection[str], *, now: float) -> Mapping[str, Ban]:
    """The types that are avoided in each of the driver's zones, with the pause that ends first.
    Without names of zones one loss is enough.
    """
    avoided: dict[str, Ban] = {}
    for type_ in dict.fromkeys(name for name, _ in reclaims):
        there = avoided_zones(reclaims, type_, now=now)
        if there and there.issuperset(zones):
            bans = (reclaims[type_, zone] for zone in there if zone in zones or not zones)
            avoided[type_] = min(bans, key=lambda ban: ban.until)
    return avoided


def is_deadline_near(container: TrackedContainer, *, now: float) -> bool:
    """Whether a container could miss its deadline by the loss of one preemptible VM. `now` is
    seconds since 1970, as the deadline is.
    """
    if not container.deadline:
        return False
    run_time = container.run_time or container.max_run_time
    # Without a known run time nothing says that a second run would be in time.
    return not run_time or container.deadline - now < 2 * (BOOT + run_time)


def lack_of_spot(shape: ContainerShape, rules: CloudRules, limits: Limits, *, now: float) -> str:
    """Reason that no preemptible VM is to be created for a shape now; "" if one may be."""
    why = "no preemptible type can hold it"
    for kind in rules.eligible(shape):
        why = limits.avoids(kind, now=now) or limits.lacks(rules.group(kind), now=now)
        if not why:
            return ""
    return why


def ordinary(container: TrackedContainer) -> TrackedContainer:
    """The container for ordinary VMs alone."""
    return replace(container, preemptible=False, prefers=False)


@dataclass(frozen=True, slots=True)
class Offer:
    """The cheapest type for a container: dollars an hour for all of a VM, and dollars for the run
    of the container, which takes a part of it.
    """

    kind: InstanceType
    cost: float

    def shown(self) -> JsonObject:
        """Plain JSON of the offer."""
        return {
            "instance_type": self.kind.name,
            "preemptible": self.kind.preemptible,
            "price": self.kind.price,
            "cost": self.cost,
        }


def offers(
    need: Resources, gpu: Gpu, types: Collection[InstanceType], *, seconds: float, extra_ram: int
) -> tuple[Offer, ...]:
    """The cheapest preemptible and the cheapest ordinary type for a run, as far as there are."""
    choices = []
    for preemptible in (True, False):
        shape = ContainerShape(
            need=on_machine(need, extra_ram=extra_ram), preemptible=preemptible, gpu=gpu
        )
        for kind in eligible(shape, types)[:1]:
            whole = {"VCPUs": kind.resources.vcpus, "RAM": kind.resources.ram}
            share = machine_share(whole, vcpus=need.vcpus, ram=need.ram)
            choices.append(Offer(kind, kind.price * share * seconds / 3600))
    return tuple(choices)


def offer_sentence(offer: Offer, finish: str, *, later_finish: str = "") -> str:
    """Sentence about the cost and the end of a run; `later_finish`: after one loss at its end."""
    kind = offer.kind
    which = "a preemptible VM" if kind.preemptible else "an ordinary VM"
    loss = (
        f", or with one loss at its end ${2 * offer.cost:.4f} and {told_time(later_finish)}"
        if later_finish
        else ""
    )
    return (
        f"On {which} ({kind.name}, ${kind.price:g} an hour) its run costs ${offer.cost:.4f} and "
        f"ends at {told_time(finish)}{loss}."
    )
