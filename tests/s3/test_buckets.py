from __future__ import annotations

import pytest

from lading.s3.buckets import is_shown
from tests.s3.site import S3Site, code


@pytest.mark.parametrize(
    ("name", "shown"), [("a b", True), ("", False), ("a/b", False), ("..", False)]
)
def test_names_of_directories(name: str, shown: bool) -> None:
    assert is_shown(name) is shown


async def test_names_lead_to_what_the_caller_has(here: S3Site) -> None:
    await here.files.collection({"f": b"x"}, name="data")
    assert (await here.call("GET", "/data/f")).body == b"x"
    other = await here.new_key(await here.files.world.user("other"))
    assert code(await here.call("GET", "/data/f", key=other)) == (404, "NoSuchBucket")
