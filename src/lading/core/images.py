"""Container images: the layout of their archives.

An image collection has exactly one `*.tar` at top level, named `<image id>.tar`, an archive in the
docker-save layout (docs/spec/containers, section Images). The archive has `manifest.json`, which
names the image's configuration and its layer archives, lowest first. A layer removes paths of lower
layers by whiteouts: `dir/.wh.name` removes `dir/name`, `dir/.wh..wh..opq` hides all entries of
`dir` in lower layers.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

import msgspec

from lading.core.errors import ExecutionError, Failure

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MANIFEST = "manifest.json"
_WHITEOUT = ".wh."
# Bytes. Less than PATH_MAX (4,096), since the path of the layer's directory precedes it.
_LONGEST_PATH = 3000
# NAME_MAX of Linux, in bytes.
_LONGEST_NAME = 255
MOST_ELEMENTS = 256
"""Limit for the path of a layer member. Real images have some 40; deeper ones only make removal
difficult.
"""
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Errors of a JSON decoder for the document of an image: not JSON, not UTF-8, nested too deep."""
# Characters of a name in a message.
_SHOWN = 100
# ASCII digits: `str.isdigit` accepts others, such as a superscript, which `int` does not.
_NUMBER = re.compile(r"[0-9]{1,10}")
# 2**32 - 1 stands for "no change" in the calls of Linux that set ids.
_LARGEST_ID = (1 << 32) - 2
# Names of architectures: kernel (uname) -> images.
_GOARCH = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "i686": "386",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
}
# Processors whose programs a newer one runs too.
_OLDER = {"amd64": "386", "arm64": "arm"}
# A digest of the OCI image specification; no other algorithm is in use.
_LAYER_ID = re.compile(r"sha256:[0-9a-f]{64}")
_OPAQUE = ".wh..wh..opq"


class ImageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The image's settings for its process, and the content hashes of its uncompressed layers,
    lowest first.
    """

    diff_ids: tuple[str, ...]
    """`sha256:<hex>` of each layer archive, uncompressed."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """`NAME=value`, as in the image."""
    working_directory: str = ""
    user: str = ""
    architecture: str = ""
    """Processor that it is for, as Go names it; "" if the image does not say."""
    volumes: tuple[str, ...] = ()
    """Directories that a container has, whether a layer makes them or not; "/data"."""


class SavedImage(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of the archive's manifest: member names of the configuration and of the layers,
    lowest first.
    """

    config: str
    layers: tuple[str, ...]


class ImageProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process to start: values missing in the record are taken from the image."""

    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    cwd: str
    user: str


class Account(msgspec.Struct, frozen=True):
    """Numeric ids of a user of an image."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class Whiteout(msgspec.Struct, frozen=True):
    """Removal of entries of lower layers.

    `path` is the removed path, or, when `opaque`, the directory whose lower content is hidden (""
    is the root).
    """

    path: str
    opaque: bool


def image_member(names: Iterable[str]) -> tuple[str, str]:
    """The archive among the top-level file names of an image collection, and the image id in its
    name.

    Raises ExecutionError(IMAGE) when there are none or several.
    """
    archives = sorted(name for name in names if name.endswith(".tar") and "/" not in name)
    if len(archives) != 1:
        found = ", ".join(archives) or "none"
        raise _fault(
            f"the image collection must have exactly one .tar file at its top; it has: {found}"
        )
    return archives[0], archives[0].removesuffix(".tar")


def parse_manifest(data: bytes) -> SavedImage:
    """The contents of `manifest.json`. Raises ExecutionError(IMAGE)."""
    try:
        entries = msgspec.json.decode(data, type=list[_ManifestEntry])
    except UNREADABLE as error:
        raise _fault(f"manifest.json of the image cannot be read: {error}") from error
    if len(entries) != 1:
        raise _fault(
            f"the image archive must hold exactly one image; its manifest.json lists {len(entries)}"
        )
    return SavedImage(config=entries[0].Config, layers=tuple(entries[0].Layers))


