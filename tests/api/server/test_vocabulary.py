"""The file of the vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.api.server.vocabulary import load_vocabulary
from lading.core.errors import Invalid


@pytest.mark.parametrize(
    ("text", "words"), [(None, "No such file"), ("{", "Expecting"), ("[]", "must be an object")]
)
def test_a_vocabulary_that_is_none(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "v.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(Invalid, match=words) as caught:
        load_vocabulary(str(path))
    assert f"API.VocabularyPath: {path}" in caught.value.message


def test_without_a_file_all_properties_are_allowed() -> None:
    load_vocabulary("").check({"anything": "goes"})
