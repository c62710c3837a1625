from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import Unauthenticated
from lading.fileserving.services import make_file_services
from tests.webdav.site import Site


async def test_the_anonymous_token_stands_for_none(here: Site, tmp_path: Path) -> None:
    files = make_file_services(
        here.transport, cache=tmp_path / "blocks", cache_bytes=1, anonymous="anybody"
    )
    assert files.collections.token("") == "anybody"
    files = make_file_services(here.transport, cache=tmp_path / "blocks", cache_bytes=1)
    with pytest.raises(Unauthenticated):
        files.collections.token("")
