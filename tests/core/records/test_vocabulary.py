"""The vocabulary: what is let pass, what is refused and how, and which documents are none."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid, Malformed
from lading.core.records.vocabulary import Vocabulary, read

DOCUMENT = {
    "strict_tags": False,
    "tags": {
        "species": {
            "strict": True,
            "labels": [{"label": "Species"}, {"label": "Kind of animal"}],
            "values": {
                "hs": {"labels": [{"label": "Human"}]},
                "mm": {"labels": [{"label": "Mouse"}]},
            },
        },
        "comment": {"labels": [{"label": "Remark"}]},
        "free": {"strict": False, "values": {"a": {}}},
    },
}


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"species": "hs"},
        {"species": ["hs", "mm"]},
        {"species": []},
        {"species": None},
        {"comment": "anything", "free": "b", "unlisted": {"any": ["thing"]}},
        {"type": {"reserved": 1}, "arv:failed_container_resubmitted": 5},
    ],
)
def test_what_passes(properties: dict[str, object]) -> None:
    read(DOCUMENT).check(properties)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"species": "cat"}, "tag value 'cat' is not valid for key 'species'"),
        ({"species": "HUMAN"}, "'HUMAN' for key 'species' is an alias, must be provided as 'hs'"),
        ({"species": ["hs", 1]}, "must be a string or an array of strings"),
        ({"species": {"a": 1}}, "must be a string or an array of strings"),
        ({"kind of Animal": "hs"}, "is an alias, must be provided as 'species'"),
        ({"Comment": "hs", "Remark": "x"}, "'Remark' is an alias"),
    ],
)
def test_what_is_refused(properties: dict[str, object], words: str) -> None:
    with pytest.raises(Malformed, match=words):
        read(DOCUMENT).check(properties)


def test_strict_tags_let_only_listed_keys_pass() -> None:
    strict = read({**DOCUMENT, "strict_tags": True})
    strict.check({"comment": "x", "type": "x"})
    with pytest.raises(Malformed, match="tag key 'unlisted' is not defined"):
        strict.check({"unlisted": "x"})


def test_without_a_vocabulary_everything_passes() -> None:
    Vocabulary().check({"anything": {"at": "all"}})
    assert Vocabulary().document == {"strict_tags": False, "tags": {}}
    assert read(DOCUMENT).document == DOCUMENT


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "the vocabulary: must be an object"),
        ({"tag": {}}, "unknown key 'tag'"),
        ({"strict_tags": "yes"}, "strict_tags: must be true or false"),
        ({"tags": {"type": {}}}, "tags.type: this key is reserved"),
        ({"tags": {"arv:x": {}}}, "this key is reserved"),
        ({"tags": {"k": {"strict": True}}}, "is strict, but lists no values"),
        ({"tags": {"k": {"labels": "x"}}}, "labels: must be a list"),
        ({"tags": {"k": {"labels": [{}]}}}, "must have a text as its label"),
        (
            {"tags": {"k": {"labels": [{"label": "L"}]}, "l": {}}},
            "label 'L' already stands for 'l'",
        ),
        (
            {"tags": {"a": {"labels": [{"label": "L"}]}, "b": {"labels": [{"label": "l"}]}}},
            "already stands for 'a'",
        ),
        ({"tags": {"k": {"values": {"v": 1}}}}, "tags.k.values.v: must be an object"),
    ],
)
def test_documents_that_are_none(document: object, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read(document)
