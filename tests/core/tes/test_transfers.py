"""Phases of transfers, validators and checksums of objects."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from lading.core.tes.document import read_task
from lading.core.tes.transfers import (
    EndedTask,
    ObjectFacts,
    TransferPhase,
    WaitingTransfer,
    facts_of,
    first_phase,
    md5_of_etag,
    next_transfers,
    object_key,
    pause,
    phase_of_committed,
    phase_of_ended,
    range_start,
    retry_after,
)

RUN: Any = {"image": "alpine", "command": ["true"]}
MD5, SHA = "0" * 32, "1" * 64
LENGTH = {"content-length": "5"}


def task(**changes: Any) -> Any:
    return read_task({"executors": [RUN], **changes})


def test_phases_of_tasks() -> None:
    stays: Any = [{"path": "/o/a", "url": "keep:"}]
    goes: Any = [{"path": "/o/a", "url": "s3://b/a"}]
    content: Any = [{"path": "/a", "content": "", "url": "http://h/"}]
    fetched: Any = [{"path": "/a", "url": "http://h/"}]
    assert first_phase(task(inputs=content, outputs=stays)) is None
    assert first_phase(task(inputs=fetched)) is TransferPhase.FETCHING
    assert first_phase(task(outputs=goes)) is TransferPhase.RUNNING
    assert phase_of_committed(task(inputs=fetched)) is None


@pytest.mark.parametrize(
    ("ended", "phase"),
    [
        ({"is_deleted": True}, TransferPhase.CANCELLED),
        ({"container_state": "Complete", "output_uuid": "x"}, TransferPhase.DELIVERING),
        ({"container_state": "Complete"}, TransferPhase.DONE),
        ({"container_state": "Cancelled", "output_uuid": "x"}, TransferPhase.DONE),
    ],
)
def test_phases_after_the_end(ended: dict[str, Any], phase: TransferPhase) -> None:
    assert phase_of_ended(EndedTask(request_uuid="r", **ended)) is phase


@pytest.mark.parametrize(
    ("headers", "validator"),
    [
        ({"etag": '"a"', **LENGTH}, '"a"'),
        ({"etag": 'W/"a"', "last-modified": "Mon", **LENGTH}, "Mon 5"),
        ({"last-modified": "Mon"}, ""),
        ({"etag": '""'}, ""),
        ({}, ""),
    ],
)
def test_validators(headers: dict[str, str], validator: str) -> None:
    assert facts_of(headers).validator == validator


def test_sizes() -> None:
    assert facts_of(LENGTH).size == 5
    assert facts_of({"content-range": "bytes 2-4/5", "content-length": "3"}).size == 5
    assert facts_of({"content-range": "bytes 2-4/*"}).size is None
    assert range_start({"content-range": "bytes 2-4/5"}) == 2
    assert range_start({"content-range": "lines 2-4/5"}) is None


def base64(digits: str) -> str:
    return b64encode(bytes.fromhex(digits)).decode()


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"content-md5": base64(MD5)}, {"md5": MD5}),
        ({"content-md5": "???"}, {}),
        ({"digest": f"md5=x, SHA-256={base64(SHA)}"}, {"sha256": SHA}),
        ({"repr-digest": f"sha-256=:{base64(SHA)}:"}, {"sha256": SHA}),
        ({"x-amz-checksum-sha256": base64(SHA)}, {"sha256": SHA}),
        ({"x-amz-checksum-sha256": base64(SHA) + "-2"}, {}),
        ({"etag": f'"{MD5}"'}, {}),
    ],
)
def test_checksums(headers: dict[str, str], found: dict[str, str]) -> None:
    assert dict(facts_of(headers).checksums) == found


def test_tags_of_buckets_are_checksums_of_plain_objects() -> None:
    plain = {"etag": f'"{MD5}"'}
    assert facts_of(plain, is_bucket=True) == ObjectFacts(
        validator=plain["etag"], etag=plain["etag"], checksums=(("md5", MD5),)
    )
    assert facts_of({"etag": f'"{MD5}-2"'}, is_bucket=True).checksums == ()
    assert md5_of_etag({**plain, "x-amz-server-side-encryption": "aws:kms"}) == ""
    customer = {"x-amz-server-side-encryption-customer-algorithm": "AES256"}
    assert md5_of_etag({**plain, **customer}) == ""


def test_keys_differ_by_each_part() -> None:
    keys = {object_key("u", "v"), object_key("u", "w"), object_key("u", "v", namespace="p")}
    assert len(keys) == 3


def test_pauses() -> None:
    assert [pause(one, 0.0, 0.0) for one in (1, 2, 9)] == [0.5, 1.0, 30.0]
    assert pause(1, 0.0, 1.0) == 0.25
    assert pause(1, 9.0, 0.0) == 9.0
    assert pause(1, 9999.0, 0.0) == 120.0
    assert retry_after({"retry-after": "7"}) == 7.0
    assert retry_after({"retry-after": "Mon, 1 Jan"}) == 0.0


def waits(*names: str) -> list[WaitingTransfer]:
    """Transfers in their order; the first letter of each is its user."""
    return [WaitingTransfer(one, one[0]) for one in names]


@pytest.mark.parametrize(
    ("waiting", "active", "most", "begun"),
    [
        ((), {}, 4, []),
        (("a1", "a2", "a3", "a4", "b1"), {}, 4, ["a1", "b1", "a2"]),
        (("a1", "a2", "b1", "c1"), {"a": 2}, 4, ["b1", "c1"]),
        (("a1", "a2", "a3", "a4"), {}, 4, ["a1", "a2"]),
        (("a1", "a2", "a3", "a4"), {}, 6, ["a1", "a2", "a3"]),
        # A user with slow transfers leaves places for others, and so does the second one.
        (("a4",), {"a": 3}, 6, []),
        (("a4", "b1", "b2", "b3"), {"a": 3}, 6, ["b1", "b2"]),
        (("a4", "b3", "c1", "c2"), {"a": 3, "b": 2}, 6, ["c1"]),
        (("a1", "b1"), {"a": 3, "b": 2, "c": 1}, 6, []),
        (("a1", "b1"), {"a": 1, "b": 2}, 5, ["a1"]),
        (("a1", "a2"), {}, 1, ["a1"]),
        (("a1",), {"b": 9}, 4, []),
    ],
)
def test_users_take_turns(
    waiting: tuple[str, ...], active: dict[str, int], most: int, begun: list[str]
) -> None:
    assert next_transfers(waits(*waiting), active, most) == begun


@pytest.mark.parametrize(
    ("facts", "phase"),
    [
        ({"container_state": "Cancelled"}, TransferPhase.DONE),
        ({"container_state": "Cancelled", "keeps": True}, TransferPhase.DELIVERING),
        ({"container_state": "Cancelled", "keeps": True, "is_cancelled": True}, TransferPhase.DONE),
        ({"container_state": "Cancelled", "keeps": True, "output_uuid": ""}, TransferPhase.DONE),
        ({"container_state": "Complete", "is_cancelled": True}, TransferPhase.DELIVERING),
    ],
)
def test_what_is_delivered_after_a_failure(facts: Any, phase: TransferPhase) -> None:
    assert phase_of_ended(EndedTask(**{"request_uuid": "r", "output_uuid": "o", **facts})) is phase
