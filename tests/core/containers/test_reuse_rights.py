"""Whose containers may stand for a request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import reuse_rights
from lading.core.containers.container import ContainerState
from lading.core.values import EMPTY_OBJECT_DIGEST
from tests.records import USER, make_container, make_recipe, make_request

OTHER = "zzzzz-tpzed-bbbbbbbbbbbbbbb"
RECIPE = make_recipe()
SIZES = RECIPE.runtime_constraints
MOUNTS = RECIPE.mounts
DEPENDENT: list[tuple[dict[str, Any], str]] = [
    ({"runtime_constraints": {**SIZES, "API": True}}, "may call the API as its user"),
    ({"runtime_token": "v2/a/b"}, "acts with a token of its request"),
    ({"runtime_constraints": {**SIZES, "internet": True}}, "reads the internet"),
    ({"mounts": {**MOUNTS, "/keep": {"kind": "keep"}}}, "mounts all that its user can read"),
    ({"secret_mounts_md5": "0" * 32}, "has secret inputs"),
    (
        {"mounts": {**MOUNTS, "/live": {"kind": "live", "root": "r"}}},
        "shows a live place of a machine",
    ),
    ({"published_ports": {"80": {}}}, "can be reached at its ports"),
]


def refusal(container: Any, *, inputs_readable: bool = True, is_admin: bool = False) -> str | None:
    return reuse_rights.refusal(
        RECIPE, container, inputs_readable=inputs_readable, is_admin=is_admin
    )


@pytest.mark.parametrize(("changes", "reason"), DEPENDENT)
def test_what_depends_on_its_user_is_used_by_that_user_only(
    changes: dict[str, Any], reason: str
) -> None:
    mine = make_container(**changes)
    assert reuse_rights.dependence(mine) == reason
    assert refusal(mine) is None
    for state in ContainerState:
        theirs = make_container(**changes, runtime_user_uuid=OTHER, state=state)
        assert refusal(theirs) == (
            f"it {reason}, so that only requests of the user for whom it ran use it"
        )
        is_ended = state in (ContainerState.COMPLETE, ContainerState.CANCELLED)
        assert (refusal(theirs, is_admin=True) is None) is is_ended


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"secret_mounts_md5": EMPTY_OBJECT_DIGEST},
        {"secret_mounts_md5": None},
        {"runtime_constraints": {**SIZES, "API": False, "internet": False}},
    ],
)
def test_other_work_of_others_is_used_if_its_inputs_can_be_read(changes: dict[str, Any]) -> None:
    theirs = make_container(**changes, runtime_user_uuid=OTHER)
    assert reuse_rights.dependence(theirs) == ""
    assert refusal(theirs) is None
    assert refusal(theirs, inputs_readable=False) == (
        "it has inputs that the user of this request cannot read"
    )
    assert refusal(theirs, inputs_readable=False, is_admin=True) is None
    assert refusal(make_container(**changes), inputs_readable=False) is None


@given(ours=st.sets(st.sampled_from("abc")), theirs=st.sets(st.sampled_from("abc")))
def test_a_limited_token_uses_what_was_made_with_its_scopes(
    ours: set[str], theirs: set[str]
) -> None:
    sizes = {**SIZES, "API": True}
    made = make_container(runtime_constraints=sizes, runtime_auth_scopes=sorted(theirs))
    recipe = make_recipe()
    limited = type(recipe)(
        **{
            **{name: getattr(recipe, name) for name in recipe.__struct_fields__},
            "runtime_auth_scopes": sorted(ours),
        }
    )
    found = reuse_rights.refusal(limited, made, inputs_readable=True, is_admin=False)
    assert (found is None) is (theirs <= ours)
    # Without the API the command has no token.
    plain = make_container(runtime_auth_scopes=sorted(theirs))
    assert reuse_rights.refusal(limited, plain, inputs_readable=True, is_admin=False) is None
    everything = make_container(runtime_constraints=sizes, runtime_auth_scopes=["all"])
    assert refusal(everything) is None


def test_the_rule_says_whose_containers_are_used() -> None:
    assert reuse_rights.rule(RECIPE).startswith("A container of another user is used only if")
    personal = make_recipe(runtime_constraints={**SIZES, "API": True})
    assert reuse_rights.rule(personal) == (
        "It may call the API as its user: only a container that ran for the same user is used."
    )


def test_a_container_passes_to_a_user_who_wants_it() -> None:
    made = make_container()
    mine = make_request(1, committed_by_uuid=USER, created_at="3")
    late = make_request(2, committed_by_uuid="late", created_at="2")
    early = make_request(3, committed_by_uuid="early", created_at="1")
    unknown = make_request(4, committed_by_uuid=None, owner_uuid="project")
    assert reuse_rights.heir(made, [early, mine]) is None
    assert reuse_rights.heir(made, [late, early]) == "early"
    assert reuse_rights.heir(made, [unknown]) is None
    assert reuse_rights.heir(made, [late, make_request(6, committed_by_uuid=None)]) is None
    assert reuse_rights.heir(made, []) is None
    with_token = make_request(5, committed_by_uuid="late", runtime_token="v2/a/b")
    assert reuse_rights.heir(made, [late, with_token]) is None
    assert reuse_rights.heir(make_container(published_ports={"80": {}}), [late]) is None


def test_secrets_of_other_users_are_foreign() -> None:
    secret = make_container(secret_mounts_md5="0" * 32, runtime_user_uuid=OTHER)
    assert reuse_rights.has_foreign_secrets(secret, USER)
    assert not reuse_rights.has_foreign_secrets(secret, OTHER)
    assert not reuse_rights.has_foreign_secrets(make_container(runtime_user_uuid=OTHER), USER)


def test_only_the_user_of_both_is_told_that_secrets_differ() -> None:
    one = make_container(secret_mounts_md5="0" * 32)
    other = make_container(secret_mounts_md5="1" * 32)
    without = make_container(secret_mounts_md5=None)
    theirs = make_container(secret_mounts_md5="0" * 32, runtime_user_uuid=OTHER)

    def differ(first: Any, second: Any, user: str = USER) -> bool | None:
        return reuse_rights.secrets_differ(first, second, user_uuid=user)

    assert (differ(one, one), differ(one, other), differ(one, without)) == (False, True, True)
    assert differ(without, make_container(secret_mounts_md5=EMPTY_OBJECT_DIGEST)) is False
    # A guess of the one is not compared with the secret of the other.
    for user in (USER, OTHER, "zzzzz-tpzed-000000000000000"):
        assert differ(one, theirs, user) is None
        assert differ(theirs, one, user) is None
    assert differ(one, other, OTHER) is None
