"""The record of a template: versions, limits, and definitions of strangers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lading.core.errors import Invalid, NotFound
from lading.core.templates import document
from lading.core.templates.bindings import BindingKind, ParameterBinding
from lading.core.templates.document import (
    TemplateVersion,
    bind,
    check_template_name,
    find_version,
    is_template,
    parse_template,
    read_versions,
    write_versions,
)

BINDING = ParameterBinding(step=0, kind=BindingKind.COMMAND, index=1)


def version(number: int = 1, **more: Any) -> TemplateVersion:
    request = {"name": "align", "command": ["align", "25"], "container_image": "x"}
    known: dict[str, Any] = {
        "requests": (request,),
        "properties": {"k": {"type": "integer", "default": 25}},
        "bindings": {"k": (BINDING,)},
    }
    return TemplateVersion(number=number, **{**known, **more})


def test_a_template_is_read_as_it_was_written() -> None:
    versions = (
        version(saved_at="t", saved_by="u", origin={"uuid": "x"}, note="first"),
        version(3),
    )
    written = write_versions(versions)
    assert is_template(written)
    assert read_versions(written) == versions
    assert find_version(versions, None) is versions[1]
    assert find_version(versions, 1) is versions[0]
    with pytest.raises(NotFound, match="no version 2; it has 1, 3"):
        find_version(versions, 2)


def test_a_definition_has_no_characters_that_yaml_refuses() -> None:
    odd = "\x7f\x85\ufeff\uffff ü 😀 \n"
    written = write_versions([version(note=odd)])
    assert not {"\x7f", "\x85", "\ufeff", "\uffff"} & set(written)
    assert read_versions(written)[0].note == odd
    with pytest.raises(Invalid, match="UTF-8"):
        write_versions([version(note="\ud800")])


def test_a_definition_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid, match="versions at most"):
        write_versions([version(number) for number in range(1, 102)])
    with pytest.raises(Invalid, match="are possible"):
        write_versions([version(note="x" * document.LARGEST)])
    written = write_versions([version()])
    monkeypatch.setattr(document, "LARGEST", 10)
    with pytest.raises(Invalid, match="more than 10 characters"):
        read_versions(written)


def damaged(**changes: Any) -> str:
    each = {**version().document(), **changes}
    return msgspec.json.encode({"class": "LadingTemplate", "versions": [each]}).decode()


@pytest.mark.parametrize(
    "definition",
    [
        None, "name: x", '{"class":"LadingTemplate",', '{"class":"LadingTemplate","versions":3}',
        '{"class":"LadingTemplate","versions":[]}', '{"class":"LadingTemplate","versions":[3]}',
        '{"class":"LadingTemplate","versions":' + "[" * 200 + "]" * 200 + "}",
        damaged(number="1"), damaged(number=0), damaged(number=True), damaged(requests=[]),
        damaged(requests=[3]), damaged(requests=[{"command": "x"}]),
        damaged(requests=[{"command": [1]}]), damaged(requests=[{"mounts": []}, {"mounts": 3}]),
        damaged(parameters=None), damaged(bindings={"k": [{"step": 4, "at": "command"}]}),
    ],
)  # fmt: skip
def test_a_damaged_definition_is_refused(definition: Any) -> None:
    with pytest.raises(Invalid):
        read_versions(definition)


def test_versions_out_of_their_order_are_refused() -> None:
    written = write_versions([version(2), version(2)])
    with pytest.raises(Invalid, match="numbers of its versions do not rise"):
        read_versions(written)


def test_parts_of_the_wrong_type_count_as_missing() -> None:
    read = read_versions(damaged(bindings=[], origin=3, note=4, saved_by=None))[0]
    assert (read.bindings, read.origin, read.note, read.saved_by) == ({"k": ()}, {}, "", "")
    assert read_versions(damaged(bindings={"k": 3}))[0].bindings == {"k": ()}


def test_values_are_bound_and_the_version_stays() -> None:
    own = version()
    requests, values = bind(own, {"k": 31})
    assert (requests[0]["command"], values) == (["align", "31"], {"k": 31})
    assert bind(own, {})[1] == {"k": 25}
    assert own.requests[0]["command"] == ["align", "25"]
    assert bind(version(bindings={}), {"k": 3})[0] == [dict(own.requests[0])]
    with pytest.raises(Invalid):
        bind(own, {"k": "31"})


def test_a_workflow_and_access_to_the_api_are_seen() -> None:
    plain = version()
    assert (plain.is_workflow, plain.uses_api) == (False, False)
    runner = version(requests=({"scheduling_parameters": {"supervisor": True}},))
    assert runner.is_workflow
    inputs = {"k": (ParameterBinding(step=0, kind=BindingKind.CONTENT, name="/x", key="k"),)}
    assert version(bindings=inputs).is_workflow
    assert version(requests=({"runtime_constraints": {"API": True}},)).uses_api


def test_names_of_templates_and_versions() -> None:
    assert check_template_name(" align ") == "align"
    for wrong in ("", " ", "a@1", "a/b", "a\nb", "x" * 201):
        with pytest.raises(Invalid):
            check_template_name(wrong)
    assert parse_template("align") == ("align", None)
    assert parse_template("align@12") == ("align", 12)
    for wrong in ("@1", "align@", "align@0", "align@x"):
        with pytest.raises(Invalid):
            parse_template(wrong)
