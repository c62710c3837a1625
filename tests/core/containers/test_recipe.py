"""Recipes and their keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lading.core.containers import constraint_ranges, constraints, recipe
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.mounting.git_trees import ResolvedGitTree
from lading.core.containers.recipe_resolution import RequestFacts, resolve
from lading.core.errors import Invalid
from lading.core.values import JsonObject
from tests.records import (
    IMAGE,
    INPUT,
    NOW,
    POLICY,
    USER,
    container_uuid,
    make_recipe,
    make_request,
)

UUID = "zzzzz-4zz18-aaaaaaaaaaaaaaa"
OTHER = f"{'e' * 32}+9"
OUT: JsonObject = {"kind": "tmp", "capacity": 1000}


def resolved(spec: JsonObject, **changes: Any) -> recipe.Recipe:
    made = make_request(mounts={"/out": OUT, "/in": spec}, **changes)
    facts = RequestFacts(image_pdh=IMAGE, hashes={UUID: INPUT, INPUT: INPUT}, user_uuid=USER)
    return resolve(made, facts, policy=POLICY)


def test_a_recipe_has_content_addresses_only() -> None:
    found = resolved({"kind": "collection", "uuid": UUID}, container_image="debian:12")
    assert found.container_image == IMAGE
    assert found.mounts["/in"] == {"kind": "collection", "portable_data_hash": INPUT}
    assert found.runtime_constraints["keep_cache_disk"] == 2 << 30
    assert (found.runtime_user_uuid, found.runtime_auth_scopes) == (USER, ["all"])


@given(st.permutations(["kind", "uuid", "portable_data_hash", "writable"]), st.integers(1, 4))
def test_the_key_ignores_key_order_and_spelling(order: list[str], keep: int) -> None:
    whole: JsonObject = {
        "kind": "collection",
        "uuid": UUID,
        "portable_data_hash": INPUT,
        "writable": False,
    }
    spec = {name: whole[name] for name in order[:keep]}
    spec = {**spec, "kind": "collection"}
    if not spec.keys() & {"uuid", "portable_data_hash"}:
        spec["uuid"] = UUID
    assert recipe.key(resolved(spec)) == recipe.key(
        resolved({"portable_data_hash": INPUT, "kind": "collection"})
    )


@given(
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=4),
    st.randoms(use_true_random=False),
)
def test_the_key_ignores_the_order_of_the_environment(
    environment: dict[str, str], random: Any
) -> None:
    names = list(environment)
    random.shuffle(names)
    shuffled = {name: environment[name] for name in names}
    assert recipe.key(make_recipe(environment=environment)) == recipe.key(
        make_recipe(environment=shuffled)
    )


DIFFERENT: list[dict[str, Any]] = [
    {"command": ["echo", "other"]},
    {"cwd": "/tmp"},
    {"environment": {"A": "b"}},
    {"mounts": {"/out": OUT, "/x": OUT}},
    {"output_path": "/x"},
    {"output_glob": ["*"]},
    {"runtime_constraints": {"ram": 1, "vcpus": 1, "keep_cache_ram": 0, "keep_cache_disk": 0}},
    {"secret_mounts": {"/s": {"kind": "text", "content": "x"}}},
    {"scheduling_parameters": {"nodes": 2}},
    {"scheduling_parameters": {"nodes": 2, "launcher": "all"}},
]
EQUAL: list[dict[str, Any]] = [
    {"priority": 9},
    {"output_name": "x", "output_ttl": 5, "output_properties": {"a": 1}},
    {"scheduling_parameters": {"max_run_time": 9}},
    {"scheduling_parameters": {"nodes": 1, "launcher": "all", "rank_failure": "none"}},
    {"runtime_token": "v2/x"},
    {"output_storage_classes": ["gold"]},
]


@pytest.mark.parametrize("changes", DIFFERENT)
def test_what_makes_another_computation(changes: dict[str, Any]) -> None:
    assert recipe.key(make_recipe(**changes)) != recipe.key(make_recipe())


@pytest.mark.parametrize("changes", EQUAL)
def test_what_does_not(changes: dict[str, Any]) -> None:
    assert recipe.key(make_recipe(**changes)) == recipe.key(make_recipe())


def test_a_container_is_made_of_its_recipe() -> None:
    ours = make_recipe()
    made = recipe.new_container(ours, uuid=container_uuid(1), now=NOW)
    assert (made.state, made.priority, made.created_at, made.reuse_key) == (
        ContainerState.QUEUED,
        0,
        NOW,
        recipe.key(ours),
    )
    assert recipe.of_container(made) == ours


def test_secrets_do_not_show_in_representations() -> None:
    assert "hush" not in repr(
        make_recipe(runtime_token="hush", secret_mounts={"/s": {"content": "hush"}})
    )


def test_a_container_chosen_by_hand_must_satisfy_the_request() -> None:
    ours = make_recipe()
    made = recipe.new_container(ours, uuid=container_uuid(1), now=NOW)
    recipe.check_adoption(ours, made, policy=POLICY)
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"cwd": "/tmp", "command": ["x"]},
            r"command\[0\] differs \(\"echo\" is asked for, it has \"x\"\)",
        ),
        (
            {"runtime_constraints": {**made.runtime_constraints, "keep_cache_ram": 5}},
            r"runtime_constraints.keep_cache_ram differs \(.* is asked for, it has 5\)",
        ),
        ({"secret_mounts_md5": "0" * 32}, r"secret_mounts differs \(\"\(secret\)\" is asked for"),
        ({"state": ContainerState.CANCELLED}, "it was cancelled"),
        ({"withdrawn_at": NOW, "withdrawn_reason": "bad"}, "its result was withdrawn: bad"),
        ({"strict_output": True}, "it fails if an entry of its output cannot be saved"),
    ]
    for changes, fault in cases:
        other = type(made).from_record({**made.to_record(), **changes})
        with pytest.raises(Invalid, match=f"does not satisfy the request: .*{fault}"):
            recipe.check_adoption(ours, other, policy=POLICY)


def test_strictness_is_in_no_key() -> None:
    ours = make_recipe()
    strict = structs.replace(ours, strict_output=True)
    assert recipe.key(strict) == recipe.key(ours)
    made = recipe.new_container(strict, uuid=container_uuid(1), now=NOW)
    assert made.strict_output
    assert recipe.of_container(made).strict_output


TREES = tuple(ResolvedGitTree(digit * 40, "tree", digit * 40) for digit in "abc")


def git_recipe(trees: tuple[ResolvedGitTree, ...], **changes: Any) -> recipe.Recipe:
    spec: JsonObject = {"kind": "git_tree", "repository_name": "tools", "revisions": "v1..main"}
    made = make_request(mounts={"/out": OUT, "/src": spec}, **changes)
    facts = RequestFacts(image_pdh=IMAGE, hashes={}, user_uuid=USER, trees={"/src": trees})
    return resolve(made, facts, policy=POLICY)


def made_of(ours: recipe.Recipe, **changes: Any) -> Container:
    made = recipe.new_container(ours, uuid=container_uuid(1), now=NOW)
    return Container.from_record({**made.to_record(), **changes})


def satisfies(made: Container, ours: recipe.Recipe) -> bool:
    try:
        recipe.check_adoption(ours, made, policy=POLICY)
    except Invalid:
        return False
    return True


def test_any_tree_of_a_set_satisfies_and_the_newest_is_taken() -> None:
    ours = git_recipe(TREES)
    assert ours.mounts["/src"] == {"kind": "git_tree", "tree": "a" * 40}
    older = made_of(git_recipe(TREES[2:]))
    assert satisfies(older, ours)
    assert not satisfies(older, git_recipe(TREES[:2]))
    keys = recipe.keys(ours)
    assert keys[0] == recipe.ReuseKey(recipe.broad_key(ours), None)
    assert recipe.ReuseKey(str(older.broad_key), None) in keys
    sized = recipe.keys(structs.replace(ours, match_resources=True))
    assert sized[0] == recipe.ReuseKey(recipe.broad_key(ours), recipe.key(ours))
    assert recipe.ReuseKey(str(older.broad_key), older.reuse_key) in sized


def needs(**changes: Any) -> JsonObject:
    return {"ram": 4, "vcpus": 1, **changes}


SIZES = st.integers(1, 6) | st.tuples(st.integers(1, 6), st.integers(1, 6)).map(
    lambda pair: [*sorted(pair)]
)
NETWORK = st.sampled_from([{}, {"internet": True}, {"internet": False}])


@given(SIZES, SIZES, NETWORK, NETWORK)
def test_every_container_that_satisfies_is_found(
    ours_ram: Any, theirs_ram: Any, one: Any, other: Any
) -> None:
    ours = make_recipe(runtime_constraints=constraints.fill(needs(ram=ours_ram, **one)))
    theirs = made_of(
        make_recipe(runtime_constraints=constraints.fill(needs(ram=theirs_ram, **other))),
        state="Complete",
    )
    low, high = constraint_ranges.range_span(ours_ram)
    network_fits = "internet" not in one or bool(one["internet"]) is bool(other.get("internet"))
    given_ram = theirs.runtime_constraints["ram"]
    assert satisfies(theirs, ours) is (network_fits and low <= given_ram <= high)  # type: ignore[operator]
    if satisfies(theirs, ours):
        suitable = [one for one in recipe.keys(ours) if one.exact in (None, theirs.reuse_key)]
        assert theirs.broad_key in {one.broad for one in suitable}


def test_the_size_of_a_container_that_succeeded_does_not_count() -> None:
    small = made_of(
        make_recipe(runtime_constraints=constraints.fill(needs(vcpus=8))),
        state="Complete",
        exit_code=0,
    )
    ours = make_recipe(runtime_constraints=constraints.fill(needs(ram=1 << 40)))
    assert satisfies(small, ours)
    assert recipe.ReuseKey(str(small.broad_key), None) in recipe.keys(ours)
    assert not satisfies(small, structs.replace(ours, match_resources=True))
    for changes in ({"exit_code": 1}, {"state": "Running"}, {"state": "Queued"}):
        other = Container.from_record({**small.to_record(), "exit_code": None, **changes})
        assert not satisfies(other, ours)
    ranged = make_recipe(runtime_constraints=constraints.fill(needs(vcpus=[1, 4])))
    assert not satisfies(small, ranged)


def shows(path: str, content: JsonObject | None, *, pdh: str = INPUT) -> recipe.Recipe:
    """A recipe that mounts a path of a collection, with what is known of its content."""
    mounted = {"/in": {"kind": "collection", "portable_data_hash": pdh, "path": path}}
    facts = RequestFacts(
        image_pdh=IMAGE,
        hashes={pdh: pdh},
        user_uuid=USER,
        contents={} if content is None else {"/in": content},
    )
    return resolve(make_request(mounts={"/out": OUT, **mounted}), facts, policy=POLICY)


A_FILE: JsonObject = {"content": "f+1"}


def test_the_name_of_an_input_file_outside_the_container_does_not_count() -> None:
    made = made_of(shows("a.fq", A_FILE))
    same = shows("b.fq", A_FILE, pdh=OTHER)
    assert satisfies(made, same)
    assert recipe.keys(same)[0].broad == made.broad_key
    assert not satisfies(made, shows("a.fq", {"content": "e+1"}, pdh=OTHER))
    assert made.mounts["/in"] == {
        "kind": "collection",
        "portable_data_hash": INPUT,
        "path": "a.fq",
    }
    assert recipe.of_container(made).mount_contents == {"/in": A_FILE}


def test_without_known_content_the_same_path_of_the_same_collection_is_equal() -> None:
    """Containers made before contents were stored, and requests whose input could not be read."""
    known, unknown = shows("a.fq", A_FILE), shows("a.fq", None)
    old = made_of(unknown)
    assert old.broad_key in {one.broad for one in recipe.keys(known)}
    assert satisfies(old, known)
    assert satisfies(made_of(known), unknown)
    assert not satisfies(old, shows("b.fq", A_FILE))


def test_a_directory_is_compared_with_whole_collections() -> None:
    inner = shows("sub", {"portable_data_hash": OTHER})
    whole = make_request(
        mounts={"/out": OUT, "/in": {"kind": "collection", "portable_data_hash": OTHER}}
    )
    facts = RequestFacts(image_pdh=IMAGE, hashes={OTHER: OTHER}, user_uuid=USER)
    assert satisfies(made_of(resolve(whole, facts, policy=POLICY)), inner)


def test_a_container_that_waits_narrows_to_what_suits_all() -> None:
    first = make_recipe(runtime_constraints=constraints.fill(needs(ram=[2, 6])))
    made = made_of(first)
    assert (made.runtime_constraints["ram"], made.constraint_ranges) == (2, {"ram": [2, 6]})
    second = make_recipe(runtime_constraints=constraints.fill(needs(ram=[4, 9])))
    assert satisfies(made, second)
    stored = recipe.joined(second, made)
    assert stored["constraint_ranges"] == {"ram": [4, 6]}
    narrowed = Container.from_record({**made.to_record(), **stored})
    assert narrowed.reuse_key == recipe.key(recipe.of_container(narrowed))
    assert not satisfies(narrowed, make_recipe(runtime_constraints=constraints.fill(needs(ram=3))))
    assert recipe.joined(second, made_of(second, state="Running")) == {}
    again = made_of(
        recipe.of_container(
            Container.from_record({**made.to_record(), "runtime_constraints": needs(ram=6)})
        )
    )
    assert again.runtime_constraints["ram"] == 2


def test_text_that_is_no_unicode_has_a_key_too() -> None:
    """JSON can spell half a character; equal values have equal keys all the same."""
    half, other = (make_recipe(command=["echo", text]) for text in ("\ud800", "\ud801"))
    assert recipe.key(half) == recipe.key(make_recipe(command=["echo", "\ud800"]))
    assert len({recipe.key(half), recipe.key(other), recipe.broad_key(half)}) == 3
