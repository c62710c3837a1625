"""What a running site tells about itself: JSON lines of all its services, metrics of its server and
its dispatcher, the trace of a request through server, dispatcher and supervisor.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, free_address, running_cluster
from tests.system.trace_collector import Collector, collecting

pytestmark = pytest.mark.system


MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting(TRACE) as made:
        yield made


@pytest.fixture(scope="module")
def metrics_address() -> str:
    return free_address()


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, metrics_address: str, collector: Collector
) -> Iterator[Cluster]:
    need_root()
    need_program("crun")
    config = (
        "SystemLogs: {Format: json, LogRequests: all}\n"
        f"Containers: {{MetricsAddress: '{metrics_address}'}}\n"
        f"Tracing: {{Endpoint: '{collector.url}', Headers: {{Authorization: hush}}}}\n"
    )
    with running_cluster(tmp_path_factory.mktemp("observed"), config) as made:
        made.lading("image", "add", "--name", "tools:1", "--no-check", "--from-host", "sh")
        made.environment["TRACEPARENT"] = f"00-{TRACE}-b7ad6b7169203331-01"
        made.lading("run", "--image", "tools:1", "--", "sh", "-c", "echo hello")
        del made.environment["TRACEPARENT"]
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


def test_one_trace_goes_through_all_parts(cluster: Cluster, collector: Collector) -> None:
    collector.wait_for(
        {
            ("lading-server", "POST container_requests.create"),
            ("lading-dispatcher", "wait for a dispatcher"),
            ("lading-dispatcher", "lock"),
            ("lading-dispatcher", "start supervisor"),
            ("lading-supervisor", "supervise"),
            ("lading-supervisor", "unpacking its image"),
            ("lading-supervisor", "command"),
            ("lading-supervisor", "save results"),
            # A call of the supervisor.
            ("lading-server", "POST containers.finish"),
        }
    )
    assert collector.authorizations == {"hush"}
    logs = json.dumps([*_lines(cluster, "server"), *_lines(cluster, "dispatcher")])
    assert "hush" not in logs


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


@contextmanager
def prometheus(
    cluster: Cluster, metrics_address: str, root: Path
) -> Iterator[Callable[[str], Any]]:
    """A Prometheus with the shipped jobs and alerts; a function that asks its API."""
    need_program("prometheus")
    jobs = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    secrets = json.loads((cluster.data / "secrets.json").read_text())
    (root / "lading.token").write_text(secrets["management_token"])
    (root / "alerts.yml").write_text((MONITORING / "alerts.yml").read_text())
    jobs["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    targets = {"lading": cluster.address, "lading-dispatcher": metrics_address}
    for job in jobs["scrape_configs"]:
        job["authorization"]["credentials_file"] = str(root / "lading.token")
        if "tls_config" in job:
            job["tls_config"]["ca_file"] = str(cluster.data / "tls.crt")
        wanted = targets.get(job["job_name"])
        job["static_configs"] = [{"targets": [wanted] if wanted else []}]
    (root / "prometheus.yml").write_text(yaml.safe_dump(jobs))
    address = free_address()
    command = [
        "prometheus", f"--config.file={root}/prometheus.yml", f"--storage.tsdb.path={root}/data",
        f"--web.listen-address={address}",
    ]  # fmt: skip
    with (root / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)

    def ask(path: str) -> Any:
        with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=30) as answer:
            return json.loads(answer.read())["data"]

    try:
        yield ask
    finally:
        process.terminate()
        process.wait(30)


def _eventually(look: Callable[[], bool], what: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while True:
        with suppress(OSError):
            if look():
                return
        assert time.monotonic() < until, what()
        time.sleep(0.2)


def test_prometheus_scrapes_evaluates_and_draws(
    cluster: Cluster, metrics_address: str, tmp_path: Path
) -> None:
    with prometheus(cluster, metrics_address, tmp_path) as ask:

        def health() -> list[tuple[str, str]]:
            found = ask("targets?state=active")["activeTargets"]
            return sorted((one["labels"]["job"], one["health"]) for one in found)

        expected = [("lading", "up"), ("lading-dispatcher", "up")]
        _eventually(lambda: health() == expected, health)

        def rules() -> list[Any]:
            return [rule for group in ask("rules")["groups"] for rule in group["rules"]]

        _eventually(lambda: all(one["health"] == "ok" for one in rules()), rules)
        assert len(rules()) == 21
        # A site that is well raises no alarm.
        assert [one["name"] for one in rules() if one["state"] == "firing"] == []

        def unanswered() -> list[str]:
            panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
            return [
                panel["title"]
                for panel in panels
                if not any(_answers(ask, target["expr"]) for target in panel["targets"])
            ]

        # Of what happened before the first scrape there is no rate; faults are not there.
        empty = {
            "Wait until locked", "Start after the lock", "Ends of containers",
            "Where results came from", "Calls with errors", "Actions of dispatchers that failed",
            "Why containers wait",
        }  # fmt: skip
        _eventually(lambda: set(unanswered()) <= empty, unanswered)


def _answers(ask: Callable[[str], Any], expression: str) -> bool:
    query = urllib.parse.quote(expression.replace("$__rate_interval", "1m"))
    return bool(ask(f"query?query={query}")["result"])


def test_the_doctor_goes_the_whole_way(cluster: Cluster) -> None:
    answer = json.loads(cluster.lading("doctor", "--live", "--json").stdout)
    faults = [one for one in answer["checks"] if one["result"] != "ok"]
    assert (answer["ok"], faults) == (True, [])
    assert len(answer["checks"]) == 12
    # The run of the fixture is left; the records of the test are not.
    requests = json.loads(cluster.lading("request", "list", "--json").stdout)
    assert all("doctor" not in json.dumps(one) for one in requests)