def parse_config(data: bytes, *, layers: int) -> ImageConfig:
    """The image configuration of an archive with that many `layers`. Raises
    ExecutionError(IMAGE).
    """
    try:
        raw = msgspec.json.decode(data, type=_Config)
    except UNREADABLE as error:
        raise _fault(f"the image's configuration cannot be read: {error}") from error
    _check_layers(raw.rootfs.diff_ids, layers)
    settings = raw.config or _Settings()
    _check_settings(settings)
    return ImageConfig(
        diff_ids=tuple(raw.rootfs.diff_ids),
        entrypoint=_words(settings.Entrypoint),
        command=_words(settings.Cmd),
        environment=tuple(settings.Env or ()),
        working_directory=settings.WorkingDir or "",
        user=settings.User or "",
        architecture=raw.architecture or "",
        volumes=_volumes(settings.Volumes or {}),
    )


def check_architecture(architecture: str, machine: str, *, is_emulated: bool) -> None:
    """Raise ExecutionError(IMAGE) for an image that this machine cannot run. `machine`: what
    `uname -m` says; `is_emulated`: the kernel hands programs of other processors to an emulator.
    """
    own = goarch(machine)
    if not (runs_on(architecture, own) or is_emulated):
        raise _fault(
            f"the image is for {architecture[:_SHOWN]}, and this machine is {own}; add or pull it "
            f"with --platform linux/{own}"
        )


def runs_on(architecture: str, own: str) -> bool:
    """Whether a processor `own` runs the programs of an image, "" if it does not say."""
    return architecture in ("", own, _OLDER.get(own))


def goarch(machine: str) -> str:
    """The name of a processor architecture in images, from the kernel's name."""
    return _GOARCH.get(machine, machine)


def _words(value: list[str] | str | None) -> tuple[str, ...]:
    """The words of a command; old versions of Docker wrote a program without arguments as a
    text.
    """
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(value or ())


def _volumes(paths: Iterable[str]) -> tuple[str, ...]:
    """Absolute paths; those above come first."""
    whole = {posixpath.normpath(posixpath.join("/", path.lstrip("/"))) for path in paths}
    return tuple(sorted(whole - {"/"}))


def _check_layers(ids: Sequence[str], layers: int) -> None:
    if len(ids) != layers or layers == 0:
        raise _fault(f"the image has {layers} layers but its configuration lists {len(ids)}")
    for layer_id in ids:
        if not _LAYER_ID.fullmatch(layer_id):
            raise _fault(
                f"the image's configuration has a layer id that is not sha256: {layer_id!r}"
            )


def _check_settings(settings: _Settings) -> None:
    """Raise ExecutionError(IMAGE) for a NUL: programs in C read a text only up to it, so that one
    that was checked would not be the one that is used.
    """
    for name in _Settings.__struct_fields__:
        value = getattr(settings, name) or ()
        if any("\0" in string for string in ([value] if isinstance(value, str) else value)):
            raise _fault(f"the image's configuration has a NUL in {name}; make the image anew")


def process(
    image: ImageConfig,
    *,
    command: Sequence[str],
    environment: Iterable[tuple[str, str]],
    cwd: str = "",
) -> ImageProcess:
    """The process to start: values of the record take precedence, the image supplies the rest
    (docs/spec/containers, section Run).

    The image's entry point precedes the command; `cwd` is relative to the directory of the image.
    """
    merged = {"PATH": DEFAULT_PATH}
    merged.update(_pair(variable) for variable in image.environment)
    merged.update(environment)
    return ImageProcess(
        arguments=(*image.entrypoint, *(command or image.command)),
        environment=tuple(merged.items()),
        cwd=posixpath.normpath(posixpath.join("/", image.working_directory, cwd)),
        user=image.user,
    )


def check_command(image: ImageConfig, command: Sequence[str]) -> None:
    """Raise ExecutionError(USER) when neither the record nor the image has a command."""
    if not (command or image.entrypoint or image.command):
        raise ExecutionError(
            "the request names no command, and the image has neither CMD nor ENTRYPOINT; "
            "name a command",
            Failure.USER,
        )


