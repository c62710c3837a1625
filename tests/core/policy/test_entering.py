"""Who may enter a container: the relations of a caller to it, the switches, the rights of its user
inside, and tokens that open no session.
"""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.containers.container import Container
from lading.core.errors import Forbidden, LadingError
from lading.core.policy import entering
from lading.core.policy.entering import Entrant
from lading.core.records import access
from lading.core.records.access import Principal

UUID = "zzzzz-dz642-000000000000001"
SECRETS = "0123456789abcdef0123456789abcdef"
LIVE = {"/data": {"kind": "live", "root": "/srv", "path": "a"}}
RIGHTS: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"mounts": {"/out": {"kind": "tmp"}}}, ""),
    ({"runtime_constraints": {"API": True}}, "an API token"),
    ({"runtime_token": "v2/a/b"}, "an API token"),
    ({"secret_mounts_md5": SECRETS}, "secrets"),
    ({"mounts": LIVE}, "live directories"),
]
USER, GUEST, ADMIN = Entrant.USER, Entrant.GUEST, Entrant.ADMIN
# Callers, and their statuses by the switches (Admin, User): both, Admin alone, User alone, none.
MATRIX: list[tuple[set[Entrant], tuple[int, int, int, int]]] = [
    ({USER}, (200, 503, 200, 503)), ({GUEST}, (200, 503, 200, 503)),
    ({ADMIN}, (200, 200, 403, 503)), ({USER, ADMIN}, (200, 200, 200, 503)),
    ({GUEST, ADMIN}, (200, 200, 200, 503)), (set(), (403, 503, 403, 503)),
]  # fmt: skip
SWITCHES = ((True, True), (True, False), (False, True), (False, False))


def container(**more: Any) -> Container:
    return Container(**{"uuid": UUID, "runtime_user_uuid": "me", **more})


def caller(**more: Any) -> Principal:
    return Principal(**{"user_uuid": "me", "token_uuid": "t", "token": "v2/t/s", **more})


def status(check: Any, *arguments: Any, **more: Any) -> int:
    try:
        check(*arguments, **more)
    except LadingError as error:
        return error.status
    return 200


@pytest.mark.parametrize(("callers", "expected"), MATRIX)
def test_the_matrix_of_sessions(callers: set[Entrant], expected: tuple[int, int, int, int]) -> None:
    for (admin, user), wanted in zip(SWITCHES, expected, strict=True):
        got = status(entering.check_session, container(), callers, admin=admin, user=user)
        assert got == wanted, (admin, user)


@pytest.mark.parametrize(("more", "text"), RIGHTS)
def test_rights_of_its_user_keep_all_others_out(more: dict[str, Any], text: str) -> None:
    subject = container(**more)
    assert text in entering.user_rights(subject)
    for callers, allowed in (({USER}, True), ({USER, ADMIN}, True), ({GUEST}, not text),
                             ({ADMIN}, not text), ({GUEST, ADMIN}, not text)):  # fmt: skip
        got = status(entering.check_session, subject, callers, admin=True, user=True)
        assert got == (200 if allowed else 403), callers


@pytest.mark.parametrize(
    ("callers", "is_published", "admin", "plain", "with_rights"),
    [
        ({USER}, False, False, 200, 200), ({GUEST}, False, True, 200, 403),
        ({GUEST}, True, False, 200, 200), ({ADMIN}, True, True, 200, 403),
        ({ADMIN}, True, False, 403, 403), (set(), True, True, 403, 403),
    ],
)  # fmt: skip
def test_the_matrix_of_ports(
    callers: set[Entrant], is_published: bool, admin: bool, plain: int, with_rights: int
) -> None:
    for subject, wanted in (
        (container(), plain),
        (container(runtime_constraints={"API": True}), with_rights),
    ):
        got = status(entering.check_port, subject, callers, is_published=is_published, admin=admin)
        assert got == wanted


@pytest.mark.parametrize(
    ("more", "inviters", "expected"),
    [
        ({}, (), {USER}), ({"is_admin": True}, (), {USER, ADMIN}),
        ({"user_uuid": "you"}, (), set()), ({"user_uuid": "you"}, ("other",), set()),
        ({"user_uuid": "you"}, ("me",), {GUEST}),
        ({"user_uuid": "you", "is_admin": True}, ("me", "other"), {GUEST, ADMIN}),
    ],
)  # fmt: skip
def test_the_relations_of_a_caller(
    more: dict[str, Any], inviters: tuple[str, ...], expected: set[Entrant]
) -> None:
    assert entering.entrants(container(), caller(**more), inviters) == expected


def test_a_container_of_nobody_has_no_user_and_no_guests() -> None:
    nobodys = container(runtime_user_uuid=None)
    assert entering.entrants(nobodys, caller(is_admin=True), ("me",)) == {ADMIN}


@pytest.mark.parametrize(
    ("more", "session", "port"),
    [
        ({}, 200, 200), ({"scopes": (f"POST /arvados/v1/connect/{UUID}/ssh",)}, 200, 200),
        ({"container_uuid": "zzzzz-dz642-000000000000002"}, 403, 200),
        ({"supervises": UUID}, 403, 403), ({"token_uuid": "holder"}, 403, 403),
        ({"scopes": access.DISPATCHER_SCOPES}, 403, 403),
        ({"scopes": access.ARVADOS_DISPATCHER_SCOPES}, 403, 403),
        ({"scopes": ("POST /arvados/v1/containers/",)}, 403, 403),
        # The caller of a claim has no token.
        ({"token_uuid": "", "token": ""}, 200, 200),
    ],
)  # fmt: skip
def test_tokens_that_run_containers_are_refused(
    more: dict[str, Any], session: int, port: int
) -> None:
    subject = container(locked_by_uuid="holder")
    assert status(entering.check_token, subject, caller(**more)) == session
    assert status(entering.check_port_token, subject, caller(**more)) == port


def test_the_refusal_says_who_can_help() -> None:
    with pytest.raises(Forbidden, match=r"is not yours.*lading share REQUEST USER --enter"):
        entering.check_session(container(), (), admin=True, user=True)
    with pytest.raises(Forbidden, match="an API token of its user inside"):
        entering.check_session(container(runtime_token="x"), {ADMIN}, admin=True, user=True)
    with pytest.raises(Forbidden, match="for its user alone"):
        entering.check_port(container(runtime_token="x"), {GUEST}, is_published=False, admin=True)
