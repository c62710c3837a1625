from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from libcloud.common.exceptions import exception_from_message
from libcloud.common.google import GoogleBaseError
from libcloud.common.types import InvalidCredsError, MalformedResponseError
from requests import ConnectTimeout

from lading.core.errors import Invalid, Unavailable
from lading.dispatch.fleets.cloud.drivers.azure import WORDS as AZURE
from lading.dispatch.fleets.cloud.drivers.driver import NoCapacity, QuotaReached, RateLimited
from lading.dispatch.fleets.cloud.drivers.google import WORDS as GOOGLE
from lading.dispatch.fleets.cloud.drivers.libcloud_connection import (
    LibcloudConnection,
    LibcloudResponse,
    Missing,
    Words,
    guarded,
    judge,
    wait_for,
)
from lading.dispatch.fleets.cloud.drivers.openstack import WORDS as OPENSTACK


@pytest.mark.parametrize(
    ("words", "status", "code", "said", "kind"),
    [
        (AZURE, 429, "", "", RateLimited),
        (AZURE, 409, "TooManyRequests", "", RateLimited),
        (AZURE, 409, "OperationNotAllowed",
         "results in exceeding approved Total Regional Cores quota", QuotaReached),
        (AZURE, 409, "SkuNotAvailable",
         "The requested size is currently not available", NoCapacity),
        (AZURE, 0, "AllocationFailed", "We do not have sufficient capacity", NoCapacity),
        (AZURE, 401, "", "AADSTS7000215: Invalid client secret provided.", Invalid),
        (AZURE, 403, "AuthorizationFailed", "does not have authorization", Invalid),
        (AZURE, 404, "ResourceNotFound", "", Missing),
        (AZURE, 500, "InternalServerError", "", Unavailable),
        (GOOGLE, 403, "rateLimitExceeded", "", RateLimited),
        (GOOGLE, 403, "quotaExceeded", "Quota 'CPUS' exceeded.  Limit: 8.0", QuotaReached),
        (GOOGLE, 200, "QUOTA_EXCEEDED", "", QuotaReached),
        (GOOGLE, 200, "ZONE_RESOURCE_POOL_EXHAUSTED", "", NoCapacity),
        (GOOGLE, 401, "authError", "Invalid Credentials", Invalid),
        (OPENSTACK, 403, "", "403 Forbidden Quota exceeded for cores: Requested 1", QuotaReached),
        (OPENSTACK, 0, "500",
         "No valid host was found. There are not enough hosts available.", NoCapacity),
        (OPENSTACK, 503, "", "Service Unavailable", Unavailable),
        (OPENSTACK, 403, "", "Policy doesn't allow it", Invalid),
    ],
)  # fmt: skip
def test_each_refusal_has_its_class(
    words: Words, status: int, code: str, said: str, kind: type[Exception]
) -> None:
    assert type(judge(words, status, code=code, message=said)) is kind


def _raise(error: BaseException) -> Callable[[], LibcloudResponse]:
    def work() -> LibcloudResponse:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (exception_from_message(500, "[Broken] it is"), Unavailable, "Azure: Broken: it is"),
        (InvalidCredsError("no such user"), Invalid, "Azure: 401: no such user; check Containers"),
        (
            GoogleBaseError({"message": "later"}, 403, "rateLimitExceeded"),
            Invalid,
            "Azure: rateLimitExceeded: later",
        ),
        (
            ConnectTimeout("connect timed out"),
            Unavailable,
            "Azure cannot be reached: connect timed out",
        ),
        (ConnectionResetError("reset"), Unavailable, "Azure cannot be reached: reset"),
        (
            MalformedResponseError("no JSON"),
            Unavailable,
            "Azure sent an answer that cannot be understood",
        ),
        (KeyError("access_token"), Invalid, "Azure: KeyError: 'access_token'; check"),
        (QuotaReached("as it is"), QuotaReached, "as it is"),
    ],
)
def test_errors_of_libcloud_and_below_are_ours(
    error: Exception, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind) as raised:
        guarded(AZURE, _raise(error))
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(("told", "pause"), [("17", 17.0), (None, None)])
def test_the_time_to_wait_is_heard(told: str | None, pause: float | None) -> None:
    headers = {} if told is None else {"retry-after": told}
    with pytest.raises(RateLimited) as raised:
        guarded(AZURE, _raise(exception_from_message(429, "slow down", headers)))
    assert raised.value.pause == pause


def test_an_answer_without_content_is_one() -> None:
    assert guarded(AZURE, _raise(exception_from_message(204, ""))) == LibcloudResponse()


class _Connection:
    """What a line needs of libcloud's."""

    connection: Any = None

    def request(self, path: str, **more: Any) -> Any:
        self.asked = (path, more)
        return type("Response", (), {"object": "text", "headers": {}})()


def test_a_text_is_an_empty_document_and_a_line_may_be_closed_unused() -> None:
    connection = _Connection()
    line = LibcloudConnection(AZURE, connection)
    assert line.ask("GET", "/x").document == {}
    assert connection.asked == ("/x", {"params": {}, "data": None, "method": "GET"})
    line.close()


def test_waiting_ends() -> None:
    answers = iter((False, True))
    assert wait_for(lambda: next(answers), longest=5, pause=0)
    assert not wait_for(lambda: False, longest=0, pause=1)
