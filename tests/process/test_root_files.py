from __future__ import annotations

from pathlib import Path

import pytest

from lading.process import root_files


class TestRoot:
    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("etc/passwd", "root:x"),
            ("/etc/../etc/./passwd", "root:x"),
            ("../../etc/passwd", "root:x"),
            ("absolute", "root:x"),
            ("etc/relative", "root:x"),
            ("up", "root:x"),
            ("etc", ""),
            ("", ""),
            ("none", ""),
            ("circle", ""),
            ("etc/passwd/x", ""),
        ],
    )
    def test_links_are_followed_as_in_a_root_directory(
        self, top: Path, path: str, text: str
    ) -> None:
        (top / "etc").mkdir()
        (top / "etc" / "passwd").write_text("root:x:0")
        (top / "absolute").symlink_to("/etc/passwd")
        (top / "etc" / "relative").symlink_to("passwd")
        (top / "up").symlink_to("../../../etc/passwd")
        (top / "circle").symlink_to("circle")
        assert root_files.read_text_in_root(top, path, 6) == text
