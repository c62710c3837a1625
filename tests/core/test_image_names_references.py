"""Which image a request means."""

from __future__ import annotations

import pytest
from msgspec import structs

from lading.core import image_names
from lading.core.errors import Invalid
from lading.core.image_names import ImageLink, Term
from tests.records import IMAGE

V2 = ("sha256:" + "a" * 64 + ".tar",)
V1 = ("a" * 64 + ".tar",)


@pytest.mark.parametrize(
    ("text", "pdh", "name"),
    [
        (IMAGE, IMAGE, ""),
        (IMAGE + "+Kxyz", IMAGE, ""),
        ("debian", None, "debian:latest"),
        ("debian:12", None, "debian:12"),
        ("debian:", None, "debian:latest"),
        ("host:5000/debian", None, "host:5000/debian:latest"),
        ("host:5000/debian:12", None, "host:5000/debian:12"),
    ],
)
def test_terms(text: str, pdh: str | None, name: str) -> None:
    assert image_names.parse_reference(text) == Term(text, pdh, name)


def test_a_uuid_names_a_collection() -> None:
    uuid = "zzzzz-4zz18-000000000000001"
    assert image_names.parse_reference(uuid) == Term(uuid, None, "", uuid)


@pytest.mark.parametrize(
    ("text", "is_hash"),
    [
        ("sha256:abcd", True),
        ("a" * 64, True),
        ("sha256:", False),
        ("sha", False),
        ("abc", False),
        ("debian:12", False),
    ],
)
def test_the_start_of_a_hash(text: str, is_hash: bool) -> None:
    assert image_names.parse_reference(text).is_hash is is_hash


def link(
    pdh: str,
    *,
    files: tuple[str, ...] = V2,
    created: str = "1",
    stamp: str | None = None,
    name: str = "x:latest",
    is_own: bool = False,
    owner: str = "",
    is_of_site: bool = False,
    is_shared: bool = True,
) -> ImageLink:
    return ImageLink(
        collection_uuid="",
        pdh=pdh,
        files=files,
        created_at=created,
        image_timestamp=stamp,
        name=name,
        is_own=is_own,
        owner_uuid=owner,
        is_of_site=is_of_site,
        is_shared=is_shared,
    )


def test_the_newest_image_is_chosen() -> None:
    links = [
        link("a", created="9"),
        link("b", stamp="1"),
        link("c", stamp="2"),
        link("d", created="5", stamp="2"),
    ]
    assert image_names.choose_image(image_names.parse_reference("x"), links, formats=["v2"]) == "d"


def test_an_incompatible_image_is_passed_over() -> None:
    links = [link("a", files=V1, stamp="9"), link("b", files=(*V2, "more")), link("c", files=())]
    assert image_names.choose_image(image_names.parse_reference("x"), links, formats=["v1"]) == "a"
    with pytest.raises(Invalid, match="incompatible with 'docker_image_formats'"):
        image_names.choose_image(image_names.parse_reference("x"), links, formats=["v2"])


def test_an_image_that_nobody_added() -> None:
    with pytest.raises(Invalid, match='docker image "x:1" not found'):
        image_names.choose_image(image_names.parse_reference("x:1"), [], formats=["v2"])


HUB = ".".join(("docker", "io"))


@pytest.mark.parametrize(
    ("name", "others"),
    [
        (
            "mytool:1",
            (
                "localhost/mytool:1",
                f"{HUB}/library/mytool:1",
                "library/mytool:1",
                f"{HUB}/mytool:1",
                f"index.{HUB}/library/mytool:1",
            ),
        ),
        ("bio/t:1", ("localhost/bio/t:1", f"{HUB}/bio/t:1", f"index.{HUB}/bio/t:1")),
        ("localhost/mytool:1", ("mytool:1",)),
        (
            f"{HUB}/library/t:1",
            ("t:1", "library/t:1", f"{HUB}/t:1", f"index.{HUB}/library/t:1"),
        ),
        ("host:5000/t:1", ()),
        ("a.example/t:1", ()),
    ],
)
def test_names_of_one_image(name: str, others: tuple[str, ...]) -> None:
    assert image_names.same_names(name) == (name, *others)
    assert image_names.parse_reference(name).names == (name, *others)


