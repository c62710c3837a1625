"""Values of the options of a request as people write them, for the command line and the Python API:
sizes, ranges, durations and moments; and the attributes of a request of the Python API.

All values are checked here, before a request is sent: a mistake is told where it was made.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from lading.core.containers.gpu_words import (
    gpu_constraint,
    parse_count,
    parse_kinds,
    parse_memory,
    parse_version,
)
from lading.core.errors import Invalid
from lading.core.gpu_architectures import CUDA
from lading.core.quantities import format_time, parse_duration, parse_size
from lading.core.secrets import mounts_of, read_content
from lading.core.values import printable

if TYPE_CHECKING:
    from lading.client.api import Record

Amount: TypeAlias = "int | str | Sequence[int | str]"
"""A number or a size as `2GiB`; or the least and the most, as `2GiB-8GiB` or a list of two."""
Duration: TypeAlias = "float | str | timedelta"
"""Seconds, or a text as `90s`, `2h30m`, `14d`."""
Moment: TypeAlias = "str | datetime"
"""A time, or a text: `18:00`, `2026-12-24T18:00`, or `2h` for so long from now."""
GpuOptions: TypeAlias = (
    "tuple[int | None, int | str | None, str | Iterable[str], str | float | None]"
)
"""GPUs: their number, the memory of each, kinds, and the version of CUDA of their driver."""

LEAST_RAM: Final = 1 << 20
"""Bytes below which the unit was most likely forgotten."""
OUTPUT: Final = "/out"
_OPTIONS: Final = (
    "after", "cuda", "env", "expires", "gpu_memory", "gpu_type", "gpus", "image", "inputs",
    "project", "ram", "reuse", "secrets", "stdout", "tmp", "vcpus",
)  # fmt: skip
# A time of day, and the beginning of a date (others are durations).
_CLOCK = re.compile(r"([01]?\d|2[0-3]):[0-5]\d")
_DATED = re.compile(r"\d{4}-")
_MOMENTS = "2h30m for so long from now, 18:00, or 2026-12-24T18:00"


def parse_seconds(value: Duration) -> int:
    """Whole seconds; a text that is a bare number is seconds. Raises Invalid."""
    if isinstance(value, timedelta):
        return round(value.total_seconds())
    if isinstance(value, str):
        return round(parse_duration(float(value) if value.isdigit() else value))
    return round(parse_duration(value))


def parse_span(
    value: object, parse: Callable[[str], int], *, example: str, least: int = 1
) -> int | list[int]:
    """An amount, or the least and the most. Raises Invalid for an amount below `least`."""
    parts = value if isinstance(value, list | tuple) else str(value).split("-")
    try:
        amounts = [parse(str(amount)) for amount in parts]
    except (Invalid, ValueError):
        amounts = []
    if not 1 <= len(amounts) <= 2 or amounts[0] < 1 or amounts[-1] < amounts[0]:
        raise Invalid(
            f"{printable(str(value))!r}: write an amount, or the least and the most, "
            f"for example {example}"
        )
    if amounts[0] < least:
        # Most likely the unit was forgotten.
        raise Invalid(
            f"{printable(str(value))!r}: is {amounts[0]} bytes, which is too little; "
            f"write a unit, for example {example}"
        )
    return amounts[0] if len(amounts) == 1 else amounts


def parse_moment(value: Moment, *, now: datetime) -> str:
    """A moment in the form of the API. A time of day that has passed means tomorrow's. Raises
    Invalid.
    """
    try:
        if isinstance(value, datetime):
            return format_time(value.astimezone())
        written = value.strip()
        if _CLOCK.fullmatch(written):
            hour, minute = (int(number) for number in written.split(":"))
            moment = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return format_time(moment if moment > now else moment + timedelta(days=1))
        if _DATED.match(written):
            return format_time(datetime.fromisoformat(written).astimezone())
        return format_time(now + timedelta(seconds=parse_duration(written)))
    except (Invalid, ValueError, OverflowError, AttributeError):
        raise Invalid(
            f"{printable(str(value))!r} is no moment; write for example {_MOMENTS}"
        ) from None


def request_attributes(
    command: Sequence[str],
    *,
    now: datetime,
    vcpus: Amount,
    ram: Amount,
    tmp: str | Iterable[str] | Mapping[str, int | str],
    stdout: str | None,
    network: bool,
    gpu: GpuOptions,
    durations: Mapping[str, Duration | None],
    moments: Mapping[str, Moment | None],
    attributes: Mapping[str, Any],
) -> Record:
    """The attributes of a request of the Python API that are made of options as texts; `durations`
    and `moments` by the name of the option; `attributes` as they are sent, which have precedence.
    Raises Invalid.
    """
    _check_words(command)
    _check_names(attributes)
    _check_texts("env", attributes.get("environment") or {})
    constraints: Record = {
        "vcpus": _named("vcpus", lambda: parse_span(vcpus, int, example="2-8")),
        "ram": _named(
            "ram", lambda: parse_span(ram, parse_size, example="2GiB-8GiB", least=LEAST_RAM)
        ),
    }
    if network:
        constraints |= {"API": True, "internet": True}
    if constraint := _gpu_constraint(gpu):
        constraints["gpu"] = constraint
    mounts: Record = {OUTPUT: {"kind": "tmp"}, **_scratch(tmp)}
    if stdout is not None:
        mounts["stdout"] = {"kind": "file", "path": f"{OUTPUT}/{stdout}"}
    body: Record = {
        "command": list(command),
        "cwd": OUTPUT,
        "output_path": OUTPUT,
        "mounts": mounts,
        "runtime_constraints": constraints,
        **attributes,
    }
    body = _with_times(body, durations, moments, now)
    check_sendable(body)
    return body


def secret_mounts(secrets: Mapping[str, str | Path]) -> Record:
    """The attribute with the contents of secrets, those of files read; none without secrets. Raises
    Invalid, OSError.
    """
    contents = {
        name: read_content(name, value.read_bytes()) if isinstance(value, Path) else value
        for name, value in secrets.items()
    }
    return {"secret_mounts": mounts_of(contents)} if contents else {}


def check_sendable(attributes: Mapping[str, Any]) -> None:
    """Refuse attributes that JSON cannot hold: text that is not UTF-8, and objects of other types.
    A message shows no value, which may be a secret. Raises Invalid.
    """
    for name, value in attributes.items():
        try:
            msgspec.json.encode({name: value})
        except UnicodeEncodeError:
            raise Invalid(
                f"{printable(name)}: has text that is not UTF-8, and records hold no other; rename"
                " the file or change the text"
            ) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise Invalid(f"{printable(name)}: cannot be sent as JSON: {error}"[:300]) from None


def _check_words(command: Sequence[str]) -> None:
    """Refuse a command that is no list of words. Raises Invalid naming the word at fault."""
    if isinstance(command, str | bytes) or not isinstance(command, Sequence):
        raise Invalid(f"command: {printable(str(command))}: give it as a list of words")
    if not command:
        raise Invalid("command: is empty; give it as a list of words")
    for number, word in enumerate(command):
        _check_text(f"command: word {number + 1}", word)


def _check_texts(option: str, texts: Any) -> None:
    """Refuse anything but texts by their names. Raises Invalid naming the value at fault."""
    if not isinstance(texts, Mapping):
        raise Invalid(f"{option}: is of type {type(texts).__name__}; give texts by their names")
    for name, value in texts.items():
        _check_text(f"{option}: name {printable(str(name))}", name)
        _check_text(f"{option}: {printable(name)}", value)


def _check_text(label: str, value: object) -> None:
    if not isinstance(value, str):
        shown = printable(str(value))
        raise Invalid(f"{label}: {shown} is of type {type(value).__name__}; write str(...)")
    if "\0" in value:
        raise Invalid(f"{label}: has a NUL character, which no program can be given")
    try:
        value.encode()
    except UnicodeEncodeError:
        shown = printable(value)
        raise Invalid(
            f"{label}: {shown} is not UTF-8 text, and records hold no other; rename the file"
        ) from None


def _with_times(
    body: Record,
    durations: Mapping[str, Duration | None],
    moments: Mapping[str, Moment | None],
    now: datetime,
) -> Record:
    """The attributes with the durations and moments that were given."""
    attributes: Record = {
        name: _named(name, partial(parse_seconds, value))
        for name, value in durations.items()
        if value is not None
    }
    attributes |= {
        name: _named(name, partial(parse_moment, value, now=now))
        for name, value in moments.items()
        if value is not None
    }
    scheduling: Record = dict(body.get("scheduling_parameters") or {})
    scheduling |= {
        name: attributes.pop(name) for name in ("max_run_time", "deadline") if name in attributes
    }
    if "expires" in attributes:
        attributes["expires_at"] = attributes.pop("expires")
    return {**body, **attributes, **({"scheduling_parameters": scheduling} if scheduling else {})}


def _gpu_constraint(options: GpuOptions) -> Record | None:
    count, memory, kinds, version = options
    return gpu_constraint(
        None if count is None else _named("gpus", partial(parse_count, count)),
        memory=0 if memory is None else _named("gpu_memory", partial(parse_memory, memory)),
        kinds=_named("gpu_type", partial(parse_kinds, kinds)),
        version="" if version is None else _named("cuda", partial(parse_version, version)),
        stack="" if version is None else CUDA,
    )


def _scratch(tmp: str | Iterable[str] | Mapping[str, int | str]) -> Record:
    """The mounts of empty directories; a mapping has the size of each."""
    if isinstance(tmp, Mapping):
        return {
            _target(path): {
                "kind": "tmp",
                "capacity": _named(f"tmp {path}", partial(parse_size, room)),
            }
            for path, room in tmp.items()
        }
    return {_target(path): {"kind": "tmp"} for path in ([tmp] if isinstance(tmp, str) else tmp)}


def _target(path: str) -> str:
    if not path.startswith("/"):
        raise Invalid(f"tmp: {printable(path)}: must be an absolute path in the container")
    return path


def _check_names(attributes: Mapping[str, Any]) -> None:
    """Refuse a keyword that is neither an option nor an attribute of requests. Raises Invalid."""
    # Imported here: the command line needs only the texts of this module.
    from lading.core.records.container_types import REQUESTS

    names = [field.name for field in REQUESTS.fields if not field.readonly]
    for name in attributes:
        if name not in names:
            near = difflib.get_close_matches(name, [*names, *_OPTIONS], 1)
            hint = f"; did you mean {near[0]!r}?" if near else "; see docs/python.md"
            raise Invalid(f"{printable(name)}: is no option and no attribute of a request{hint}")


def _named(name: str, parse: Callable[[], Any]) -> Any:
    """The value of an option; a fault names the option. Raises Invalid."""
    try:
        return parse()
    except Invalid as error:
        raise Invalid(f"{name}: {error.message}") from None
