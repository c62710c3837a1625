"""The native engine of an ordinary user, with the real kernel: the conformance suite of engines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lading.testing.conformance.isolation import IsolatingEngineSuite
from lading.testing.ordinary_user import OrdinaryUser, ordinary_user
from tests.reality import need_program

pytestmark = pytest.mark.system
_ROOT = Path(__file__).parents[2]
CASES = sorted(name for name in dir(IsolatingEngineSuite) if name.startswith("test_"))


@pytest.fixture(scope="module")
def user() -> Iterator[OrdinaryUser]:
    need_program("crun")
    with ordinary_user() as found:
        yield found


@pytest.fixture(scope="module")
def results(user: OrdinaryUser) -> Mapping[str, list[str]]:
    """The outcome of each case of the suite, by its name: "" or a message."""
    report = user.temporary / "report.xml"
    command = [sys.executable, "-m", "tests.system.rootless_suite", str(user.temporary)]
    process = user.start([*command, "--tb=native", f"--junitxml={report}"], cwd=_ROOT)
    said, _ = process.communicate()
    assert report.exists(), said.decode()
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = str(case.get("name")).partition("[")[0]
        faults = [one for one in case if one.tag in ("failure", "error", "skipped")]
        texts = [f"{one.tag}: {one.get('message')} {one.text}" for one in faults] or [""]
        found.setdefault(name, []).extend(texts)
    return found


@pytest.mark.parametrize("name", CASES)
def test_native_as_an_ordinary_user(results: Mapping[str, list[str]], name: str) -> None:
    skipped = [text for text in results[name] if text.startswith("skipped: ")]
    assert [text for text in results[name] if text and text not in skipped] == []
    if len(skipped) == len(results[name]):
        pytest.skip(skipped[0])
