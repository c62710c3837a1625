"""The page on security and the attacks belong together: each module of attacks is a line of its
table.
"""

from __future__ import annotations

import re
from pathlib import Path

from lading.config.site import Config

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()


def test_every_module_of_attacks_proves_a_line() -> None:
    attacks = {path.name for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert set(re.findall(r"`(test_\w+\.py)`", PAGE)) == attacks


def test_every_key_is_one_of_the_configuration() -> None:
    config = Config()
    for section, key in re.findall(r"`(API|Containers)\.(\w+)`", PAGE):
        assert hasattr(getattr(config, section), key), f"{section}.{key}"