@pytest.mark.parametrize("text", ["sha256:ABCD", "abcd"])
def test_hashes_with_and_without_their_kind(text: str) -> None:
    assert image_names.parse_reference(text).hashes == ("sha256:abcd", "abcd")


def test_what_the_caller_named_comes_first() -> None:
    term = image_names.parse_reference("x:1")
    theirs = link("theirs", stamp="9", name="x:1")
    own = link("own", stamp="1", name="localhost/x:1", is_own=True)
    exact = link("exact", stamp="0", name="x:1", is_own=True)
    assert image_names.choose_image(term, [theirs, own], formats=["v2"]) == "own"
    assert image_names.choose_image(term, [theirs, own, exact], formats=["v2"]) == "exact"


def choose(*links: ImageLink) -> str:
    return image_names.choose_image(image_names.parse_reference("bio:1"), links, formats=["v2"])


def test_nobody_takes_over_a_name_of_the_site() -> None:
    first = link("first", created="1", stamp="1", name="bio:1", owner="ada", is_of_site=True)
    newer = link("newer", created="4", stamp="2", name="bio:1", owner="ada", is_of_site=True)
    taken = link("taken", created="0", stamp="9", name="bio:1", owner="bob")
    own = link("own", created="2", name="localhost/bio:1", is_own=True)
    assert choose(taken, first) == "first"
    assert choose(taken, newer, first) == "newer"
    assert choose(taken, structs.replace(newer, name="localhost/bio:1")) == "newer"
    assert choose(taken, newer, own) == "own"


def test_different_images_that_users_share_by_one_name_are_refused() -> None:
    ada = link("ada", created="1", name="bio:1", owner="ada")
    bob = link("bob", created="3", stamp="9", name="bio:1", owner="bob")
    older = link("older", created="2", name="bio:1", owner="bob")
    assert choose(bob, older) == "bob"
    # Both share the same image.
    assert choose(ada, structs.replace(bob, pdh="ada")) == "ada"
    for other in (bob, structs.replace(bob, name="localhost/bio:1")):
        with pytest.raises(Invalid, match="a name that 2 users share for different images"):
            choose(ada, other, older)
    # One that no engine reads is no candidate.
    assert choose(ada, structs.replace(bob, files=())) == "ada"


def test_an_administrator_runs_no_image_by_the_name_of_a_user_who_has_not_shared_it() -> None:
    private = link("bob", created="1", name="bio:1", owner="bob", is_shared=False)
    private = structs.replace(private, collection_uuid="the collection")
    with pytest.raises(Invalid, match="has not shared it; name its collection the collection"):
        choose(private)
    assert choose(private, link("ada", created="2", name="bio:1", owner="ada")) == "ada"
    assert choose(structs.replace(private, is_own=True)) == "bob"
    assert choose(structs.replace(private, is_of_site=True)) == "bob"


@pytest.mark.parametrize(
    ("user", "maker", "stamp", "is_own", "told"),
    [
        ("owner", "maker", "2026", True, "2026"),
        ("maker", "maker", None, True, None),
        ("reader", "maker", 7, False, None),
    ],
)
def test_a_link_as_its_user_sees_it(
    user: str, maker: str, stamp: str | int | None, is_own: bool, told: str | None
) -> None:
    record = {
        "created_at": "1", "name": "x:latest", "owner_uuid": "owner",
        "modified_by_user_uuid": maker, "properties": {"image_timestamp": stamp},
    }  # fmt: skip
    text = f". d41d8cd98f00b204e9800998ecf8427e+0 0:0:{V2[0]}\n"
    collection = {"uuid": "c", "portable_data_hash": IMAGE, "manifest_text": text}
    seen = image_names.image_link(record, collection, user)
    assert (seen.files, seen.is_own, seen.image_timestamp) == (V2, is_own, told)
