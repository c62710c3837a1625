"""Container images: references by which requests name them, and the layout of their archives.

An image collection has exactly one `*.tar` at top level, named `<image id>.tar`, an archive in the
docker-save layout (docs/spec/containers, section Images). The archive has `manifest.json`, which
names the image's configuration and its layer archives, lowest first. A layer removes paths of lower
layers by whiteouts: `dir/.wh.name` removes `dir/name`, `dir/.wh..wh..opq` hides all entries of
`dir` in lower layers.

A request names an image by a portable data hash, the uuid of a collection, a `repository:tag`, or
the start of an image hash. The server looks up the links; `choose_image` chooses among them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

import msgspec

from lading.core.errors import ExecutionError, Failure, Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.values import printable

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
    for one in ids:
        if not _LAYER_ID.fullmatch(one):
            raise _fault(f"the image's configuration has a layer id that is not sha256: {one!r}")


def _check_settings(settings: _Settings) -> None:
    """Raise ExecutionError(IMAGE) for a NUL: programs in C read a text only up to it, so that one
    that was checked would not be the one that is used.
    """
    for name in _Settings.__struct_fields__:
        value = getattr(settings, name) or ()
        if any("\0" in one for one in ([value] if isinstance(value, str) else value)):
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
    merged.update(_pair(one) for one in image.environment)
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
    elements = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in elements or "\0" in name:
        raise _fault(f"the image has a layer member that leads out of the layer: {name[:_SHOWN]!r}")
    path = "/".join(elements)
    if len(path) > _LONGEST_PATH or any(
        len(one.encode("utf-8", "surrogateescape")) > _LONGEST_NAME for one in elements
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


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _is_id(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and int(text) <= _LARGEST_ID


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


REPO_TAG = "docker_image_repo+tag"
IMAGE_HASH = "docker_image_hash"
# The registry that the names of Docker leave out, and the host that builders take for their own.
HUB = ".".join(("docker", "io"))
_HUB_HOSTS = (HUB, f"index.{HUB}")
_OFFICIAL = "library/"
_LOCAL = "localhost"

# A portable data hash with hints.
_LOCATOR = re.compile(r"([0-9a-f]{32}\+\d+)(\+[^+/]+)*")
# The shortest prefix of an image hash: four digits. Less (`sha256:`, or `s`) would match every
# image.
_HASH = re.compile(r"(sha256:)?[0-9A-Fa-f]{4,64}")
# The name of the only file in an image's collection.
_FILE = re.compile(r"(sha256:)?[0-9A-Fa-f]{64}\.tar")


class Term(msgspec.Struct, frozen=True):
    """Parsed `container_image`.

    With `pdh`: that collection; with `uuid`: the present content of that collection. Otherwise
    links of class REPO_TAG with one of `names`, and if there are none and `is_hash`, links of class
    IMAGE_HASH whose name starts with one of `hashes`.
    """

    text: str
    pdh: str | None
    name: str
    uuid: str | None = None

    @property
    def is_hash(self) -> bool:
        """Whether the text can be the start of an image hash."""
        return _HASH.fullmatch(self.text) is not None

    @property
    def hashes(self) -> tuple[str, ...]:
        """Beginnings of hashes as links have them: with `sha256:`, and of old images without."""
        digits = self.text.removeprefix("sha256:").lower()
        return (f"sha256:{digits}", digits)

    @property
    def names(self) -> tuple[str, ...]:
        """The name, and the others of the same image in the grammar of references."""
        return same_names(self.name)


class ImageLink(msgspec.Struct, frozen=True, kw_only=True):
    """A readable link to a readable collection: its times, the collection's hash and file names."""

    collection_uuid: str
    pdh: str
    files: tuple[str, ...]
    created_at: str
    image_timestamp: str | None = None
    name: str = ""
    is_own: bool = False
    """Whether the caller has made it."""
    is_of_site: bool = False
    """Whether an administrator has made it."""
    owner_uuid: str = ""
    is_shared: bool = True
    """Whether the caller has been given it; administrators read the others too."""


