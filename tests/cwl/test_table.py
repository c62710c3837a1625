"""The table says what `cwltest` is to compare."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cwl.runs import read_results
from tests.cwl.table import HERE, read_cases, write_table

pytestmark = pytest.mark.quick


def test_every_file_of_a_case_is_there() -> None:
    used = {HERE / case[key] for case in read_cases() for key in ("tool", "job") if key in case}
    assert {path for path in used if not path.exists()} == set()
    tools = {
        path.name for path in (HERE / "cases").glob("*.cwl") if not path.name.startswith("tool-")
    }
    assert tools == {Path(case["tool"]).name for case in read_cases()}


def test_a_case_either_fails_or_has_an_output() -> None:
    assert [
        case["id"] for case in read_cases() if case.get("should_fail", False) == ("output" in case)
    ] == []
    assert len({case["id"] for case in read_cases()}) == len(read_cases())


def test_files_become_sizes_and_checksums(tmp_path: Path) -> None:
    write_table(tmp_path / "table.yml", {"stderr-file", "stdout-unnamed", "directory-out"})
    cases = {case["id"]: case for case in yaml.safe_load((tmp_path / "table.yml").read_text())}
    sum_of_fine = "sha1$a9e60c687da7d68a10a5e2d62ff1d01d2fee9f59"
    assert cases["stderr-file"]["output"]["out"] == {
        "class": "File", "basename": "out.txt", "size": 5, "checksum": sum_of_fine,
    }  # fmt: skip
    assert cases["stderr-file"]["doc"].startswith("Standard error into a named file")
    assert "basename" not in cases["stdout-unnamed"]["output"]["out"]
    assert cases["directory-out"]["output"]["folder"]["listing"][0]["basename"] == "deeper"


def test_faults_of_a_run_are_read(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text(
        "<testsuites><testsuite><testcase name='a' file='one'/><testcase name='b' file='two'>"
        "<failure message='m'>expected this</failure><system-err>heard that</system-err></testcase>"
        "<testcase name='c' file='three'><skipped>unsupported</skipped>"
        "</testcase></testsuite></testsuites>"
    )
    assert read_results(tmp_path / "results.xml") == {
        "one": "", "two": "expected this\nheard that", "three": "unsupported\n",
    }  # fmt: skip
