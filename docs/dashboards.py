"""The Grafana dashboards of deploy/monitoring, from one table each: title, unit, queries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Grafana's grid: columns of a page, and the place of one panel.
_COLUMNS, _WIDTH, _HEIGHT = 24, 12, 8


@dataclass(frozen=True)
class Panel:
    """A plot. `queries` are expressions of Prometheus, each with the legend of its lines; `unit` is
    one of Grafana's.
    """

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    about: str = ""


def _quantiles(metric: str, *shares: float) -> tuple[tuple[str, str], ...]:
    return tuple(
        (
            f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket[$__rate_interval])))",
            f"{share:.0%}",
        )
        for share in shares
    )


SITE = (
    Panel(
        "Containers", "short", (("max by (state) (lading_containers)", "{{state}}"),),
        "Those that have not ended. All servers of a database know the same number.",
    ),
    Panel(
        "Why containers wait", "short",
        (("max by (reason) (lading_containers_waiting) > 0", "{{reason}}"),),
        "Reasons of the dispatchers; `lading request why` has the sentence of each.",
    ),
    Panel(
        "Wait until locked", "s", _quantiles("lading_container_wait_seconds", 0.5, 0.9, 0.99),
        "From the creation of a container to its first lock.",
    ),
    Panel(
        "Start after the lock", "s", _quantiles("lading_container_start_seconds", 0.5, 0.9, 0.99),
        "Machine, image and inputs.",
    ),
    Panel(
        "Ends of containers", "short",
        (
            (
                "sum by (outcome) (increase(lading_containers_ended_total[$__rate_interval])) > 0",
                "{{outcome}}",
            ),
        ),
    ),
    Panel(
        "Where results came from", "percentunit",
        (
            (
                "sum by (decision) (increase(lading_reuse_decisions_total[1h])) "
                "/ ignoring(decision) group_left sum(increase(lading_reuse_decisions_total[1h]))",
                "{{decision}}",
            ),
        ),
        "`reused` and `joined` cost nothing.",
    ),
    Panel(
        "Calls", "reqps",
        (
            (
                "sum by (service) (rate(lading_http_responses_total[$__rate_interval]))",
                "{{service}}",
            ),
        ),
    ),
    Panel(
        "Calls with errors", "reqps",
        (
            (
                'sum by (service, status) (rate(lading_http_responses_total{status=~"[45].."}'
                "[$__rate_interval]))",
                "{{service}} {{status}}",
            ),
        ),
    ),
    Panel(
        "Slowest routes, 95 %", "s",
        (
            (
                "topk(8, histogram_quantile(0.95, sum by (le, route, method) "
                '(rate(lading_http_request_seconds_bucket{service="api"}[$__rate_interval]))))',
                "{{method}} {{route}}",
            ),
        ),
    ),
    Panel(
        "Blocks", "Bps",
        (
            (
                "sum by (way) (rate(lading_block_read_bytes_total[$__rate_interval]))",
                "read, {{way}}",
            ),
            ("sum(rate(lading_block_written_bytes_total[$__rate_interval]))", "written"),
        ),
    ),
    Panel(
        "Free space of volumes", "percentunit",
        (
            (
                "min by (volume) (lading_volume_free_bytes / lading_volume_size_bytes)",
                "{{volume}}",
            ),
        ),
    ),
    Panel(
        "Faults of storage", "short",
        (
            ("sum by (volume) (lading_volume_faults) > 0", "{{volume}} faults"),
            ("sum by (volume) (lading_volume_damaged_blocks) > 0", "{{volume}} damaged"),
            ("sum(lading_block_damaged_reads_total)", "reads without a right copy"),
        ),
    ),
    Panel(
        "Webhooks", "short",
        (
            (
                "sum by (outcome) (increase(lading_webhook_deliveries_total[$__rate_interval]))",
                "{{outcome}}",
            ),
            ("max(lading_webhooks_failing)", "failing now"),
            ("max(lading_webhooks_paused)", "paused now"),
        ),
    ),
    Panel(
        "Cost of ended containers", "currencyUSD",
        (("sum(increase(lading_container_cost_dollars_total[1h]))", "an hour"),),
    ),
    Panel(
        "Supervisors", "short",
        (("sum by (state) (lading_dispatcher_supervisors)", "{{state}}"),),
    ),
    Panel(
        "VCPUs of dispatchers", "short",
        (("sum by (instance, kind) (lading_dispatcher_vcpus)", "{{instance}} {{kind}}"),),
    ),
    Panel(
        "Actions of dispatchers that failed", "short",
        (
            (
                "sum by (action) (increase(lading_dispatcher_actions_total"
                '{result="failed"}[$__rate_interval])) > 0',
                "{{action}}",
            ),
        ),
    ),
    Panel(
        "Steps of dispatchers", "s", _quantiles("lading_dispatcher_step_seconds", 0.5, 0.99),
        "A step compares all records with all supervisors, and plans.",
    ),
    Panel(
        "Processor time", "short",
        (
            (
                'rate(process_cpu_seconds_total{job=~"lading.*"}[$__rate_interval])',
                "{{job}} {{instance}}",
            ),
        ),
    ),
    Panel(
        "Memory", "bytes",
        (('process_resident_memory_bytes{job=~"lading.*"}', "{{job}} {{instance}}"),),
    ),
)  # fmt: skip
CLOUD = (
    Panel(
        "VMs by state", "short",
        (("sum by (category) (arvados_dispatchcloud_instances_total)", "{{category}}"),),
    ),
    Panel(
        "Dollars an hour", "currencyUSD",
        (("sum by (category) (arvados_dispatchcloud_instances_price)", "{{category}}"),),
    ),
    Panel(
        "Containers", "short",
        (
            ("arvados_dispatchcloud_containers_running", "running"),
            ("arvados_dispatchcloud_containers_allocated_not_started", "wait for their VM"),
            ("arvados_dispatchcloud_containers_not_allocated_over_quota", "wait for the quota"),
        ),
    ),
    Panel(
        "Longest wait", "s",
        (("arvados_dispatchcloud_containers_longest_wait_time_seconds", "longest"),),
    ),
    Panel(
        "Calls of the cloud", "ops",
        (
            (
                "sum by (operation, error) "
                "(rate(arvados_dispatchcloud_driver_operations[$__rate_interval]))",
                "{{operation}} error={{error}}",
            ),
        ),
    ),
    Panel(
        "Boots", "short",
        (
            (
                "sum by (outcome) (increase(arvados_dispatchcloud_boot_outcomes[1h]))",
                "{{outcome}}",
            ),
        ),
    ),
    Panel(
        "Time until ready", "s",
        (
            (
                "arvados_dispatchcloud_instances_time_to_ready_for_container_seconds",
                "{{quantile}}",
            ),
        ),
    ),
    Panel(
        "Time since the last answer", "s",
        (
            ("arvados_dispatchcloud_probe_age_seconds_max", "max"),
            ("arvados_dispatchcloud_probe_age_seconds_median", "median"),
        ),
    ),
)  # fmt: skip


def _shown(number: int, panel: Panel) -> dict[str, Any]:
    across = _COLUMNS // _WIDTH
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {
            "x": number % across * _WIDTH,
            "y": number // across * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _dashboard(title: str, uid: str, panels: Sequence[Panel]) -> str:
    source = {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Data source",
    }
    page = {
        "title": title,
        "uid": uid,
        "schemaVersion": 39,
        "tags": ["lading"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [source]},
        "panels": [_shown(number, panel) for number, panel in enumerate(panels)],
    }
    return json.dumps(page, indent=1) + "\n"


def site() -> str:
    """The dashboard of servers, block store and dispatchers."""
    return _dashboard("Lading", "lading", SITE)


def cloud() -> str:
    """The dashboard of the dispatcher of cloud VMs."""
    return _dashboard("Lading: cloud dispatcher", "lading-cloud", CLOUD)
