"""Words about quotas."""

from __future__ import annotations

from lading.core.policy.descriptions import UseLine, kind_text, use_lines
from lading.core.records.service_records import QUOTAS


def test_lines_of_the_limits_that_are_set() -> None:
    limits = {"containers": 4, "ram": 1 << 30, "money": 50.0, "period": "day", "gpus": 0}
    quota = {**QUOTAS.defaults, "subject_uuid": "zzzzz-tpzed-000000000000000", **limits}
    use = {"containers": 3, "ram": 1 << 29, "money": 75.5, "gpus": 0}
    assert kind_text(quota) == "user"
    assert use_lines(quota, use) == [
        UseLine("containers", "3", "4", 0.75),
        UseLine("RAM", "512.0 MiB", "1.0 GiB", 0.5),
        UseLine("GPUs", "0", "0", 1.0),
        UseLine("money a day", "$75.50", "$50.00", 1.51),
    ]


def test_kinds_of_subjects() -> None:
    group = {"subject_uuid": "zzzzz-j7d0g-000000000000000"}
    assert kind_text(group, "role") == "role"
    assert kind_text(group, "project") == "project"
    assert kind_text(group, "filter") == kind_text(group) == "project or role"
    assert kind_text({"subject_uuid": "zzzzz-xvhdp-000000000000000"}) == "request"


def test_bars() -> None:
    shares = (0.0, 0.01, 0.5, 1.0, 3.0)
    assert [UseLine("", "", "", one).bar.count("█") for one in shares] == [0, 1, 5, 10, 10]
