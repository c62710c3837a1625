"""Faults of an image for which no engine starts it, found before it is stored.

Its settings must be readable, its layers such that they can be unpacked (`layer_scan`), and its
USER must be in its own /etc/passwd and /etc/group, which are looked for in the layers without
unpacking them. Where a link leads there, only an engine can tell.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from tarfile import TarInfo
from typing import IO, cast

from lading.client.images.archive import ImageParts, Layer
from lading.client.images.layer_scan import LayerScan
from lading.client.images.steps import ImageSteps
from lading.client.images.tar_reader import TarReader, members
from lading.core import images
from lading.core.errors import ExecutionError, Invalid, Malformed
from lading.core.image_layers import LABEL
from lading.core.images import ImageConfig

_PASSWD, _GROUP = "etc/passwd", "etc/group"
# Bytes read of each of them, as in a container.
_SMALL = 1 << 20
_ROOT_ALONE = "root:x:0:0:root:/:"
# Numbers, which need no files, and the usual spelling of root.
_NUMBERS = re.compile(r"(root|[0-9]*)(:[0-9]*)?")


def check_runnable(parts: ImageParts, *, steps: ImageSteps) -> tuple[str, ...]:
    """Remarks about entries of the layers that no container gets. Raises Invalid for an image that
    no engine starts, Malformed for a damaged layer.
    """
    try:
        config = images.parse_config(parts.config, layers=len(parts.layers))
        _check_user(config, parts.layers, steps)
        total = len(parts.layers)
        layers = [
            partial(_scanned, layer, steps, at, total) for at, layer in enumerate(parts.layers)
        ]
        return LayerScan().run(layers).left_out.lines()
    except ExecutionError as error:
        raise Invalid(f"image: it cannot be run: {error.message}") from error


@contextmanager
def _scanned(
    layer: Layer, steps: ImageSteps, number: int, total: int
) -> Iterator[Iterator[TarInfo]]:
    """The members of a layer, for `LayerScan`."""
    steps.at("checking its layers", number, total)

    def found(tar: TarReader, end: int) -> Iterator[TarInfo]:
        for member in members(tar):
            if member.offset >= end:
                break
            steps.check()
            yield member

    with _damage(layer), _opened(layer) as (tar, end):
        yield found(tar, end)


@contextmanager
def _damage(layer: Layer) -> Iterator[None]:
    """Raise Malformed for a layer that cannot be read."""
    try:
        yield
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise Malformed(f"image: layer {layer.diff_id[:19]} is damaged: {error}") from error


def _check_user(config: ImageConfig, layers: Sequence[Layer], steps: ImageSteps) -> None:
    if _NUMBERS.fullmatch(config.user):
        images.account(config.user, passwd=_ROOT_ALONE, group="")
        return
    files = _AccountFiles()
    for number, layer in enumerate(reversed(layers)):
        steps.at("looking for its user", number, len(layers))
        files.read(layer, steps)
        if files.are_found:
            break
    if not files.is_uncertain:
        texts = (files.texts.get(name) or "" for name in (_PASSWD, _GROUP))
        images.account(config.user, passwd=next(texts), group=next(texts))


class _AccountFiles:
    """The two files in the layers of an image, which are read from the uppermost down."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.is_uncertain = False
        """A link, or an entry of an odd type, is on the way to one of them."""
        self._is_hidden = {_PASSWD: False, _GROUP: False}

    @property
    def are_found(self) -> bool:
        """Whether no lower layer can change the answer."""
        return self.is_uncertain or all(
            name in self.texts or hidden for name, hidden in self._is_hidden.items()
        )

    def read(self, layer: Layer, steps: ImageSteps) -> None:
        """Take the account files of a layer. Raises Malformed."""
        contents: dict[str, str] = {}
        gone: set[str] = set()
        with _damage(layer), _opened(layer) as (tar, end):
            for member in members(tar):
                if member.offset >= end:
                    break
                steps.check()
                self._take(tar, member, contents, gone)
        for name, hidden in self._is_hidden.items():
            if not hidden:
                # A layer above has precedence.
                if name in contents:
                    self.texts.setdefault(name, contents[name])
                self._is_hidden[name] = name in gone

    def _take(
        self, tar: TarReader, member: tarfile.TarInfo, contents: dict[str, str], gone: set[str]
    ) -> None:
        if member.type == LABEL:
            return
        path = images.member_path(member.name)
        mark = images.whiteout(path)
        if mark is not None:
            gone.update(name for name in self._is_hidden if _hides(mark, name))
        elif path == "etc":
            self.is_uncertain |= not member.isdir()
        elif path in self._is_hidden:
            self.is_uncertain |= not member.isreg()
            file = tar.extractfile(member) if member.isreg() else None
            contents[path] = file.read(_SMALL).decode("utf-8", "surrogateescape") if file else ""


def _hides(mark: images.Whiteout, name: str) -> bool:
    if mark.opaque:
        return mark.path in ("", "etc")
    return mark.path in ("etc", name)


@contextmanager
def _opened(layer: Layer) -> Iterator[tuple[TarReader, int]]:
    """The archive of a layer, and the offset at which the layer ends."""
    with layer.path.open("rb") as file:
        file.seek(layer.offset)
        with closing(TarReader.open(fileobj=cast(IO[bytes], file), mode="r:")) as tar:
            yield tar, layer.offset + layer.size
