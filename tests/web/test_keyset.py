"""Pages of long lists."""

from __future__ import annotations

from lading.client.api import ApiClient
from lading.web.keyset import has_part, key_of, page_after
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
