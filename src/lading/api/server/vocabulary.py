"""The vocabulary of a site, which limits the properties of records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from lading.api.server.features import FeatureKey
from lading.core.errors import Invalid
from lading.core.records import vocabulary
from lading.core.records.vocabulary import Vocabulary

VOCABULARY: Final = FeatureKey("vocabulary", Vocabulary)


def load_vocabulary(path: str) -> Vocabulary:
    """The vocabulary in a JSON file; "" is none. Raises Invalid naming the file and the fault."""
    if not path:
        return Vocabulary()
    try:
        return vocabulary.read(json.loads(Path(path).read_bytes()))
    except (OSError, ValueError, Invalid) as error:
        raise Invalid(f"configuration: API.VocabularyPath: {path}: {error}") from error
