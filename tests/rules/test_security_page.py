"""The page on security and the attacks belong together: each module of attacks is a line of its
table.
"""

from __future__ import annotations

import re
from pathlib import Path

from lading.config.site import Config
from lading.testing.conformance.walls import ENGINES, WALLS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()


def test_every_module_of_attacks_proves_a_line() -> None:
    attacks = {path.name for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert set(re.findall(r"`(test_\w+\.py)`", PAGE)) == attacks


def test_every_key_is_one_of_the_configuration() -> None:
    config = Config()
    for section, key in re.findall(r"`(API|Containers)\.(\w+)`", PAGE):
        assert hasattr(getattr(config, section), key), f"{section}.{key}"


def test_the_table_of_walls_is_that_of_the_conformance_suite() -> None:
    head = f"| wall | {' | '.join(ENGINES)} |\n"
    _, _, table = PAGE.partition(head)
    rows = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()[1:]]
    for number, engine in enumerate(ENGINES, start=1):
        assert {row[0]: row[number] for row in rows} == WALLS[engine]
