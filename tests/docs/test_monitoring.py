"""Alerts and dashboards of deploy/monitoring: each name exists, promtool accepts all."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from lading.api.metrics import METRICS, ServerMetrics
from lading.api.server.wait_statuses import STATUSES
from lading.blobs.metrics import BlockMetrics
from lading.dispatch.fleets.cloud.metrics import CloudCounters
from lading.dispatch.metrics import DispatchMetrics
from lading.process.metrics import text_of
from lading.testing.asgi import AsgiTransport
from lading.testing.world import world
from lading.wiring.http_metrics import HttpMetrics
from tests.reality import need_program

pytestmark = pytest.mark.quick

HERE = Path(__file__).parents[2] / "deploy" / "monitoring"
ALERTS = HERE / "alerts.yml"
DASHBOARDS = sorted(HERE.glob("dashboard*.json"))
# Words of the query language that look like names of metrics.
_NAME = re.compile(r"\b(?:lading|arvados_dispatchcloud|process)_\w+")


def _server() -> CollectorRegistry:
    metrics = ServerMetrics()
    HttpMetrics(metrics.registry)
    BlockMetrics(metrics.registry)
    return metrics.registry


def _names() -> set[str]:
    """The names of all series, of those without a value too."""
    found = set[str]()
    families = [
        *_server().collect(),
        *DispatchMetrics().registry.collect(),
        *CloudCounters().registry.collect(),
    ]
    for family in families:
        suffixes = {
            "counter": ("_total",),
            "histogram": ("_bucket", "_sum", "_count"),
            "summary": ("", "_sum", "_count"),
        }.get(family.type, ("",))
        found |= {f"{family.name}{suffix}" for suffix in suffixes}
    return found


def _alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _queries(path: Path) -> Iterator[str]:
    for panel in json.loads(path.read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m")


def _promtool(*arguments: str, text: bytes = b"") -> None:
    need_program("promtool")
    done = subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, check=False, cwd=HERE
    )
    said = (done.stdout + done.stderr).decode()
    # Remarks of the linter are no failure of the program.
    assert (done.returncode, [line for line in said.splitlines() if "lading_" in line]) == (
        0,
        [],
    ), said


def test_every_metric_of_an_alert_exists() -> None:
    assert len(_alerts()) == len({one["alert"] for one in _alerts()}) == 21
    asked = {name for one in _alerts() for name in _NAME.findall(one["expr"])}
    assert asked
    assert asked <= _names()


def test_every_alert_says_what_to_do() -> None:
    for one in _alerts():
        assert one["labels"]["severity"] in ("critical", "warning", "info")
        assert all(one["annotations"][name] for name in ("summary", "description"))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_every_metric_of_a_dashboard_exists(path: Path) -> None:
    asked = {name for query in _queries(path) for name in _NAME.findall(query)}
    assert asked
    assert asked <= _names()


def test_the_names_of_the_page_are_those_of_the_code() -> None:
    page = (HERE.parents[1] / "docs" / "metrics.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)` \| (?:counter|gauge|histogram|summary) ", page, re.M))
    plain = {re.sub(r"_(?:bucket|sum|count)$", "", name) for name in _names()}
    # Of a counter of the cloud's dispatcher the page has the name of Arvados.
    assert listed <= plain
    own = {name for name in plain if name.startswith("lading_")}
    assert own == {name for name in listed if name.startswith("lading_")}


def test_labels_of_queries_are_those_of_the_metrics() -> None:
    queries = [one["expr"] for one in _alerts()]
    queries += [query for path in DASHBOARDS for query in _queries(path)]
    known = {
        # Of every scrape, and of all metrics.
        "job", "instance", "le", "state", "reason", "outcome", "decision", "service", "route",
        "method", "status", "way", "volume", "kind", "action", "result", "category", "operation",
        "error", "quantile",
    }  # fmt: skip
    for query in queries:
        for group in re.findall(r"(?:by|ignoring) \(([^)]*)\)", query):
            assert set(re.split(r",\s*", group)) <= known
        for inner in re.findall(r"\{([^}]*)\}", query):
            assert set(re.findall(r"(\w+)\s*[=!]", inner)) <= known


def test_promtool_accepts_the_alerts() -> None:
    _promtool("check", "rules", ALERTS.name)
    _promtool("check", "config", "--syntax-only", "prometheus.yml")


def test_the_alerts_fire_when_they_should() -> None:
    _promtool("test", "rules", "alerts_test.yml")


def test_promtool_reads_the_queries_of_dashboards(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:number{number}", "expr": query}
        for number, query in enumerate(one for path in DASHBOARDS for one in _queries(path))
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    _promtool("check", "rules", "--lint=none", str(file))


async def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        metrics = it.app.services.features[METRICS]
        app = HttpMetrics(metrics.registry).measured("api", it.app)
        BlockMetrics(metrics.registry)
        await it.run((await it.submit("true"))["container_uuid"])
        answer = await AsgiTransport(app).request("GET", "/status.json", headers={})
        assert answer.status == 200
        services = it.app.services
        await metrics.look(
            services.database, services.clock, services.features[STATUSES], None, listeners=0
        )
    for text in (text_of(metrics.registry), text_of(DispatchMetrics().registry)):
        # Those of the process are the library's, which call a number of bytes virtual memory.
        own = b"".join(
            line + b"\n" for line in text.splitlines() if not re.search(rb"\bprocess_", line)
        )
        assert own.count(b"# TYPE lading_") > 8
        _promtool("check", "metrics", text=own)
