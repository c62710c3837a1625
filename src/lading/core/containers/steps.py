"""Steps of a container: commands run one after another, each in a fresh root of its own image.

All steps share the mounts of the container, at equal paths. A step with an exit code other than 0
ends the container, unless it says `ignore_error`. `stdin`, `stdout` and `stderr` name files in
mounts; output goes to the log too. The first step has the command and the image of the container.

The end of each step is in `runtime_status.steps`: {"started_at", "finished_at", "exit_code",
"stdout": [start, end], "stderr": [start, end]}, the last two being bytes of the files in the log.
Source: docs/spec/containers, section Steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from lading.core.containers.mounting.mounts import covering
from lading.core.errors import Invalid
from lading.core.values import Json, JsonObject, printable

# Each step is a command with files of its own in the run directory.
MAX_STEPS = 100
STATUS = "steps"
"""Key of `runtime_status` with the steps that have ended."""
STREAM_NAMES = ("stdin", "stdout", "stderr")


class ContainerStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step. Empty values of `cwd` and `environment` are those of the image; empty streams are
    no input, and output to the log alone.
    """

    container_image: str
    command: list[str]
    cwd: str = "."
    environment: dict[str, str] = {}
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    ignore_error: bool = False


def check_steps(_: str, value: Json) -> Json:
    """The steps in their stored form, with every key. Raises Invalid naming the step."""
    try:
        steps = msgspec.convert(value, list[ContainerStep])
    except msgspec.ValidationError as error:
        raise Invalid(f"Steps: {error}") from None
    if len(steps) > MAX_STEPS:
        raise Invalid(f"Steps: has {len(steps)} steps; at most {MAX_STEPS} are possible")
    for number, step in enumerate(steps):
        texts = (*step.command, *step.environment, *step.environment.values(), step.cwd)
        if not step.command or not step.container_image.strip() or any("\0" in it for it in texts):
            raise Invalid(f"Steps [{number}]: needs an image, and a command without NUL")
    return [msgspec.to_builtins(step) for step in steps]


def read_steps(stored: Sequence[Json]) -> tuple[ContainerStep, ...]:
    """The stored steps of a request or container."""
    return tuple(msgspec.convert(step, ContainerStep) for step in stored)


def validate_steps(record: Mapping[str, Json], mounted: Mapping[str, Json], *, nodes: int) -> None:
    """Check the steps of a whole record: the first has its command and image, streams are files in
    its mounts. Raises Invalid.
    """
    stored = record["steps"]
    steps = read_steps(stored) if isinstance(stored, list) else ()
    if not steps:
        return
    first = steps[0]
    if [*first.command] != record["command"] or first.container_image != record["container_image"]:
        raise Invalid("Steps [0]: must have the command and the container_image of the request")
    if nodes > 1 or record["service"]:
        raise Invalid("Steps: are not possible for a service, or on several nodes")
    for number, step in enumerate(steps):
        for name in STREAM_NAMES:
            _check_stream(f"Steps [{number}][{name}]", name, getattr(step, name), mounted)


def _check_stream(where: str, name: str, path: str, mounted: Mapping[str, Json]) -> None:
    if not path:
        return
    cover = covering(mounted, path)
    if cover is None:
        raise Invalid(f"{where}: {printable(path)} is in no mount")
    if name != "stdin" and not _takes_files(mounted, cover, path):
        raise Invalid(f"{where}: {printable(path)} is no file in a mount of kind tmp")


def _takes_files(mounted: Mapping[str, Json], cover: str, path: str) -> bool:
    spec = mounted[cover]
    names = path[len(cover) + 1 :].split("/")
    plain = not {"", ".", ".."} & set(names)
    return isinstance(spec, dict) and spec.get("kind") == "tmp" and plain


def with_images(
    stored: Sequence[Mapping[str, Json]], images: Mapping[str, str]
) -> list[JsonObject]:
    """The steps of a container: `images` has the portable data hash of each image by the name that
    the request has.
    """
    return [{**step, "container_image": images[str(step["container_image"])]} for step in stored]


def image_names(stored: Sequence[Mapping[str, Json]]) -> tuple[str, ...]:
    """The names of the images of stored steps, each once."""
    return tuple(dict.fromkeys(str(step["container_image"]) for step in stored))
