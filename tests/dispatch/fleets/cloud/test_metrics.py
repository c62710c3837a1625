from __future__ import annotations

from lading.core.scheduling.instance_lifecycle import Behavior, InstancePhase
from lading.dispatch.fleets.cloud.metrics import (
    PREFIX,
    CloudCounters,
    Figures,
    MachineFigures,
    SubnetFigures,
    category,
)

CONTRACT = {
    "driver_operations": ("counter", "operation error"),
    "queue_entries": ("gauge", "state instance_type"),
    "containers_running": ("gauge", ""),
    "containers_allocated_not_started": ("gauge", ""),
    "containers_not_allocated_over_quota": ("gauge", ""),
    "containers_longest_wait_time_seconds": ("gauge", ""),
    "containers_time_from_queue_to_crunch_run_seconds": ("summary", ""),
    "last_503_time": ("gauge", ""),
    "max_concurrent_containers": ("gauge", ""),
    "at_quota": ("gauge", ""),
    "instances_total": ("gauge", "category instance_type"),
    "instances_price": ("gauge", "category"),
    "vcpus_total": ("gauge", "category"),
    "memory_bytes_total": ("gauge", "category"),
    "boot_outcomes": ("counter", "outcome"),
    "instances_disappeared": ("counter", "state"),
    "instances_time_to_ssh_seconds": ("summary", ""),
    "instances_time_to_ready_for_container_seconds": ("summary", ""),
    "instances_time_from_shutdown_request_to_disappearance_seconds": ("summary", ""),
    "instances_run_probe_duration_seconds": ("summary", "outcome"),
    "probe_age_seconds_max": ("gauge", ""),
    "probe_age_seconds_median": ("gauge", ""),
    "ec2_instances": ("gauge", "subnet_id"),
    "ec2_instance_starts": ("counter", "subnet_id success"),
}
"""Kind and labels of each metric, by its name in Arvados (docs/spec/cloud, section Metrics)."""
ONE = MachineFigures(category="inuse", type="small", price=0.5, vcpus=2, ram=1024, age=3.0)


def lines(counts: CloudCounters) -> set[str]:
    return {
        line.removeprefix("arvados_dispatchcloud_") for line in counts.text().decode().splitlines()
    }


def test_counters_are_there_before_anything_happens() -> None:
    found = lines(CloudCounters())
    assert 'driver_operations_total{error="0",operation="Create"} 0.0' in found
    assert 'boot_outcomes_total{outcome="disappeared"} 0.0' in found
    assert 'instances_disappeared_total{state="running"} 0.0' in found


def test_what_happens_is_counted() -> None:
    counts = CloudCounters()
    counts.operation("Create", failed=True)
    counts.boot("success")
    counts.gone(InstancePhase.SHUTDOWN, 4.0)
    counts.reached(20.0)
    counts.ready(30.0)
    counts.started(2.0)
    counts.probed(0.5, failed=True)
    found = lines(counts)
    assert {
        'driver_operations_total{error="1",operation="Create"} 1.0',
        'boot_outcomes_total{outcome="success"} 1.0',
        'instances_disappeared_total{state="shutdown"} 1.0',
        'driver_operations{error="1",operation="Create"} 1.0',
        'boot_outcomes{outcome="success"} 1.0',
        'instances_disappeared{state="shutdown"} 1.0',
        'instances_time_to_ssh_seconds{quantile="0.99"} 20.0',
        'instances_time_to_ready_for_container_seconds{quantile="0.5"} 30.0',
        "instances_time_from_shutdown_request_to_disappearance_seconds_sum 4.0",
        "containers_time_from_queue_to_crunch_run_seconds_count 1.0",
        'instances_run_probe_duration_seconds_count{outcome="fail"} 1.0',
    } <= found


def test_what_is_looked_at_is_in_it() -> None:
    counts = CloudCounters()
    counts.look_at(
        lambda: Figures(
            machines=(ONE, ONE), queue=(("Queued", "small", 7),), running=3, not_started=1,
            over_quota=2, longest_wait=9.0, at_quota=True, most=5, busy_at=1.5e9,
            subnets=(SubnetFigures(id="subnet-a", instances=2, started=3, refused=1),),
        )
    )  # fmt: skip
    assert {
        'instances_total{category="inuse",instance_type="small"} 2.0',
        'instances_price{category="inuse"} 1.0',
        'vcpus_total{category="inuse"} 4.0',
        'memory_bytes_total{category="idle"} 0.0',
        'queue_entries{instance_type="small",state="Queued"} 7.0',
        "containers_running 3.0",
        "containers_allocated_not_started 1.0",
        "containers_not_allocated_over_quota 2.0",
        "containers_longest_wait_time_seconds 9.0",
        "at_quota 1.0",
        "max_concurrent_containers 5.0",
        "last_503_time 1.5e+09",
        'ec2_instances{subnet_id="subnet-a"} 2.0',
        'ec2_instance_starts_total{subnet_id="subnet-a",success="1"} 3.0',
        'ec2_instance_starts_total{subnet_id="subnet-a",success="0"} 1.0',
        "probe_age_seconds_max 3.0",
        "probe_age_seconds_median 3.0",
    } <= lines(counts)


def test_a_machine_has_one_category() -> None:
    assert [
        category(one, Behavior.HOLD) for one in (InstancePhase.RUNNING, InstancePhase.IDLE)
    ] == [
        "inuse",
        "hold",
    ]
    phases = (
        InstancePhase.RUNNING,
        InstancePhase.IDLE,
        InstancePhase.UNKNOWN,
        InstancePhase.CREATING,
        InstancePhase.BOOTING,
        InstancePhase.SHUTDOWN,
    )
    assert [category(one, Behavior.RUN) for one in phases] == [
        "inuse", "idle", "unknown", "booting", "booting", "idle",
    ]  # fmt: skip


def test_every_metric_of_the_contract_is_there_with_its_kind_and_labels() -> None:
    counts = CloudCounters()
    counts.look_at(
        lambda: Figures(
            machines=(ONE,), queue=(("Queued", "small", 7),), subnets=(SubnetFigures(id="s"),)
        )
    )
    for outcome in (True, False):
        counts.probed(1.0, failed=outcome)
    found = {
        family.name.removeprefix(PREFIX): (
            family.type,
            {name for one in family.samples for name in one.labels},
        )
        for family in counts.registry.collect()
        if family.type != "unknown"
    }
    for name in ("driver_operations", "boot_outcomes", "instances_disappeared"):
        assert f"# TYPE {PREFIX}{name} counter" in counts.text().decode().splitlines()
    assert {name: found[name][0] for name in CONTRACT} == {
        name: kind for name, (kind, _) in CONTRACT.items()
    }
    assert {name: found[name][1] - {"quantile"} for name in CONTRACT} == {
        name: set(labels.split()) for name, (_, labels) in CONTRACT.items()
    }
