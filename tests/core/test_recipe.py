"""Recipes and their keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core import recipe
from lading.core.container import State
from lading.core.errors import Invalid
from lading.core.jsonvalue import JsonObject
from lading.testing.records import IMAGE, INPUT, NOW, POLICY, USER, container_uuid, make_recipe, make_request

UUID = "zzzzz-4zz18-aaaaaaaaaaaaaaa"
OUT: JsonObject = {"kind": "tmp", "capacity": 1000}


def resolved(spec: JsonObject, **changes: Any) -> recipe.Recipe:
    made = make_request(mounts={"/out": OUT, "/in": spec}, **changes)
    facts = recipe.Facts(image_pdh=IMAGE, hashes={UUID: INPUT, INPUT: INPUT}, user_uuid=USER)
    return recipe.resolve(made, facts, policy=POLICY)


def test_a_recipe_has_content_addresses_only() -> None:
    found = resolved({"kind": "collection", "uuid": UUID}, container_image="debian:12")
    assert found.container_image == IMAGE
    assert found.mounts["/in"] == {"kind": "collection", "portable_data_hash": INPUT}
    assert found.runtime_constraints["keep_cache_disk"] == 2 << 30
    assert (found.runtime_user_uuid, found.runtime_auth_scopes) == (USER, ["all"])


@given(st.permutations(["kind", "uuid", "portable_data_hash", "writable"]), st.integers(1, 4))
def test_the_key_ignores_key_order_and_spelling(order: list[str], keep: int) -> None:
    whole: JsonObject = {"kind": "collection", "uuid": UUID, "portable_data_hash": INPUT, "writable": False}
    spec = {name: whole[name] for name in order[:keep]}
    spec = {**spec, "kind": "collection"}
    if not spec.keys() & {"uuid", "portable_data_hash"}:
        spec["uuid"] = UUID
    assert recipe.key(resolved(spec)) == recipe.key(resolved({"portable_data_hash": INPUT, "kind": "collection"}))


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=4), st.randoms(use_true_random=False))
def test_the_key_ignores_the_order_of_the_environment(environment: dict[str, str], random: Any) -> None:
    names = list(environment)
    random.shuffle(names)
    shuffled = {name: environment[name] for name in names}
    assert recipe.key(make_recipe(environment=environment)) == recipe.key(make_recipe(environment=shuffled))


DIFFERENT: list[dict[str, Any]] = [
    {"command": ["echo", "other"]},
    {"cwd": "/tmp"},
    {"environment": {"A": "b"}},
    {"mounts": {"/out": OUT, "/x": OUT}},
    {"output_path": "/x"},
    {"output_glob": ["*"]},
    {"runtime_constraints": {"ram": 1, "vcpus": 1, "keep_cache_ram": 0, "keep_cache_disk": 0}},
    {"secret_mounts": {"/s": {"kind": "text", "content": "x"}}},
]
EQUAL: list[dict[str, Any]] = [
    {"priority": 9},
    {"output_name": "x", "output_ttl": 5, "output_properties": {"a": 1}},
    {"scheduling_parameters": {"max_run_time": 9}},
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
    assert (made.state, made.priority, made.created_at, made.reuse_key) == (State.QUEUED, 0, NOW, recipe.key(ours))
    assert recipe.of_container(made) == ours


def test_secrets_do_not_show_in_representations() -> None:
    assert "hush" not in repr(make_recipe(runtime_token="hush", secret_mounts={"/s": {"content": "hush"}}))


def test_a_container_chosen_by_hand_must_satisfy_the_request() -> None:
    ours = make_recipe()
    made = recipe.new_container(ours, uuid=container_uuid(1), now=NOW)
    recipe.check_adoption(ours, made, policy=POLICY)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"cwd": "/tmp", "command": ["x"]}, "command differs"),
        ({"runtime_constraints": {**made.runtime_constraints, "keep_cache_ram": 5}}, "keep_cache_ram differs"),
        ({"state": State.CANCELLED}, "it was cancelled"),
    ]
    for changes, fault in cases:
        other = type(made).from_record({**made.to_record(), **changes})
        with pytest.raises(Invalid, match=f"does not satisfy the request: .*{fault}"):
            recipe.check_adoption(ours, other, policy=POLICY)
