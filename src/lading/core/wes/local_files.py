"""Files of the sender's machine that parameters of a run name, and that are attached to its form.

`wes-client` writes the absolute place of each input into the parameters, as
`file:///home/ann/wf/data/reads.fq`, and attaches the file as `data/reads.fq`: the path from the
directory of the workflow, which the form does not name. That is the directory from which every
place of the parameters leads to an attachment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from lading.core.values import Json, JsonObject, printable

# A URL of a file of the sender's machine (RFC 8089).
_FILE_URL = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


def local_path(location: str) -> str:
    """The absolute path of a place on the sender's machine, decoded; "" for any other place."""
    path = _FILE_URL.sub("", location, count=1)
    return decoded(path).rstrip("/") if re.match("/(?!/)", path) else ""


def decoded(url: str) -> str:
    """A path without percent-encoding."""
    data = url.encode("utf-8", "surrogatepass")
    return _PERCENT.sub(lambda match: bytes.fromhex(match[1].decode()), data).decode(
        errors="replace"
    )


def find_base(locations: Iterable[str], paths: Collection[str]) -> tuple[str, str]:
    """The directory of the sender's machine from which the local places lead to `paths`, the
    attachments and the directories above them; and a fault, "" without one. Both are "" where no
    place is local.
    """
    common: set[str] | None = None
    for location in locations:
        if not (path := local_path(location)):
            continue
        bases = set(_bases(path, paths))
        if not bases:
            return "", f"{printable(location)!r} is no workflow_attachment"
        if common is not None and not bases & common:
            return "", (
                f"{printable(location)!r} is no workflow_attachment: the others lie below "
                f"{printable(min(common))}"
            )
        common = bases if common is None else bases & common
    if common is not None and len(common) > 1:
        shown = " or ".join(printable(base) for base in sorted(common)[:2])
        return "", f"local files may be attachments from {shown}; name them by relative paths"
    return (common.pop(), "") if common else ("", "")


def _bases(path: str, paths: Collection[str]) -> Iterator[str]:
    """The directories, with a slash at the end, from which `path` is one of `paths`."""
    at = path.find("/")
    while at >= 0:
        if path[at + 1 :] in paths:
            yield path[: at + 1]
        at = path.find("/", at + 1)


def below_base(value: JsonObject, base: str) -> JsonObject:
    """Parameters in which each local File and Directory is named by its path below `base`."""
    return {name: _below(parameter, base) for name, parameter in _relative(value, base).items()}


def _below(value: Json, base: str) -> Json:
    if isinstance(value, list):
        return [_below(item, base) for item in value]
    return below_base(value, base) if isinstance(value, dict) else value


def _relative(value: Mapping[str, Json], base: str) -> Mapping[str, Json]:
    for name in ("location", "path"):
        location = value.get(name)
        if value.get("class") in ("File", "Directory") and isinstance(location, str):
            path = local_path(location)
            if path.startswith(base):
                # A percent sign is one of the name: it was decoded.
                members = {
                    key: member for key, member in value.items() if key not in ("location", "path")
                }
                return {**members, "location": path[len(base) :].replace("%", "%25")}
            return value
    return value
