"""The table of what each file with tests of real parts exercises is whole, and is of this tree."""

from __future__ import annotations

import subprocess

from tests.affected.choice import is_known
from tests.affected.subjects import COMPOSING, PAGES, READERS, SUBJECTS
from tests.docs.test_pages import PLACES
from tests.levels import REAL
from tests.rules.sources import PRODUCT, ROOT, modules, refuse
from tests.rules.test_quick_tests import marks_of


def test_each_file_with_tests_of_make_system_has_a_row() -> None:
    chosen = {
        str(path.relative_to(ROOT))
        for path in modules(*(ROOT / one for one in REAL))
        if path.name.startswith("test_")
        and any(
            not found & {"quick", "long"}
            for name, found in marks_of(path).items()
            if name.lower().startswith("test")
        )
    } - {"tests/docs/test_pages.py"}
    refuse(f"{name}: write a row in tests/affected/subjects.py" for name in chosen - {*SUBJECTS})
    refuse(
        f"tests/affected/subjects.py: {name} is no file"
        for name in SUBJECTS
        if not (ROOT / name).exists()
    )


def test_each_subject_is_a_part_of_the_product() -> None:
    subjects = {one for row in (*SUBJECTS.values(), *PAGES.values()) for one in row}
    subjects |= {one.removeprefix("lading.") for one in COMPOSING if one != "lading"}
    refuse(
        f"tests/affected/subjects.py: {one} is no module"
        for one in sorted(subjects)
        if not (path := PRODUCT.joinpath(*one.split("."))).is_dir()
        and not path.with_name(f"{path.name}.py").exists()
    )
    refuse(f"tests/affected/subjects.py: {one} is not played" for one in {*PAGES} - {*PLACES})


def test_each_committed_file_has_a_reader_or_none() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    refuse(
        f"{name}: write in tests/affected/subjects.py who reads it"
        for name in filter(None, listed.stdout.decode().split("\0"))
        if (not name.endswith(".py") or name.startswith("plugins/")) and not is_known(name)
    )
    readers = {one for row in READERS.values() for one in row if one.endswith(".py")}
    refuse(
        f"tests/affected/subjects.py: {one} is no file"
        for one in readers
        if not (ROOT / one).exists()
    )
