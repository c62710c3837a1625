"""The native engine of an ordinary user, with the real kernel: the conformance suite of engines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lading.supervisor.subordinate_ids import find_ids
from lading.testing.conformance.first_process import FirstProcessSuite
from lading.testing.conformance.isolation import IsolatingEngineSuite
from lading.testing.ordinary_user import OrdinaryUser, ordinary_user, user_with_ids
from tests.reality import need_program

pytestmark = pytest.mark.system
_ROOT = Path(__file__).parents[2]
CASES = sorted(
    name
    for name in {*dir(FirstProcessSuite), *dir(IsolatingEngineSuite)}
    if name.startswith("test_")
)


@pytest.fixture(scope="module")
def user() -> Iterator[OrdinaryUser]:
    need_program("crun")
    with ordinary_user() as found:
        yield found


def run_suite(user: OrdinaryUser, kind: str, *arguments: str, file: str = "") -> tuple[int, str]:
    """Run the suite, or the tests of another file, as a user; the exit code and the words of
    pytest.
    """
    place = str(user.temporary)
    command = [sys.executable, "-m", "tests.system.rootless_suite", place, kind, file]
    process = user.start([*command, "--tb=native", *arguments], cwd=_ROOT)
    said, _ = process.communicate()
    return process.returncode, said.decode()


@pytest.fixture(scope="module")
def account() -> Iterator[OrdinaryUser]:
    """A user with subordinate ids."""
    need_program("crun")
    need_program("newuidmap")
    with user_with_ids() as found:
        if os.geteuid() and find_ids(found.number).fault:
            pytest.skip("the caller has no ids in /etc/subuid and /etc/subgid")
        yield found


@pytest.fixture(scope="module")
def results(user: OrdinaryUser) -> Mapping[str, list[str]]:
    """The outcome of each case of the suite, by its name: "" or a message."""
    report = user.temporary / "report.xml"
    _, said = run_suite(user, "overlay", f"--junitxml={report}")
    assert report.exists(), said
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


def test_copies_of_images_where_the_kernel_mounts_no_overlay(user: OrdinaryUser) -> None:
    cases = "image_is_not_changed or upper_layers or other_builders or what_it_is"
    code, said = run_suite(user, "copy", "-k", cases)
    assert code == 0, said
    assert "4 passed" in said


def test_containers_have_the_subordinate_ids_of_the_user(account: OrdinaryUser) -> None:
    code, said = run_suite(account, "ids")
    assert code == 0, said
