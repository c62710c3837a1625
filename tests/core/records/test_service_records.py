"""The record types of what is outside of the API server."""

from __future__ import annotations

import pytest

from lading.core.records.record_types import RECORDS
from lading.core.records.schema import RecordType
from lading.core.records.service_records import (
    AUTHORIZED_KEYS,
    CREDENTIALS,
    KEEP_SERVICES,
    REPOSITORIES,
    VIRTUAL_MACHINES,
)


@pytest.mark.parametrize(
    "kind",
    [AUTHORIZED_KEYS, CREDENTIALS, KEEP_SERVICES, REPOSITORIES, VIRTUAL_MACHINES],
    ids=lambda kind: kind.plural,
)
def test_each_is_in_the_table(kind: RecordType) -> None:
    assert kind in RECORDS


def test_the_secret_of_a_credential_is_never_shown() -> None:
    secret = CREDENTIALS.by_name["secret"]
    assert secret.hidden
    assert secret.sealed


def test_names_are_taken_once() -> None:
    assert REPOSITORIES.unique == (("name",),)
    assert VIRTUAL_MACHINES.unique == (("hostname",),)
    assert CREDENTIALS.unique == (("owner_uuid", "name"),)


def test_keep_services_come_from_the_configuration() -> None:
    assert not KEEP_SERVICES.stored
    assert all(kind.stored for kind in (AUTHORIZED_KEYS, CREDENTIALS, REPOSITORIES))
