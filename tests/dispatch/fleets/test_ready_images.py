from __future__ import annotations

from lading.dispatch.fleets.ready_images import ReadyImages


def test_an_image_is_ready_once_its_command_has_run() -> None:
    images = ReadyImages()
    for uuid, image in (("u", "one"), ("v", "two"), ("w", "one")):
        images.begin(uuid, {"container_image": image})
    assert not images.hashes
    images.has_run("u")
    images.has_run("v")
    assert list(images.hashes) == ["two", "one"]
    images.has_run("w")
    images.has_not_run("w")
    assert list(images.hashes) == ["one", "two"]


def test_an_image_that_takes_a_while_or_has_not_run_is_not_ready() -> None:
    images = ReadyImages()
    for _ in range(2):
        images.begin("u", {"container_image": "one"})
        images.has_run("u")
        images.begin("v", {"container_image": "one"})
        images.has_not_run("v")
        assert not images.hashes


def test_nothing_is_ready_after_a_fault() -> None:
    images = ReadyImages()
    images.begin("u", {"container_image": "one"})
    images.has_run("u")
    images.distrust("v")
    assert not images.hashes


def test_few_images_are_remembered_and_none_without_a_record() -> None:
    images = ReadyImages()
    for number in range(20):
        images.begin("u", {"container_image": f"{number}"})
        images.has_run("u")
    assert images.hashes == tuple(f"{number}" for number in range(19, 3, -1))
    images.begin("u", None)
    images.has_run("u")
    assert len(images.hashes) == 16
