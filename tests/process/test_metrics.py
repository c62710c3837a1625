"""Metrics of one process: the registry, and who may read it."""

from __future__ import annotations

import pytest

from lading.core.errors import Forbidden, Unauthenticated
from lading.process.metrics import check_management_token, gauge, make_registry, plain, text_of


def test_the_registry_has_the_figures_of_the_process() -> None:
    text = text_of(make_registry()).decode()
    assert "process_cpu_seconds_total " in text
    assert "process_open_fds " in text


def test_a_gauge_has_a_value_for_each_combination_of_labels() -> None:
    family = gauge("lading_x", "X.", [(("a",), 1), (("b",), 2)], ["kind"])
    assert [(one.labels, one.value) for one in family.samples] == [
        ({"kind": "a"}, 1),
        ({"kind": "b"}, 2),
    ]


def test_an_unknown_value_is_left_out() -> None:
    assert plain("lading_x", "X.", None).samples == []
    assert [one.value for one in plain("lading_x", "X.", 0).samples] == [0]


def test_only_the_management_token_is_accepted() -> None:
    check_management_token("secret", "secret")
    with pytest.raises(Unauthenticated, match="management token"):
        check_management_token("", "secret")
    for given, wanted in (("other", "secret"), ("other", "")):
        with pytest.raises(Forbidden, match="not the management token"):
            check_management_token(given, wanted)
