"""Checks of collections and blocks, through the client's own Collection and KeepClient and the real
block store.
"""

from __future__ import annotations

import hashlib
import os

from tests.system.arvados_client.site import Site, client, equal

import arvados  # isort: skip
import arvados.collection  # isort: skip
import arvados.errors  # isort: skip
import arvados.keep  # isort: skip

Collection = arvados.collection.Collection
BIG = 70 << 20
"""More than one block."""


def check_keep_put_and_get(site: Site) -> None:
    keep = arvados.keep.KeepClient(api_client=site.api)
    for data in (b"", b"foo", b"\0" * (1 << 20)):
        locator = keep.put(data)
        equal(locator.partition("+")[0], hashlib.md5(data).hexdigest())
        equal(keep.get(locator), data)
        assert not data or keep.head(locator)


def check_keep_refusals(site: Site) -> None:
    keep = arvados.keep.KeepClient(
        api_client=site.api, num_retries=0, block_cache=arvados.keep.KeepBlockCache()
    )
    signed = keep.put(b"signed for one")
    stranger = arvados.keep.KeepClient(
        api_client=site.user, num_retries=0, block_cache=arvados.keep.KeepBlockCache()
    )
    for ask, locator in ((keep, "acbd18db4cc2f85cedef654fccc4a4d9+3"), (stranger, signed)):
        try:
            ask.get(locator)
        except (arvados.errors.KeepReadError, arvados.errors.NotFoundError):
            continue
        raise AssertionError(f"read {locator}")


def check_keep_copies_and_storage_classes(site: Site) -> None:
    keep = arvados.keep.KeepClient(api_client=site.api, num_retries=0)
    for copies in (1, 2, 3):
        data = os.urandom(1000)
        equal(keep.get(keep.put(data, copies=copies)), data)
    assert keep.put(os.urandom(1000), copies=2, classes=["default"])
    try:
        keep.put(os.urandom(1000), copies=1, classes=["absent"])
    except arvados.errors.KeepWriteError:
        return
    raise AssertionError("a class that nobody serves was confirmed")


def check_keep_whole_blocks(site: Site) -> None:
    data = os.urandom(64 << 20)
    written = arvados.keep.KeepClient(api_client=site.api)
    locator = written.put(data)
    read = arvados.keep.KeepClient(api_client=site.api, block_cache=arvados.keep.KeepBlockCache())
    assert read.get(locator) == data
    assert written.put(data).split("+")[0] == locator.split("+")[0]


def check_keep_with_every_form_of_a_token(site: Site) -> None:
    host, token = os.environ["ARVADOS_API_HOST"], os.environ["ARVADOS_API_TOKEN"]
    bare = client(host, token.split("/")[2])
    locators = {}
    for name, api in (("v2", site.api), ("bare", bare)):
        keep = arvados.keep.KeepClient(
            api_client=api, num_retries=0, block_cache=arvados.keep.KeepBlockCache()
        )
        locators[name] = keep.put(b"one token, two forms")
        equal(keep.get(locators[name]), b"one token, two forms")
    keep = arvados.keep.KeepClient(
        api_client=bare, num_retries=0, block_cache=arvados.keep.KeepBlockCache()
    )
    try:
        keep.get(locators["v2"])
    except arvados.errors.KeepReadError:
        return
    raise AssertionError("a signature is bound to the form of the token")


def check_write_save_and_read(site: Site) -> None:
    made = Collection(api_client=site.api)
    with made.open("dir/one.txt", "w") as file:
        file.write("one\n")
    with made.open("two.bin", "wb") as file:
        file.write(b"\0two")
    made.save_new(name=site.name("files"), properties={"made": "here"})
    for where in (made.manifest_locator(), made.portable_data_hash()):
        again = arvados.collection.CollectionReader(where, api_client=site.api)
        equal(sorted(again), ["dir", "two.bin"])
        with again.open("dir/one.txt", "r") as file:
            equal(file.read(), "one\n")
    record = site.api.collections().get(uuid=made.manifest_locator()).execute()
    equal((record["file_count"], record["file_size_total"]), (2, 8))
    equal(record["properties"], {"made": "here"})


