"""Data for monitors: nobody else reads it, and no stranger makes it grow or forges it."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Iterator, Mapping

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, free_address, running_cluster

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def monitors() -> str:
    """The address at which the dispatcher answers monitors."""
    return free_address()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, monitors: str) -> Iterator[Cluster]:
    need_root()
    need_program("crun")
    config = (
        "SystemLogs: {Format: json, LogRequests: all}\n"
        f"Containers: {{MetricsAddress: '{monitors}'}}\n"
    )
    with running_cluster(tmp_path_factory.mktemp("monitored"), config) as made:
        yield made


def _ask(
    cluster: Cluster, path: str, headers: Mapping[str, str], *, method: str = "GET", at: str = ""
) -> tuple[int, str]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = (
        http.client.HTTPConnection(at, timeout=30)
        if at
        else http.client.HTTPSConnection(cluster.address, timeout=30, context=context)
    )
    try:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def _management(cluster: Cluster) -> str:
    return str(json.loads((cluster.data / "secrets.json").read_text())["management_token"])


@pytest.mark.attack("reads the metrics without a token, or with that of an admin")
def test_metrics_are_for_monitors_alone(cluster: Cluster, monitors: str) -> None:
    admin = {"Authorization": f"Bearer {cluster.environment['ARVADOS_API_TOKEN']}"}
    for at in ("", monitors):
        for path in ("/metrics", "/_health/ping"):
            assert _ask(cluster, path, {}, at=at)[0] == 401
            assert _ask(cluster, path, admin, at=at)[0] == 403
            known = {"Authorization": f"Bearer {_management(cluster)}"}
            assert _ask(cluster, path, known, at=at)[0] == 200


@pytest.mark.attack("makes the metrics grow with paths, methods and ids of its own")
def test_strangers_make_no_series(cluster: Cluster) -> None:
    known = {"Authorization": f"Bearer {_management(cluster)}"}

    def series() -> set[str]:
        text = _ask(cluster, "/metrics", known)[1]
        return set(re.findall(r"^(lading_\w+\{[^}]*\}) ", text, re.M))

    for number in range(3):
        _ask(cluster, f"/arvados/v1/nothing{number}", {})
        _ask(cluster, f"/arvados/v1/containers/zzzzz-dz642-{number:015}", {})
        _ask(cluster, f"/{number:032x}+4", {})
        _ask(cluster, f"/c=zzzzz-4zz18-{number:015}/x", {})
        _ask(cluster, f"/metrics?x={number}", {})
    before = series()
    for number in range(3, 40):
        sent = {"X-Request-Id": f"req-{number}", "traceparent": f"00-{number:032x}-{1:016x}-01"}
        _ask(cluster, f"/arvados/v1/nothing{number}", sent)
        _ask(cluster, f"/arvados/v1/containers/zzzzz-dz642-{number:015}", sent)
        _ask(cluster, f"/{number:032x}+4", sent)
        _ask(cluster, f"/c=zzzzz-4zz18-{number:015}/x", sent)
        _ask(cluster, f"/metrics?x={number}", sent)
    for method in ("LINK", "SEARCH", "PURGE", "REPORT"):
        _ask(cluster, "/arvados/v1/users", {}, method=method)
    new = series() - before
    # All methods that no part knows are one.
    assert {re.findall(r'method="(\w+)"', one)[0] for one in new} <= {"other"}


@pytest.mark.attack("forges lines of the log, or has a token written there")
def test_each_call_is_one_true_line(cluster: Cluster) -> None:
    log = cluster.data / "log" / "server.log"
    begin = log.stat().st_size
    token = cluster.environment["ARVADOS_API_TOKEN"]
    ids = ['x","message":"forged', "{}", token, "a" * 2000, "req-plain"]
    for one in ids:
        _ask(cluster, f"/arvados/v1/users?api_token={token}", {"X-Request-Id": one})
    with log.open("rb") as file:
        file.seek(begin)
        text = file.read().decode()
    lines = [json.loads(line) for line in text.splitlines()]
    answered = [one for one in lines if one.get("route") == "users.list"]
    assert len(answered) == len(ids)
    assert {one["message"] for one in answered} == {"call answered"}
    assert token.rpartition("/")[2] not in text
