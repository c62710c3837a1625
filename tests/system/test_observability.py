"""What a running site tells about itself: JSON lines of all its services, metrics of its server and
its dispatcher.
"""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, free_address, running_cluster

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def metrics_address() -> str:
    return free_address()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, metrics_address: str) -> Iterator[Cluster]:
    need_root()
    need_program("crun")
    config = (
        "SystemLogs: {Format: json, LogRequests: all}\n"
        f"Containers: {{MetricsAddress: '{metrics_address}'}}\n"
    )
    with running_cluster(tmp_path_factory.mktemp("observed"), config) as made:
        made.lading("image", "add", "--name", "tools:1", "--from-host", "sh")
        made.lading("run", "--image", "tools:1", "--", "sh", "-c", "echo hello")
        yield made


def _lines(cluster: Cluster, service: str) -> list[dict[str, Any]]:
    text = (cluster.data / "log" / f"{service}.log").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_every_service_logs_json(cluster: Cluster) -> None:
    server, dispatcher = _lines(cluster, "server"), _lines(cluster, "dispatcher")
    started = [one for one in dispatcher if one["message"] == "container started"]
    assert started
    assert all(one["container"] for one in started)
    answered = [one for one in server if one["message"] == "call answered"]
    locks = [one for one in answered if one["route"] == "containers.lock"]
    assert [one["status"] for one in locks] == [200]
    assert all(one["request_id"].startswith("req-") for one in answered)
    for line in (*server, *dispatcher):
        assert {"time", "level", "logger", "message", "pid"} <= line.keys()
        assert cluster.environment["ARVADOS_API_TOKEN"] not in json.dumps(line)


def _scrape(cluster: Cluster, url: str) -> str:
    token = json.loads((cluster.data / "secrets.json").read_text())["management_token"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return str(answer.read().decode())


def test_server_and_dispatcher_count_the_run(cluster: Cluster, metrics_address: str) -> None:
    server = _scrape(cluster, f"https://{cluster.address}/metrics")
    assert '\nlading_containers_ended_total{outcome="success"} 1.0\n' in server
    assert "\nlading_container_start_seconds_count 1.0\n" in server
    assert 'lading_http_responses_total{method="POST",route="containers.lock"' in server
    assert '\nlading_volume_free_bytes{volume="' in server
    assert '\nlading_reuse_decisions_total{decision="new"} 1.0\n' in server
    dispatcher = _scrape(cluster, f"http://{metrics_address}/metrics")
    assert '\nlading_dispatcher_actions_total{action="start",result="done"} 1.0\n' in dispatcher
    assert "\nlading_dispatcher_fleet_known 1.0\n" in dispatcher


def test_the_doctor_goes_the_whole_way(cluster: Cluster) -> None:
    answer = json.loads(cluster.lading("doctor", "--live", "--json").stdout)
    faults = [one for one in answer["checks"] if one["result"] != "ok"]
    assert (answer["ok"], faults) == (True, [])
    assert len(answer["checks"]) == 12
    # The run of the fixture is left; the records of the test are not.
    requests = json.loads(cluster.lading("request", "list", "--json").stdout)
    assert all("doctor" not in json.dumps(one) for one in requests)