def check_change_copy_and_remove(site: Site) -> None:
    made = Collection(api_client=site.api)
    with made.open("a", "w") as file:
        file.write("first")
    made.save_new(name=site.name("changing"))
    uuid = made.manifest_locator()
    again = Collection(uuid, api_client=site.api)
    with again.open("a", "a") as file:
        file.write(" and second")
    again.mkdirs("empty/dir")
    again.copy("a", "dir/b")
    again.rename("a", "c")
    again.save()
    other = Collection(uuid, api_client=site.api)
    equal(sorted(other), ["c", "dir", "empty"])
    assert other.exists("empty/dir")
    with other.open("dir/b", "r") as file:
        equal(file.read(), "first and second")
    other.remove("dir", recursive=True)
    other.save()
    equal(sorted(Collection(uuid, api_client=site.api)), ["c", "empty"])


def check_two_writers_merge(site: Site) -> None:
    made = Collection(api_client=site.api)
    made.save_new(name=site.name("merged"))
    one, two = (Collection(made.manifest_locator(), api_client=site.api) for _ in range(2))
    for collection, name in ((one, "one"), (two, "two")):
        with collection.open(name, "w") as file:
            file.write(name)
        collection.save(merge=True)
    equal(sorted(Collection(made.manifest_locator(), api_client=site.api)), ["one", "two"])


def check_files_larger_than_a_block(site: Site) -> None:
    piece = os.urandom(1 << 20)
    made = Collection(api_client=site.api)
    with made.open("big", "wb") as file:
        for _ in range(BIG >> 20):
            file.write(piece)
    made.save_new(name=site.name("big"))
    with arvados.collection.CollectionReader(made.manifest_locator(), api_client=site.api).open(
        "big", "rb"
    ) as file:
        file.seek((64 << 20) - 10)
        equal(file.read(20), piece[-10:] + piece[:10])
        equal(file.size(), BIG)


def check_names_with_anything_in_them(site: Site) -> None:
    names = ["with space", "tab\there", "back\\slash", "a:b", "ünï", "new\nline", "-dash", "~tilde"]
    made = Collection(api_client=site.api)
    for name in names:
        with made.open(name, "w") as file:
            file.write(name)
    made.save_new(name=site.name("names"))
    again = arvados.collection.CollectionReader(made.manifest_locator(), api_client=site.api)
    equal(sorted(again), sorted(names))
    for name in names:
        with again.open(name, "r") as file:
            equal(file.read(), name)


def check_missing_collection_and_file(site: Site) -> None:
    try:
        Collection("zzzzz-4zz18-000000000000000", api_client=site.api)
    except arvados.errors.ApiError as error:
        equal(error.resp.status, 404)
    else:
        raise AssertionError("opened")
    made = Collection(api_client=site.api)
    made.save_new(name=site.name("empty"))
    try:
        Collection(made.manifest_locator(), api_client=site.api).open("nothing", "r")
    except FileNotFoundError:
        return
    raise AssertionError("opened")


def check_copy_of_a_signed_manifest(site: Site) -> None:
    made = Collection(api_client=site.user)
    with made.open("mine", "w") as file:
        file.write("of a user without rights")
    made.save_new(name=site.name("of a user"))
    found = site.user.collections().list(
        filters=[["portable_data_hash", "=", made.portable_data_hash()]],
        order="created_at desc", limit=1, select=["uuid", "manifest_text", "portable_data_hash"],
    ).execute()["items"][0]  # fmt: skip
    assert "+A" in found["manifest_text"]
    body = {
        "manifest_text": found["manifest_text"],
        "portable_data_hash": found["portable_data_hash"],
    }
    copy = (
        site.user.collections().create(body={"collection": body}, ensure_unique_name=True).execute()
    )
    equal(copy["portable_data_hash"], made.portable_data_hash())


def check_trash_times(site: Site) -> None:
    made = Collection(api_client=site.api)
    made.save_new(name=site.name("short-lived"), trash_at=None)
    uuid = made.manifest_locator()
    record = (
        site.api.collections()
        .update(uuid=uuid, body={"trash_at": "2050-01-01T00:00:00Z"})
        .execute()
    )
    equal(record["trash_at"], "2050-01-01T00:00:00.000000000Z")
    assert record["delete_at"] > record["trash_at"]
    equal(Collection(uuid, api_client=site.api).get_trash_at().year, 2050)
    equal(
        site.api.collections().update(uuid=uuid, body={"trash_at": None}).execute()["delete_at"],
        None,
    )