def account(user: str, *, passwd: str, group: str) -> Account:
    """Numeric ids of `user` (`name`, `name:group`, `1000`, `1000:1000`, "" for root) from the
    image's own files.

    `passwd` and `group` are the texts of /etc/passwd and /etc/group, empty when absent. Raises
    ExecutionError(IMAGE) for an unknown name.
    """
    name, _, wanted_group = user.partition(":")
    name = name or "0"
    entry = _find(passwd, name, fields=4)
    if entry is None and not _is_id(name):
        raise _fault(f"the image's user {name[:_SHOWN]!r} is not in its /etc/passwd")
    uid = int(entry[2] if entry else name)
    # Without an entry the group is root's, as with Docker.
    gid = int(entry[3]) if entry else 0
    if wanted_group:
        found = _find(group, wanted_group, fields=3)
        if found is None and not _is_id(wanted_group):
            raise _fault(f"the image's group {wanted_group[:_SHOWN]!r} is not in its /etc/group")
        return Account(uid, int(found[2] if found else wanted_group))
    return Account(uid, gid, _groups_of(group, entry[0]) if entry else ())


def whiteout(path: str) -> Whiteout | None:
    """The removal that the layer member `path` stands for, or None for an ordinary member.

    Raises ExecutionError(IMAGE) for one that would remove its own directory or one above it.
    """
    folder, name = posixpath.split(path)
    if name == _OPAQUE:
        return Whiteout(folder, opaque=True)
    if not name.startswith(_WHITEOUT):
        return None
    gone = name.removeprefix(_WHITEOUT)
    if gone in ("", ".", ".."):
        raise _fault(
            f"the image has a layer member that removes nothing below it: {path[-_SHOWN:]!r}"
        )
    return Whiteout(posixpath.join(folder, gone), opaque=False)


def member_path(name: str) -> str:
    """A layer member's path relative to the root of the layer, "" for the root itself.

    Raises ExecutionError(IMAGE) for a name that leads out of the layer, exceeds the limits of file
    systems, or has more than `MOST_ELEMENTS` elements.
    """
    elements = [element for element in name.split("/") if element not in ("", ".")]
    if ".." in elements or "\0" in name:
        raise _fault(f"the image has a layer member that leads out of the layer: {name[:_SHOWN]!r}")
    path = "/".join(elements)
    if len(path) > _LONGEST_PATH or any(
        len(element.encode("utf-8", "surrogateescape")) > _LONGEST_NAME for element in elements
    ):
        raise _fault(f"the image has a layer member whose name is too long: {name[:_SHOWN]!r}...")
    if len(elements) > MOST_ELEMENTS:
        raise _fault(
            f"the image has a layer member more than {MOST_ELEMENTS} directories deep: "
            f"{name[:_SHOWN]!r}..."
        )
    return path


class _ManifestEntry(msgspec.Struct):
    Config: str
    Layers: list[str]


class _Settings(msgspec.Struct):
    Entrypoint: list[str] | str | None = None
    Cmd: list[str] | str | None = None
    Env: list[str] | None = None
    WorkingDir: str | None = None
    User: str | None = None
    Volumes: dict[str, msgspec.Raw] | None = None


class _RootFS(msgspec.Struct):
    diff_ids: list[str]


class _Config(msgspec.Struct):
    rootfs: _RootFS
    architecture: str | None = None
    config: _Settings | None = None


def _fault(message: str) -> ExecutionError:
    return ExecutionError(message, Failure.IMAGE)


def _pair(variable: str) -> tuple[str, str]:
    name, _, value = variable.partition("=")
    return name, value


def _is_id(number: str) -> bool:
    return _NUMBER.fullmatch(number) is not None and int(number) <= _LARGEST_ID


def _find(table: str, name: str, *, fields: int) -> list[str] | None:
    """The line of a passwd-like table whose name, or else whose number (third field), is `name`."""
    lines = [line.split(":") for line in table.splitlines()]
    usable = [line for line in lines if len(line) >= fields and all(map(_is_id, line[2:fields]))]
    by_name = [line for line in usable if line[0] == name]
    found = by_name or [line for line in usable if line[2] == name]
    return found[0] if found else None


def _groups_of(table: str, name: str) -> tuple[int, ...]:
    lines = [line.split(":") for line in table.splitlines()]
    return tuple(
        int(line[2])
        for line in lines
        if len(line) >= 4 and _is_id(line[2]) and name in line[3].split(",")
    )
