"""Evidence about a result, and its withdrawal."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from lading.core.containers import evidence
from lading.core.containers.container import Container
from lading.core.containers.evidence import Evidence, evidence_for, restore, withdraw
from lading.core.errors import Conflict, Forbidden, Invalid
from tests.records import USER, make_container


def _run(number: int, output: str = "a", **changes: object) -> Container:
    settled = {"state": "Complete", "exit_code": 0, "broad_key": "k", "output": output}
    return make_container(number, **(settled | changes))


def test_runs_of_one_recipe_are_evidence() -> None:
    others = [
        _run(1), _run(2), _run(3, "b"), _run(4, exit_code=1), _run(5, broad_key="other"),
        _run(6, state="Cancelled"), _run(7, withdrawn_at="1"),
    ]  # fmt: skip
    found = evidence_for(_run(1), others)
    assert found == Evidence(1, 3)
    assert (found.is_reproduced, found.repeats) == (False, False)
    assert evidence_for(_run(1, broad_key=None), [_run(2, broad_key=None)]) == Evidence()


def test_what_evidence_shows() -> None:
    assert (Evidence().is_reproduced, Evidence().repeats) == (False, True)
    assert (Evidence(2, 2).is_reproduced, Evidence(2, 2).repeats) == (True, True)


def test_withdrawal_and_its_undo() -> None:
    changes = withdraw(_run(1), " bad lot ", user_uuid="u", now="t")
    assert changes == {
        "withdrawn_at": "t", "withdrawn_by_uuid": "u", "withdrawn_reason": "bad lot",
    }  # fmt: skip
    assert restore() == dict.fromkeys(changes)


@pytest.mark.parametrize("reason", [None, "", " ", "x" * 1001, 5, "a\0b"])
def test_a_withdrawal_needs_a_reason(reason: object) -> None:
    with pytest.raises(Invalid, match="(?i)reason"):
        withdraw(_run(1), reason, user_uuid="u", now="t")


def test_only_results_are_withdrawn() -> None:
    with pytest.raises(Conflict, match="is Queued; only the result"):
        withdraw(_run(1, state="Queued"), "r", user_uuid="u", now="t")


OTHER = "zzzzz-tpzed-bbbbbbbbbbbbbbb"


def test_who_withdraws_for_all() -> None:
    made = make_container(state="Complete")

    def check(user: str, *, is_admin: bool = False, manages: bool = False, **more: Any) -> None:
        evidence.check_withdrawal(
            structs.replace(made, **more),
            user_uuid=user,
            is_admin=is_admin,
            manages_first=manages,
        )

    check(USER)
    check(OTHER, manages=True)
    check(OTHER, is_admin=True, withdrawn_at="1", withdrawn_by_uuid=USER)
    check(USER, withdrawn_at="1", withdrawn_by_uuid=USER)
    with pytest.raises(Forbidden, match="with own=true"):
        check(OTHER)
    with pytest.raises(Conflict, match="withdrawn by another user already"):
        check(OTHER, manages=True, withdrawn_at="1", withdrawn_by_uuid=USER)


def test_who_withdrew_restores() -> None:
    valid = make_container(state="Complete")
    withdrawn = structs.replace(valid, withdrawn_at="1", withdrawn_by_uuid=OTHER)
    evidence.check_restoring(valid, user_uuid=USER, is_admin=False)
    evidence.check_restoring(withdrawn, user_uuid=OTHER, is_admin=False)
    evidence.check_restoring(withdrawn, user_uuid=USER, is_admin=True)
    with pytest.raises(Forbidden, match="the user who withdrew it"):
        evidence.check_restoring(withdrawn, user_uuid=USER, is_admin=False)
