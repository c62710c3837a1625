"""Queries; what needs a server is tested with the product."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from snakemake_storage_plugin_lading import StorageProvider
from snakemake_storage_plugin_lading.collections import Query


def test_queries() -> None:
    assert Query.parse("lading://reads/a/b.fq") == Query("reads", "a/b.fq")
    assert Query.parse("lading://reads/{sample}.fq").path == "{sample}.fq"
    for text in ("reads/a", "lading://reads", "lading://reads/", "lading://reads/../a"):
        with pytest.raises(Invalid):
            Query.parse(text)


def test_the_provider_says_what_is_wrong() -> None:
    assert StorageProvider.is_valid_query("lading://reads/a")
    refused = StorageProvider.is_valid_query("s3://reads/a")
    assert not refused
    assert "lading://COLLECTION/PATH" in str(refused.reason)
    for one in StorageProvider.example_queries():
        assert StorageProvider.is_valid_query(one.query)