def same_names(name: str) -> tuple[str, ...]:
    """Names that mean the same image as `repository:tag`, itself first.

    A name without a host is one of Docker Hub, or one that a builder of this machine gave, which
    podman and buildah write with the host `localhost`.
    """
    host, slash, path = name.partition("/")
    if not slash or not (host == _LOCAL or {".", ":"} & {*host}):
        host, path = "", name
    if host not in ("", _LOCAL, *_HUB_HOSTS):
        return (name,)
    path = path if host == _LOCAL else path.removeprefix(_OFFICIAL)
    whole = path if "/" in path else f"{_OFFICIAL}{path}"
    names = [name, path]
    if host not in _HUB_HOSTS:
        names.append(f"{_LOCAL}/{path}")
    if host != _LOCAL:
        names += [f"{HUB}/{whole}", whole, f"{HUB}/{path}", f"index.{HUB}/{whole}"]
    return tuple(dict.fromkeys(names))


def parse_reference(text: str) -> Term:
    """Parse `container_image`; hints of a locator are dropped, the default tag is `latest`.

    The tag starts after the last `:` unless that is part of a registry address (`host:5000/name`).
    """
    match = _LOCATOR.fullmatch(text)
    if match is not None:
        return Term(text, match[1], "")
    if is_uuid(text, Infix.COLLECTION):
        return Term(text, None, "", text)
    repository, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        return Term(text, None, f"{text}:latest")
    return Term(text, None, f"{repository}:{tag or 'latest'}")


def choose_image(term: Term, links: Iterable[ImageLink], *, formats: Sequence[str]) -> str:
    """The portable data hash of the first compatible image among `links`.

    Links of the caller precede those of others, so that nobody else decides what a name means that
    the caller has given; then come those of administrators, so that no user takes over a name of
    the site. One that an administrator can read only because administrators read everything is
    never taken: a user would decide what runs with an administrator's rights. Then come names in
    the order of `term.names`, and of several owners the one who gave the name first. Of one owner,
    the newest by image timestamp and by the time of the link is taken; a link without a timestamp
    comes last.

    Raises Invalid when there are no links, when none is compatible with `formats`, when all are of
    others who have not shared them, and when several owners, none of them an administrator, share
    different images by this name.
    """
    ordered = in_order(term, links)
    if not ordered:
        raise Invalid(image_not_found(term.text))
    usable = [link for link in ordered if is_image(link.files, formats=formats)]
    shared = [link for link in usable if link.is_shared or link.is_own or link.is_of_site]
    if usable and not shared:
        raise Invalid(
            f'docker image "{printable(term.text)}" is a name of another user who has not shared '
            f"it; name its collection {usable[0].collection_uuid}, or add the image yourself"
        )
    if shared:
        _check_owners(term, shared)
        return shared[0].pdh
    raise Invalid(
        "Matching Docker image is incompatible with 'docker_image_formats' configuration."
    )


def _check_owners(term: Term, usable: Sequence[ImageLink]) -> None:
    """Raises Invalid where it is open which of several owners the caller means."""
    first = usable[0]
    if first.is_own or first.is_of_site:
        return
    newest: dict[str, str] = {}
    for link in usable:
        newest.setdefault(link.owner_uuid, link.pdh)
    if len(set(newest.values())) > 1:
        raise Invalid(
            f'docker image "{printable(term.text)}" is a name that {len(newest)} users share for '
            "different images; name the collection of the one that you mean (`lading image list`), "
            "or add the image yourself"
        )


def in_order(term: Term, links: Iterable[ImageLink]) -> list[ImageLink]:
    """The links in the order in which `choose_image` takes them."""
    newest_first = sorted(
        links, key=lambda link: (link.image_timestamp or "", link.created_at), reverse=True
    )
    given: dict[tuple[str, str], str] = {}
    for link in newest_first:
        name = (link.name, link.owner_uuid)
        given[name] = min(link.created_at, given.get(name, link.created_at))
    places = {name: number for number, name in enumerate(term.names)}

    def rank(link: ImageLink) -> tuple[bool, bool, int, str, str]:
        is_trusted = link.is_own or link.is_of_site
        since = "" if is_trusted else given[link.name, link.owner_uuid]
        owner = "" if is_trusted else link.owner_uuid
        return not link.is_own, not is_trusted, places.get(link.name, 0), since, owner

    return sorted(newest_first, key=rank)


def is_image(files: Sequence[str], *, formats: Sequence[str]) -> bool:
    """Whether a collection with these files is an image: exactly one file, `sha256:<hex>.tar` in
    format v2.
    """
    match = _FILE.fullmatch(files[0]) if len(files) == 1 else None
    return match is not None and ("v2" if match[1] else "v1") in formats


def image_not_found(text: str) -> str:
    """The message for an image that no readable collection or link names."""
    return (
        f'docker image "{printable(text)}" not found; '
        "add it with `lading image add`, or name another one"
    )
