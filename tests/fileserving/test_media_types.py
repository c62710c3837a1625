from __future__ import annotations

import pytest

from lading.fileserving import media_types


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.fastq", "text/plain; charset=utf-8"),
        ("a.json", "application/json; charset=utf-8"),
        ("a.html", "text/html; charset=utf-8"),
        ("a.bam", "application/octet-stream"),
        ("a.vcf.gz", "application/gzip"),
        ("a.txt.bz2", "application/octet-stream"),
        ("a", "application/octet-stream"),
        ("data:text/html,a.png", "image/png"),
        ("a.png?.html", "text/html; charset=utf-8"),
    ],
)
def test_types(name: str, kind: str) -> None:
    assert media_types.media_type_of(name) == kind


@pytest.mark.parametrize(
    "name", ["a.html", "a.svg", "a.xml", "a.xhtml", "a.js", "a.mht", "unknown"]
)
def test_what_could_run_is_in_a_sandbox(name: str) -> None:
    assert media_types.headers_of(name, attachment=False)["Content-Security-Policy"].startswith(
        "sandbox;"
    )


def test_names_that_may_be_anything() -> None:
    assert (
        media_types.disposition("inline", 'a"b\r\n;ü')
        == "inline; filename=\"a_b____\"; filename*=UTF-8''a%22b%0D%0A%3B%C3%BC"
    )
    headers = media_types.headers_of("a.txt", attachment=True)
    assert headers["Content-Disposition"] == 'attachment; filename="a.txt"'
