"""Pages of long lists."""

from __future__ import annotations

import pytest

from lading.client.api import ApiClient
from lading.core.errors import LadingError
from lading.web.keyset import SearchPage, has_part, key_of, page_after, search_after
from tests.web.browsing import PageSite


async def test_each_record_is_on_one_page(here: PageSite) -> None:
    made = [(await here.world.collection({}, name=f"c{number}"))["uuid"] for number in range(5)]
    api = ApiClient(here.files.transport, here.world.admin)
    seen: list[str] = []
    after = ""
    while True:
        found = await page_after(
            api, "collections", filters=[], select=("uuid", "created_at"), after=after, most=2
        )
        if not found:
            break
        seen += [one["uuid"] for one in found]
        after = key_of(found[-1])
    # The server has made one more, before.
    assert seen[:5] == made[::-1]
    assert len(seen) == len(set(seen))


def test_signs_of_patterns_are_texts() -> None:
    assert has_part("name", "a_%\\") == ["name", "ilike", "%a\\_\\%\\\\%"]


async def _old_collections(here: PageSite, days: int) -> list[str]:
    """Collections of each of so many days, the newest first."""
    made = []
    for number in range(days):
        made.append((await here.world.collection({}, name=f"old{number}"))["uuid"])
        here.world.clock.advance(86_400)
    return made[::-1]


async def _search(here: PageSite, after: str, patience: float) -> SearchPage:
    return await search_after(
        ApiClient(here.files.transport, here.world.admin),
        "collections",
        filters=[has_part("name", "old")],
        select=("uuid", "created_at"),
        after=after,
        most=50,
        patience=patience,
    )


async def test_a_search_looks_back_as_far_as_there_is_time(here: PageSite) -> None:
    made = await _old_collections(here, 7)
    whole = await _search(here, "", 1000.0)
    assert ([one["uuid"] for one in whole.records], whole.reached) == (made, "")
    seen: list[str] = []
    page = await _search(here, "", 0.0)
    assert page.reached
    for _ in range(10_000):
        seen += [one["uuid"] for one in page.records]
        if len(seen) == len(made):
            break
        page = await _search(here, f"{page.reached}~", 0.0)
    # One span after the other, and each record once.
    assert seen == made


async def test_a_search_goes_on_after_a_row(here: PageSite) -> None:
    made = await _old_collections(here, 3)
    first = (await _search(here, "", 1000.0)).records[0]
    rest = await _search(here, key_of(first), 1000.0)
    assert [one["uuid"] for one in rest.records] == made[1:]


async def test_a_key_that_is_none_is_refused_by_the_api(here: PageSite) -> None:
    with pytest.raises(LadingError):
        await _search(here, "yesterday~x", 0.0)
