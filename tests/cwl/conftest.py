"""One server for all runs of the cases, with the image of their tools and that of submitted
workflows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cwl.runs import add_image
from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running `lading up`."""
    need_root()
    need_program("node")
    with running_cluster(tmp_path_factory.mktemp("cwl") / "data") as running:
        add_image(running)
        running.lading("image", "runner", timeout=900)
        yield running
