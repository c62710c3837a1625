"""Rules for retries: limit, delay and growth for each class of failure.

The same JSON object stands in three places (docs/spec/containers, section Retry): in
`scheduling_parameters.retry` of a request, in `container_policy.retry` of a project, and in the
configuration (`Containers.Retry`):

    {"oom": {"limit": 3, "delay": 10, "factor": 2.0, "most": 68719476736}, "node": {"delay": 60}}

- `limit`: number of retries. `delay`: seconds before the first one, doubled for each further one.
- `factor` and `most`: for `oom` each retry gets so many times the ram, for `disk` so many times the
  disk space, up to `most` bytes. Without `most` the bound is `GROWTH` times the first amount.
- Each value is looked for on its own: in the request, then in its project, then in the projects
  above that, then in the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import structs

from lading.core.errors import Failure, Invalid
from lading.core.quantities import parse_duration, parse_size
from lading.core.values import Json, JsonObject, printable

GROWTH: Final = 8
"""Times the first amount that a retry gets at most, where no rule names a bound."""
LONGEST_DELAY: Final = 7 * 86400
"""Seconds of a `delay`, at most."""
LONGEST_DOUBLED: Final = 3600
"""Seconds up to which a delay is doubled."""
LARGEST_FACTOR: Final = 64
"""Largest `factor`."""
MOST_RETRIES: Final = 1_000_000
"""Largest `limit`."""
GROWING_CLASSES: Final = frozenset({Failure.OOM, Failure.DISK})
"""Classes whose retries may get more: ram after `oom`, disk space after `disk`."""
_RETRY: Final = "retry"
SHARE: Final = "share"
"""Key of a project's weight in `container_policy` (`core.policy.fair_share`)."""
# Sizes must fit into a signed 64-bit integer of the database.
_TOO_BIG: Final = 1 << 63


class RetryRule(msgspec.Struct, frozen=True, kw_only=True):
    """The rule for one class of failure; None where it leaves a value to others."""

    limit: int | None = None
    delay: int | None = None
    factor: float | None = None
    most: int | None = None

    @property
    def grows(self) -> bool:
        """Whether a retry gets more than the attempt before."""
        return self.factor is not None and self.factor > 1


RetryRules: TypeAlias = Mapping[Failure, RetryRule]


def read_rules(where: str, value: Json) -> RetryRules:
    """The rules in a JSON object; null means none. `where` names it in errors. Raises Invalid."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid(f"{where}: must be an object of rules by class of failure")
    for name in value:
        if name not in tuple(Failure):
            raise Invalid(f"{where}: {printable(name)}: must be one of {', '.join(Failure)}")
    return {
        Failure(name): _read_rule(f"{where}.{name}", name, rule) for name, rule in value.items()
    }


def parse_rule(option: str) -> JsonObject:
    """A rule in the form of the command line, `3,delay=1m,factor=2,most=64GiB`, as JSON. Raises
    Invalid.
    """
    rule: JsonObject = {}
    for setting in option.split(","):
        name, separator, value = setting.partition("=")
        name, value = (name, value) if separator else ("limit", setting)
        try:
            match name:
                case "limit":
                    rule[name] = int(value)
                case "delay":
                    rule[name] = round(parse_duration(float(value) if value.isdigit() else value))
                case "factor":
                    rule[name] = float(value)
                case "most":
                    rule[name] = parse_size(value)
                case _:
                    raise Invalid(f"{printable(name)}: must be limit, delay, factor or most")
        except (ValueError, OverflowError):
            raise Invalid(f"{name}: {printable(value)!r} is no number") from None
    return rule


def show_rule(rule: RetryRule) -> str:
    """A rule in the form of the command line; "" if it has no value."""
    values = structs.asdict(rule)
    return ",".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
        if value is not None
    )


def read_container_policy(value: Json) -> RetryRules:
    """The rules for retries in `container_policy` of a project; null means none. Raises Invalid."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid("container_policy: must be an object")
    unknown = sorted(value.keys() - {_RETRY, SHARE})
    if unknown:
        raise Invalid(f"container_policy: {printable(unknown[0])}: must be {_RETRY} or {SHARE}")
    return read_rules(f"container_policy.{_RETRY}", value.get(_RETRY))


def rule_for(failure: Failure | None, layers: Iterable[RetryRules]) -> RetryRule:
    """The rule for a class of failure: each value from the first of `layers` that has one."""
    found = RetryRule()
    for rules in layers:
        if failure is not None and failure in rules:
            found = _filled(found, rules[failure])
    return found


def delay_before(rule: RetryRule, earlier: int) -> int:
    """Seconds before a retry after `earlier` other failures of the same class; 0 without a delay.

    The delay is doubled for each of them, up to an hour; one that is longer stays as it is.
    """
    first = rule.delay or 0
    # An hour has fewer than 2**12 seconds.
    return max(first, min(first << min(earlier, 12), LONGEST_DOUBLED))


def grown(rule: RetryRule, amount: int, *, first: int) -> int:
    """The amount for a retry of an attempt that had `amount`; `amount` itself at the bound.

    `first` is the amount of the first attempt.
    """
    if not rule.grows or rule.factor is None:
        return amount
    most = rule.most if rule.most is not None else first * GROWTH
    return max(amount, min(int(amount * rule.factor), most))


def _filled(first: RetryRule, then: RetryRule) -> RetryRule:
    """The first rule, with values of another one where it has none."""
    missing = [name for name in RetryRule.__struct_fields__ if getattr(first, name) is None]
    return structs.replace(first, **{name: getattr(then, name) for name in missing})


def _read_rule(where: str, name: str, value: Json) -> RetryRule:
    if not isinstance(value, dict):
        raise Invalid(f'{where}: must be an object such as {{"limit": 2, "delay": 60}}')
    unknown = sorted(value.keys() - {*RetryRule.__struct_fields__})
    if unknown:
        raise Invalid(f"{where}: {printable(unknown[0])}: must be limit, delay, factor or most")
    if name not in GROWING_CLASSES and not value.keys().isdisjoint({"factor", "most"}):
        raise Invalid(f"{where}: factor and most are for oom and disk; leave them out")
    return RetryRule(
        limit=_whole(f"{where}.limit", value.get("limit"), most=MOST_RETRIES),
        delay=_whole(f"{where}.delay", value.get("delay"), most=LONGEST_DELAY),
        factor=_factor(f"{where}.factor", value.get("factor")),
        most=_whole(f"{where}.most", value.get("most"), most=_TOO_BIG - 1),
    )


def _whole(where: str, value: Json, *, most: int) -> int | None:
    if value is None:
        return None
    # JSON has one kind of number: 3.0 is 3.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise Invalid(f"{where}: must be a whole number from 0 to {most}")
    return value


def _factor(where: str, value: Json) -> float | None:
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 1 <= value <= LARGEST_FACTOR
    ):
        raise Invalid(f"{where}: must be a number from 1 to {LARGEST_FACTOR}")
    return float(value)
