"""Client of registries, and the steps of `lading image pull` up to the normal form of the image.

It follows the OCI distribution specification (the Docker registry HTTP API v2). A tag is resolved
to a manifest, an index to the manifest for a platform; everything else is fetched by its digest and
refused when its digest differs. An interrupted layer is continued (Range). Redirects are followed
without the login, which is for the registry only.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import urljoin

from msgspec import structs

from lading.client.files.downloads import Progress
from lading.client.images.archive import (
    ImageParts,
    NormalImage,
    Platform,
    read_config,
    read_layers,
    write_archive,
)
from lading.client.images.archive_members import DirectoryMembers
from lading.client.images.layer_cache import LayerCache
from lading.client.images.manifests import (
    Blob,
    RemoteImage,
    choose_manifest,
    config_of,
    layers_of,
    parse_manifest,
)
from lading.client.images.reference import ImageReference
from lading.client.images.registry_access import Login, parse_challenge, read_token
from lading.client.images.registry_addresses import (
    Lookup,
    check_origin,
    look_up,
    shown,
    split_address,
)
from lading.client.images.runnable import check_runnable
from lading.client.images.steps import ImageSteps, Report, run_steps
from lading.client.retry import Retries, RetryPolicy
from lading.client.transport import HttpTransport, StreamedResponse, Transport
from lading.core.errors import (
    Forbidden,
    Full,
    Invalid,
    Malformed,
    NotFound,
    Unauthenticated,
    Unavailable,
    from_status,
)

# Media types of manifests and indexes; without them registries send older formats.
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
# Bytes of a manifest or configuration; more is refused as damaged.
_MAX_DOCUMENT = 8 << 20
# Indexes inside indexes.
_MAX_NESTING = 4
# Requests for one document, with redirects and logins.
_MAX_HOPS = 8
# Layers fetched at a time.
_AT_ONCE = 3
# Seconds between two pieces of a response.
_TIMEOUT = 60.0
# Seconds for a document, at 64 KiB/s for the largest.
_DOCUMENT_TIME = 120.0
# Bytes of the answer of a token service.
_MAX_TOKEN = 1 << 20
_PATIENCE = RetryPolicy(attempts=5, give_up_after=30.0)

Connect = Callable[[str], Transport]
"""Returns a transport to an origin, `https://host:port`."""


class Registry:
    """One registry; `async with` closes its connections. `origin` is `https://host:port` or
    `http://host:port`; `lookup` gives the addresses of the hosts to which it leads.
    """

    document_time = _DOCUMENT_TIME
    """Seconds for all of one document."""

    def __init__(
        self,
        origin: str,
        *,
        connect: Connect,
        login: Login | None = None,
        retries: Retries | None = None,
        lookup: Lookup = look_up,
    ) -> None:
        self._lookup = lookup
        self._origin = origin
        self._connect = connect
        self._login = login
        self._retries = retries or Retries(policy=_PATIENCE)
        self._transports: dict[str, Transport] = {}
        self._authorization = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for transport in self._transports.values():
            await transport.close()
        self._transports.clear()

    async def resolve(self, reference: ImageReference, *, platform: Platform) -> RemoteImage:
        """The image with this name for this platform.

        Raises NotFound, Unauthenticated, Forbidden, Invalid when it is no image or is for other
        platforms only, Malformed when it is damaged, Unavailable.
        """
        body = await self._document(reference, reference.version)
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        document = parse_manifest(body, reference)
        for _ in range(_MAX_NESTING):
            if document.manifests is None:
                return RemoteImage(
                    reference=reference,
                    digest=digest,
                    config=config_of(document, reference),
                    layers=layers_of(document, reference),
                )
            chosen = choose_manifest(document.manifests, platform, reference)
            document = parse_manifest(await self._document(reference, chosen.digest), reference)
        raise Malformed(f"{reference.name}: damaged image: its indexes are nested too deeply")

    async def config(self, image: RemoteImage) -> bytes:
        """The configuration of the image; its sha256 is the image's id."""
        return await self._small(
            f"blobs/{image.config.digest}", image.reference, image.config.digest
        )

    async def fetch(
        self, image: RemoteImage, layer_cache: LayerCache, *, progress: Progress | None = None
    ) -> int:
        """Fetch the missing layers into the cache; return the bytes fetched. Raises as `resolve`,
        and Conflict; Full, before anything is fetched, for layers larger than the disk has room.
        """
        layers = {layer.digest: layer for layer in image.layers}
        done, fetched, total = 0, 0, sum(layer.size for layer in layers.values())

        def advance(count: int) -> None:
            nonlocal done
            done += count
            if progress is not None:
                progress(done, total)

        await asyncio.to_thread(_check_room, image, tuple(layers.values()), layer_cache)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(layer: Blob) -> None:
            nonlocal fetched
            async with gate:
                if await asyncio.to_thread(layer_cache.has, layer.digest):
                    advance(layer.size)
                else:
                    count = await self._layer(image.reference, layer, layer_cache, advance)
                    # Added after the await: `fetched += await ...` would read the old value before
                    # it.
                    fetched += count

        try:
            async with asyncio.TaskGroup() as group:
                for layer in layers.values():
                    group.create_task(one(layer), name=f"layer {layer.digest[:19]}")
        # The first error stands for all: callers expect a LadingError.
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return fetched

    async def _layer(
        self,
        reference: ImageReference,
        layer: Blob,
        layer_cache: LayerCache,
        advance: Callable[[int], None],
    ) -> int:
        fetched = 0
        with layer_cache.part(layer.digest) as file:
            # `told`: bytes reported to `advance`. A layer that starts again is reported once only.
            told = file.seek(0, 2)
            advance(min(told, layer.size))

            async def attempt() -> None:
                nonlocal fetched, told
                # A part that is too long cannot be a prefix of the layer.
                if file.seek(0, 2) > layer.size:
                    file.truncate(0)
                if file.seek(0, 2) == layer.size:
                    return
                async for count in self._append(reference, layer, file):
                    fetched += count
                    at = file.tell()
                    advance(max(0, at - told))
                    told = max(told, at)
                if file.tell() != layer.size:
                    raise Unavailable(
                        f"{reference.name}: layer {layer.digest[:19]}: {self._origin} broke off"
                    )

            await self._retries.run(attempt)
            await asyncio.to_thread(layer_cache.keep, layer.digest)
        return fetched

    async def _append(
        self, reference: ImageReference, layer: Blob, file: BinaryIO
    ) -> AsyncGenerator[int]:
        """Fetch the rest of a layer; yields the bytes of each piece."""
        start = file.seek(0, 2)
        headers = {"range": f"bytes={start}-"} if start else {}
        async with self._get(f"blobs/{layer.digest}", reference, headers) as answer:
            if start and answer.status != HTTPStatus.PARTIAL_CONTENT:
                # The registry ignored the range and sends the complete layer.
                file.seek(0)
                file.truncate()
            async for chunk in answer.chunks:
                if file.tell() + len(chunk) > layer.size:
                    file.truncate(0)
                    raise Malformed(
                        f"{reference.name}: layer {layer.digest[:19]} "
                        f"has more than {layer.size} bytes"
                    )
                try:
                    await asyncio.to_thread(_write, file, chunk)
                except OSError as error:
                    raise Full(
                        f"layer {layer.digest[:19]}: cannot be written: {error.strerror}"
                    ) from error
                yield len(chunk)

    async def _document(self, reference: ImageReference, version: str) -> bytes:
        digest = version if version.startswith("sha256:") else ""
        return await self._small(f"manifests/{version}", reference, digest, {"accept": _ACCEPT})

    async def _small(
        self,
        path: str,
        reference: ImageReference,
        digest: str,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """A document of the image, verified if its digest is known."""

        async def attempt() -> bytes:
            async with (
                self._within(self.document_time, reference),
                self._get(path, reference, headers or {}) as answer,
            ):
                return await _read(
                    answer, _MAX_DOCUMENT, f"{reference.name}: damaged image: {path}"
                )

        body = await self._retries.run(attempt)
        found = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if digest and found != digest:
            raise Malformed(
                f"{reference.name}: {digest[:19]} was asked for, "
                f"and {self._origin} sent {found[:19]}"
            )
        return body

    @asynccontextmanager
    async def _get(
        self, path: str, reference: ImageReference, headers: Mapping[str, str]
    ) -> AsyncGenerator[StreamedResponse]:
        """The successful response for a path of the repository, after a login and redirects if
        requested.
        """
        address = f"{self._origin}/v2/{reference.repository}/{path}"
        has_tried = False
        for _ in range(_MAX_HOPS):
            origin, at = await self._checked(address)
            own = (
                # The login is never sent to another origin, to which a redirect may lead.
                {"authorization": self._authorization}
                if self._authorization and origin == self._origin
                else {}
            )
            async with self._transport(origin).stream(
                "GET", at, headers={**headers, **own}, timeout=_TIMEOUT
            ) as response:
                if (
                    # One login; a second 401 means that it does not suffice.
                    response.status == HTTPStatus.UNAUTHORIZED
                    and origin == self._origin
                    and not has_tried
                ):
                    challenge = response.headers.get("www-authenticate", "")
                    has_tried = True
                elif response.status in (301, 302, 303, 307, 308) and response.headers.get(
                    "location"
                ):
                    challenge, address = "", self._redirect(address, response.headers["location"])
                elif response.status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
                    yield response
                    return
                else:
                    raise self._refused(response.status, reference, path)
            # After the response was closed: its connection can be reused.
            if challenge:
                await self._log_in(challenge, reference)
        raise Unavailable(
            f"{reference.name}: {self._origin} sends from one place to another without end"
        )

    def _redirect(self, address: str, location: str) -> str:
        try:
            target = urljoin(address, location)
        except ValueError as error:
            raise Invalid(
                f"{self._origin}: sends to {location[:100]!r}, which is no web address"
            ) from error
        if not target.startswith(
            "https://" if self._origin.startswith("https:") else ("https://", "http://")
        ):
            raise Invalid(f"{self._origin}: sends to {shown(target)} in the clear; refused")
        return target

    async def _log_in(self, header: str, reference: ImageReference) -> None:
        challenge = parse_challenge(header)
        if challenge.scheme == "basic":
            if self._login is None:
                raise self._refused(HTTPStatus.UNAUTHORIZED, reference, "")
            self._authorization = self._login.header
            return
        if challenge.scheme != "bearer":
            raise Unauthenticated(
                f"{self._origin}: asks for a login by {challenge.scheme[:50]!r}, "
                "which is not known here"
            )
        address = challenge.token_address(self._origin, reference.repository)
        origin, at = await self._checked(address)
        headers = {"authorization": self._login.header} if self._login else {}
        async with (
            self._within(_TIMEOUT, reference),
            self._transport(origin).stream("GET", at, headers=headers, timeout=_TIMEOUT) as answer,
        ):
            if answer.status != HTTPStatus.OK:
                raise self._refused(answer.status, reference, "")
            body = await _read(answer, _MAX_TOKEN, f"{reference.name}: the token of {origin}")
        self._authorization = f"Bearer {read_token(body, origin)}"

    async def _checked(self, address: str) -> tuple[str, str]:
        """Origin and path of an address that the registry names. Raises Invalid."""
        origin, at = split_address(address, self._origin)
        if origin != self._origin:
            await check_origin(origin, self._origin, self._lookup)
        return origin, at

    @asynccontextmanager
    async def _within(self, seconds: float, reference: ImageReference) -> AsyncGenerator[None]:
        """Raise Invalid where a document takes longer: one that drips has no end."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise Invalid(
                f"{reference.name}: {self._origin} takes over {seconds:g} s for one document"
            ) from error

    def _refused(self, status: int, reference: ImageReference, path: str) -> Exception:
        host, name = reference.host, reference.name
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            kind = Unauthenticated if status == HTTPStatus.UNAUTHORIZED else Forbidden
            who = f"{self._login.name!r} may not pull it" if self._login else "a login is needed"
            return kind(
                f"{name}: {host} refuses: {who}; "
                f"log in with 'docker login {host}', or correct the name"
            )
        if status == HTTPStatus.NOT_FOUND and path.startswith("blobs/"):
            return Malformed(
                f"{name}: {host} has lost a part of it, {path[6:25]}; push the image again"
            )
        if status == HTTPStatus.NOT_FOUND:
            return NotFound(f"{name}: {host} has no image of that name")
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return Unavailable(f"{name}: {host} was asked too often (429); try again later")
        return from_status(status, f"{name}: {host} answers {status}")

    def _transport(self, origin: str) -> Transport:
        if origin not in self._transports:
            self._transports[origin] = self._connect(origin)
        return self._transports[origin]


def _check_room(image: RemoteImage, layers: Iterable[Blob], layer_cache: LayerCache) -> None:
    # A tenth of the free space stays for others.
    room = shutil.disk_usage(layer_cache.directory).free * 9 // 10
    size = sum(layer.size for layer in layers if not layer_cache.is_listed(layer.digest))
    if size > room:
        raise Full(
            f"{image.reference.name}: its layers have {size} bytes; "
            f"{layer_cache.directory} has room for {room}"
        )


async def _read(answer: StreamedResponse, most: int, subject: str) -> bytes:
    data = bytearray()
    async for chunk in answer.chunks:
        data += chunk
        if len(data) > most:
            raise Malformed(f"{subject[:200]} is larger than a document can be")
    return bytes(data)


def _write(file: BinaryIO, data: bytes) -> None:
    # An unbuffered file may write less than it is given.
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def origin_of(reference: ImageReference, *, is_plain: bool) -> str:
    """The origin of a registry: HTTPS, unless `is_plain` or the registry is on this machine."""
    return f"{'http' if is_plain or reference.is_local else 'https'}://{reference.address}"


def connector(authorities: Path | None) -> Connect:
    """Transports that verify certificates with the file `authorities`, or with the machine's
    authorities.
    """
    return lambda origin: HttpTransport(origin, verify=authorities or True)


def parse_platform(name: str) -> Platform:
    """Parse `linux/ARCHITECTURE[/VARIANT]`. Raises Invalid."""
    parts = name.split("/")
    if not 2 <= len(parts) <= 3 or parts[0] != "linux" or not all(parts):
        raise Invalid(f"--platform {name}: write for example linux/amd64 or linux/arm64/v8")
    return Platform(os="linux", architecture=parts[1], variant=parts[2] if len(parts) > 2 else "")


async def assemble(
    image: RemoteImage,
    config: bytes,
    layer_cache: LayerCache,
    folder: Path,
    *,
    report: Report | None = None,
) -> NormalImage:
    """The image in the normal form below `folder`, from cached layers. Raises Malformed, Full."""
    return await run_steps(
        lambda steps: _assemble(image, config, layer_cache, folder, steps), report
    )


def _assemble(
    image: RemoteImage, config: bytes, layer_cache: LayerCache, folder: Path, steps: ImageSteps
) -> NormalImage:
    members = DirectoryMembers(layer_cache.directory, image.reference.name)
    names = [layer_cache.member(layer.digest) for layer in image.layers]
    diff_ids = read_config(config).rootfs.diff_ids
    layers = read_layers(members, names, diff_ids, folder, steps=steps)
    parts = ImageParts(config=config, layers=layers)
    notes = check_runnable(parts, steps=steps)
    parts = structs.replace(parts, notes=(*parts.notes, *notes))
    return write_archive(parts, folder / "image.tar", steps=steps)
