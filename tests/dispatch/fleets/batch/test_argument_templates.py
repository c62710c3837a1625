"""Arguments of a submission."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleets.batch.argument_templates import ArgumentTemplates

UUID = "zzzzz-dz642-000000000000001"


def filled(template: str, container: TrackedContainer, *, level: int | None = 3) -> list[str]:
    templates = ArgumentTemplates(arguments=(template,), extra_ram=MIB)
    templates.check()
    return templates.fill(UUID, container, name="job", level=level)


def test_letters_stand_for_needs() -> None:
    container = TrackedContainer(
        uuid=UUID, need=Resources(2, 250_000_000, 3 * MIB), partitions=("a", "b"), max_run_time=61
    )
    letters = "-x %N,%U,%C,%M,%m,%T,%W,%S,%P,%L,%%"
    assert filled(letters, container) == ["-x", f"job,{UUID},2,240,120,3,2,61,a,b,3,%"]


def test_what_a_container_does_not_have_is_left_out_whole() -> None:
    container = TrackedContainer(uuid=UUID, need=Resources(1, MIB))
    assert [filled(f"-x %{letter}", container, level=None) for letter in "WSPGL"] == [[]] * 5


def test_gpus_have_arguments_of_their_own() -> None:
    templates = ArgumentTemplates(
        arguments=("-c %C%g",), gpu_arguments=("-l gpu=%G",), gpu_resource="ngpus"
    )
    container = TrackedContainer(uuid=UUID, need=Resources(1, MIB, gpus=2))
    assert templates.fill(UUID, container, name="", level=None) == [
        "-c", "1:ngpus=2", "-l", "gpu=2",
    ]  # fmt: skip
    assert filled("-c %C%g", TrackedContainer(uuid=UUID, need=Resources(3))) == ["-c", "3"]


@pytest.mark.parametrize("template", ["-x %X", "50%", "-x 'open"])
def test_a_template_that_cannot_be_filled_is_refused(template: str) -> None:
    with pytest.raises(Invalid, match=r"Batch\.Arguments"):
        ArgumentTemplates(arguments=(template,)).check()


@given(words=st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_words_of_a_container_stay_one_argument(words: list[str]) -> None:
    container = TrackedContainer(uuid=UUID, need=Resources(1, MIB), partitions=tuple(words))
    assert filled("-q %P", container) == ["-q", ",".join(words)]
