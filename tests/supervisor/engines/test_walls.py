from __future__ import annotations

import subprocess
from pathlib import Path

from lading.testing.conformance import walls


def test_a_process_outside_of_a_container_has_no_such_walls(tmp_path: Path) -> None:
    said = subprocess.run(
        ["sh", "-c", walls.SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    seen = walls.observed(said.stdout)
    assert seen["namespaces"] == ""
    assert seen["control group"] == "the user's"
    for engine in walls.ENGINES:
        assert seen.keys() == walls.WALLS[engine].keys()
        assert seen != walls.WALLS[engine]
