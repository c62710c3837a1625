from __future__ import annotations

from lading.core.containers.output.plan import OutputPlan, unusable_patterns
from lading.core.remarks import Remarks


def test_an_output_that_is_saved_whole_has_no_warning() -> None:
    assert OutputPlan().warning == OutputPlan().warning_detail == ""


def test_the_warning_counts_omitted_and_renamed_entries() -> None:
    omitted, renamed = Remarks(("/out/a is a link to /b",), 1), Remarks(("/out/c", "/out/d"), 2)
    assert OutputPlan(omitted=omitted).warning == (
        "output: 1 entry not saved, such as: /out/a is a link to /b"
    )
    both = OutputPlan(omitted=omitted, renamed=renamed)
    assert both.warning == (
        "output: 1 entry not saved, 2 entries saved under another name,"
        " such as: /out/a is a link to /b"
    )
    assert both.warning_detail == "/out/a is a link to /b\n/out/c\n/out/d"
    assert OutputPlan(renamed=renamed).warning.endswith("such as: /out/c")


def test_special_entries_are_counted_apart() -> None:
    found = OutputPlan(special=Remarks(("/out/fifo is no file",), 1))
    assert found.warning == (
        "output: 1 fifo, socket or device left out, such as: /out/fifo is no file"
    )
    assert found.warning_detail == "/out/fifo is no file"


def test_patterns_that_can_match_nothing_are_named() -> None:
    found = unusable_patterns(["a", "/out/b", "**", "[a"])
    assert (found.count, [one.split()[2] for one in found.lines()]) == (2, ["/out/b", "[a"])
    assert "2 patterns without effect" in OutputPlan(unusable=found).warning
    assert "/out/b" in OutputPlan(unusable=found).warning_detail
