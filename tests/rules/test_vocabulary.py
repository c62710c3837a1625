"""One thing has one name: `docs/vocabulary.md` lists the terms, and for packages the words that
they do not use instead. `vocabulary.json` has the number of their uses; it may only fall.
"""

from __future__ import annotations

import pytest

from tests.rules.sources import PRODUCT, refuse
from tests.rules.vocabulary import Term, counts, limits, terms


def test_no_package_has_more_second_names_than_before() -> None:
    allowed = limits()
    refuse(
        f"{name}: {count} uses, {allowed.get(name, 0)} are allowed; see docs/vocabulary.md and"
        f" 'python -m tests.rules.vocabulary \"{name.rpartition(' in ')[0]}\"'"
        for name, count in counts().items()
        if count > allowed.get(name, 0)
    )


def test_terms_are_sorted_and_no_term_is_a_second_name() -> None:
    names = [term.name for term in terms()]
    assert names == sorted(names, key=str.lower)
    others = {other for term in terms() for other in term.others}
    refuse(f"{name}: is a term, and a second name" for name in names if name in others)


def test_packages_of_the_page_exist() -> None:
    refuse(
        f"{term.name}: there is no package {package}"
        for term in terms()
        for package in term.packages
        if package != "all" and not (PRODUCT / package).is_dir()
    )


@pytest.mark.parametrize("term", [Term("forkserver", ("warm parent", "zygote"), ())])
def test_the_page_is_read(term: Term) -> None:
    (found,) = [each for each in terms() if each.name == term.name]
    assert found.others == term.others
    assert "supervisor" in found.packages
