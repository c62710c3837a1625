"""A registry's images, through everything that can be wrong with it and on the way."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from lading.client.images.archive import Platform
from lading.client.images.layer_cache import LayerCache
from lading.client.images.manifests import RemoteImage
from lading.client.images.reference import ImageReference, parse_reference
from lading.client.images.registry import Registry
from lading.client.images.registry_access import Login
from lading.client.retry import Retries, RetryPolicy
from lading.client.transport import HttpTransport
from lading.core.errors import (
    Forbidden,
    Full,
    Invalid,
    LadingError,
    Malformed,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from lading.testing.asgi import serving
from tests.client.images.fake_registry import FakeRegistry, index_of
from tests.client.images.images_on_disk import LAYERS, config_of, digest

_AMD = Platform(os="linux", architecture="amd64")
_LARGE = random.Random(4).randbytes(50_000)


@asynccontextmanager
async def _at(
    fake: FakeRegistry, login: Login | None = None
) -> AsyncGenerator[tuple[Registry, ImageReference]]:
    async with serving(fake) as server:
        origin = f"http://127.0.0.1:{server.port}"
        retries = Retries(policy=RetryPolicy(attempts=3, base=0.001))
        async with Registry(
            origin, connect=HttpTransport, login=login, retries=retries
        ) as registry:
            yield registry, parse_reference(f"127.0.0.1:{server.port}/tools:1")


async def _resolved(fake: FakeRegistry, login: Login | None = None) -> RemoteImage:
    async with _at(fake, login) as (registry, reference):
        return await registry.resolve(reference, platform=_AMD)


async def test_an_image_and_its_layers(tmp_path: Path) -> None:
    fake, layer_cache = FakeRegistry(), LayerCache(tmp_path)
    manifest = fake.push("tools", "1", *LAYERS)
    seen: list[tuple[int, int]] = []
    async with _at(fake) as (registry, reference):
        image = await registry.resolve(reference, platform=_AMD)
        assert await registry.config(image) == config_of(*LAYERS)
        total = sum(map(len, LAYERS))
        assert (
            await registry.fetch(image, layer_cache, progress=lambda *both: seen.append(both))
            == total
        )
        assert await registry.fetch(image, layer_cache) == 0, "what is here is not fetched again"
    assert seen[-1] == (total, total)
    assert image.pinned == reference.pinned(digest(manifest))
    assert all(layer_cache.has(digest(layer)) for layer in LAYERS)


async def test_an_index_by_platform() -> None:
    fake = FakeRegistry()
    manifests = {
        f"linux/{name}": fake.push("tools", name, LAYERS[0], architecture=name)
        for name in ("arm64/v8", "amd64")
    }
    inner = index_of({"unknown/unknown": b"{}", **manifests})
    fake.tag("tools", "inner", inner)
    fake.tag("tools", "1", index_of({"linux": inner}))
    async with _at(fake) as (registry, reference):
        image = await registry.resolve(reference, platform=_AMD)
        assert image.config.digest == digest(config_of(LAYERS[0], architecture="amd64"))
        assert image.digest == digest(fake.manifests["tools/1"])
        other = await registry.resolve(
            reference, platform=Platform(os="linux", architecture="arm64", variant="v8")
        )
        assert other.config.digest == digest(config_of(LAYERS[0], architecture="arm64/v8"))
        with pytest.raises(
            Invalid, match="holds no image for linux/s390x; it has: linux/amd64, linux/arm64/v8"
        ):
            await registry.resolve(reference, platform=Platform(os="linux", architecture="s390x"))
        by_digest = parse_reference(image.pinned)
        assert (await registry.resolve(by_digest, platform=_AMD)).digest == image.digest


async def test_a_layer_that_breaks_off_goes_on(tmp_path: Path) -> None:
    fake, layer_cache = FakeRegistry(breaks=[20_000, 10_000]), LayerCache(tmp_path)
    fake.push("tools", "1", _LARGE)
    seen: list[int] = []
    async with _at(fake) as (registry, reference):
        image = await registry.resolve(reference, platform=_AMD)
        await registry.fetch(image, layer_cache, progress=lambda done, _: seen.append(done))
    ranges = [asked for path, asked in fake.asked if digest(_LARGE) in path]
    assert ranges[0] == ""
    # Each goes on where the one before broke off.
    starts = [int(asked.removeprefix("bytes=").removesuffix("-")) for asked in ranges[1:]]
    assert starts[0] > 0
    assert starts == sorted(set(starts))
    assert (seen == sorted(seen), seen[-1]) == (True, len(_LARGE))
    assert layer_cache.has(digest(_LARGE))


async def test_a_registry_that_cannot_go_on_sends_all_of_it_again(tmp_path: Path) -> None:
    fake, layer_cache = FakeRegistry(ranges=False), LayerCache(tmp_path)
    fake.push("tools", "1", _LARGE)
    with layer_cache.part(digest(_LARGE)) as file:
        file.write(_LARGE[:49_990])
    async with _at(fake) as (registry, reference):
        assert await registry.fetch(
            await registry.resolve(reference, platform=_AMD), layer_cache
        ) == len(_LARGE)
    assert layer_cache.has(digest(_LARGE))


async def test_layers_that_the_disk_cannot_hold_are_not_fetched(tmp_path: Path) -> None:
    fake, layer_cache = FakeRegistry(), LayerCache(tmp_path)
    fake.push("tools", "1", _LARGE)
    free = shutil.disk_usage(tmp_path).free
    async with _at(fake) as (registry, reference):
        image = await registry.resolve(reference, platform=_AMD)
        (layer,) = image.layers
        asked = len(fake.asked)
        # A tenth of the disk stays for others; the size is what the manifest claims.
        with pytest.raises(Full, match="its layers have"):
            await registry.fetch(
                replace(image, layers=(structs.replace(layer, size=free * 19 // 20),)), layer_cache
            )
        assert len(fake.asked) == asked
        with pytest.raises(Unavailable, match="broke off"):
            await registry.fetch(
                replace(image, layers=(structs.replace(layer, size=free // 2),)), layer_cache
            )


async def test_a_part_that_is_too_long_begins_anew(tmp_path: Path) -> None:
    fake, layer_cache = FakeRegistry(), LayerCache(tmp_path)
    fake.push("tools", "1", _LARGE)
    with layer_cache.part(digest(_LARGE)) as file:
        file.write(_LARGE + b"x")
    async with _at(fake) as (registry, reference):
        await registry.fetch(await registry.resolve(reference, platform=_AMD), layer_cache)
    assert layer_cache.has(digest(_LARGE))


async def test_a_registry_that_gives_up(tmp_path: Path) -> None:
    fake = FakeRegistry(breaks=[0] * 9)
    fake.push("tools", "1", _LARGE)
    async with _at(fake) as (registry, reference):
        image = await registry.resolve(reference, platform=_AMD)
        with pytest.raises(Unavailable):
            await registry.fetch(image, LayerCache(tmp_path))


@pytest.mark.parametrize(
    ("sent", "fault"), [(b"x" * 50_000, "what the registry sent is"), (b"x" * 60_000, "has more")]
)
async def test_other_bytes_than_the_digest_are_refused(
    tmp_path: Path, sent: bytes, fault: str
) -> None:
    fake, layer_cache = FakeRegistry(), LayerCache(tmp_path)
    fake.push("tools", "1", _LARGE)
    fake.blobs[digest(_LARGE)] = sent
    async with _at(fake) as (registry, reference):
        image = await registry.resolve(reference, platform=_AMD)
        with pytest.raises(Malformed, match=fault):
            await registry.fetch(image, layer_cache)
        fake.blobs[image.config.digest] = b"{}"
        with pytest.raises(Malformed, match="was asked for, and"):
            await registry.config(image)
        del fake.blobs[image.config.digest]
        with pytest.raises(Malformed, match="has lost a part of it"):
            await registry.config(image)
    assert not layer_cache.has(digest(_LARGE))


async def test_a_basic_login() -> None:
    login = Login("ann", "pw")
    fake = FakeRegistry(login=login.header, challenge='Basic realm="r"')
    fake.push("tools", "1", *LAYERS)
    assert (await _resolved(fake, login)).layers
    with pytest.raises(Unauthenticated, match="a login is needed; log in with 'docker login 127"):
        await _resolved(fake)
    with pytest.raises(Unauthenticated, match="'ann' may not pull it"):
        await _resolved(fake, Login("ann", "wrong"))


async def test_a_token_login() -> None:
    login = Login("ann", "pw")
    fake = FakeRegistry(login="Bearer t0ken", token="t0ken", token_login=login.header)
    fake.push("tools", "1", *LAYERS)
    async with _at(fake, login) as (registry, reference):
        fake.challenge = f'Bearer realm="http://{reference.host}/token",service="s"'
        assert (await registry.resolve(reference, platform=_AMD)).layers
    assert fake.authorizations == ["", login.header, "Bearer t0ken"]
    with pytest.raises(Unauthenticated, match="'ann' may not pull it"):
        async with _at(fake, Login("ann", "wrong")) as (registry, reference):
            fake.challenge = f'Bearer realm="http://{reference.host}/token"'
            await registry.resolve(reference, platform=_AMD)
    fake.challenge = "Negotiate"
    with pytest.raises(Unauthenticated, match="asks for a login by 'negotiate'"):
        await _resolved(fake)


async def test_redirects_are_followed_without_the_login(tmp_path: Path) -> None:
    login = Login("ann", "pw")
    fake = FakeRegistry(login=login.header, challenge="Basic")
    fake.push("tools", "1", _LARGE)
    other = FakeRegistry(blobs=fake.blobs)
    async with serving(other) as elsewhere, _at(fake, login) as (registry, reference):
        fake.elsewhere = f"http://127.0.0.1:{elsewhere.port}"
        await registry.fetch(await registry.resolve(reference, platform=_AMD), LayerCache(tmp_path))
    assert set(other.authorizations) == {""}


async def test_redirects_without_end_and_into_the_clear() -> None:
    fake = FakeRegistry()
    fake.push("tools", "1", _LARGE)
    async with _at(fake) as (registry, reference):
        image = await registry.resolve(reference, platform=_AMD)
        fake.elsewhere = f"http://{reference.host}"
        with pytest.raises(Unavailable, match="without end"):
            await registry.config(image)
        fake.elsewhere = "file:///etc"
        with pytest.raises(Invalid, match="in the clear; refused"):
            await registry.config(image)


@pytest.mark.parametrize(
    ("status", "kind", "fault"),
    [
        (403, Forbidden, "a login is needed"),
        (404, NotFound, "has no image of that name"),
        (429, Unavailable, "was asked too often"),
        (500, Unavailable, "answers 500"),
        (418, LadingError, "answers 418"),
    ],
)
async def test_refusals(status: int, kind: type[LadingError], fault: str) -> None:
    with pytest.raises(kind, match=fault):
        await _resolved(FakeRegistry(status=status))


async def test_a_manifest_that_is_too_large_is_refused() -> None:
    fake = FakeRegistry()
    fake.tag("tools", "1", b"x" * (9 << 20))
    with pytest.raises(Malformed, match="larger than a document"):
        await _resolved(fake)


async def test_indexes_that_are_nested_too_deeply() -> None:
    fake = FakeRegistry()
    index = index_of({})
    for _ in range(5):
        index = index_of({"linux/amd64": index})
        fake.tag("tools", "1", index)
    with pytest.raises(Malformed, match="nested too deeply"):
        await _resolved(fake)


async def test_a_compressed_layer_has_two_digests(tmp_path: Path) -> None:
    fake = FakeRegistry()
    packed = gzip.compress(_LARGE)
    fake.push("tools", "1", _LARGE, stored=(packed,))
    async with _at(fake) as (registry, reference):
        image = await registry.resolve(reference, platform=_AMD)
    assert [layer.digest for layer in image.layers] == [digest(packed)]
