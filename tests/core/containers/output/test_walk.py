from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers.mounting.mount_plan import Area, Keep
from lading.core.containers.mounting.mount_steps import (
    CollectionPath,
    GitTree,
    HostPath,
    ImagePath,
    KeepTree,
    Source,
)
from lading.core.containers.output.plan import (
    CopyFile,
    CopyFiles,
    DirectoryEntry,
    EmptyFile,
    Entry,
    FileEntry,
    Item,
    LinkEntry,
    OutputPlan,
    Refer,
    SpecialEntry,
    UnreadableEntry,
)
from lading.core.containers.output.walk import MAX_IMAGE_FILE, plan_output
from lading.core.data.globs import compile_globs
from lading.core.data.manifest import MAX_DEPTH, fault_of
from lading.core.errors import ExecutionError, Failure

PDH = "acbd18db4cc2f85cedef654fccc4a4d8+3"
OUT, SRC, IN = (
    Area("/out", Keep.FILES, HostPath("/s/o")),
    Area("/src", Keep.FILES, HostPath("/s/t")),
    Area("/in", Keep.REFERENCE, CollectionPath(PDH, "sub")),
)
SECRET = Area("/key", Keep.NOTHING)
TMP = Area("/tmp", Keep.TEMPORARY)


def walk(
    tree: dict[str, Entry | str],
    *areas: Area,
    globs: tuple[str, ...] = (),
    output: str = "/out",
    sure: bool = False,
    limit: int = 0,
) -> OutputPlan:
    """Plan over a tree of host paths; text is a link. Collections are below `pdh/`, the
    image is below `image/`. `sure`: directories tell files.
    """
    entries = {
        path: LinkEntry(entry) if isinstance(entry, str) else entry for path, entry in tree.items()
    }
    for path in list(entries):
        while path := path.rpartition("/")[0]:
            entries.setdefault(path, DirectoryEntry(()))
    for path in [path for path, entry in entries.items() if isinstance(entry, DirectoryEntry)]:
        below = {
            one[len(path) + 1 :]: entry
            for one, entry in entries.items()
            if one.rpartition("/")[0] == path
        }
        sizes = {
            name: entry.size
            for name, entry in below.items()
            if sure and isinstance(entry, FileEntry)
        }
        entries[path] = DirectoryEntry(tuple(below), frozenset(sizes), sizes)

    def look(place: Source) -> Entry | None:
        tops = {CollectionPath: "pdh/", ImagePath: "image/"}
        return entries.get(f"{tops.get(type(place), '')}{place.path}".rstrip("/"))

    return plan_output(
        output,
        areas or (OUT, SRC, IN, SECRET, TMP),
        look=look,
        globs=compile_globs(globs),
        limit=limit,
    )


def names(plan: OutputPlan) -> list[str]:
    return [item.name for item in plan.items]


def one_by_one(plan: OutputPlan) -> list[Item]:
    """The items by name, the files of a directory each by itself."""
    found: list[Item] = []
    for item in plan.items:
        if isinstance(item, CopyFiles):
            folder = f"{item.name}/" if item.name else ""
            found += [
                CopyFile(f"{folder}{name}", HostPath(f"{item.source.path}/{name}"))
                for name in item.names
            ]
        else:
            found.append(item)
    return sorted(found, key=lambda item: item.name)


def test_an_output_path_may_be_a_file_or_directory_in_a_mount() -> None:
    tree: dict[str, Entry | str] = {"/s/o/a/b.txt": FileEntry(), "/s/o/c": FileEntry()}
    assert walk(tree, output="/out/a/b.txt").items == (CopyFile("b.txt", HostPath("/s/o/a/b.txt")),)
    assert walk(tree, output="/out/a/b.txt", globs=("*.csv",)).items == ()
    assert one_by_one(walk(tree, output="/out/a")) == [CopyFile("b.txt", HostPath("/s/o/a/b.txt"))]


def test_files_and_directories_are_copied_in_order() -> None:
    plan = walk({"/s/o/b": FileEntry(), "/s/o/a/c": FileEntry()})
    assert plan.items == (CopyFile("a/c", HostPath("/s/o/a/c")), CopyFile("b", HostPath("/s/o/b")))


def test_links_into_the_tree_of_all_collections() -> None:
    keep = Area("/keep", Keep.FILES, KeepTree())
    tree: dict[str, Entry | str] = {
        "/s/o/one": f"/keep/by_id/{PDH}/x",
        "/s/o/two": "/keep/home/mine/y",
        "pdh/x": FileEntry(),
        "home/mine/y": FileEntry(),
        f"by_id/{PDH}": DirectoryEntry(()),
    }
    assert walk(tree, OUT, keep).items == (
        Refer("one", CollectionPath(PDH, "x")),
        CopyFile("two", KeepTree("home/mine/y")),
    )


LARGE: dict[str, Entry | str] = {
    "/s/o/a": FileEntry(60),
    "/s/o/d/b": FileEntry(40),
    "/s/o/link": "/in/c",
}


@pytest.mark.parametrize("sure", [True, False])
def test_an_output_of_too_many_bytes_is_refused(sure: bool) -> None:
    tree: dict[str, Entry | str] = {**LARGE, "pdh/sub/c": FileEntry(1000)}
    assert len(walk(tree, sure=sure, limit=100).items) == 3
    with pytest.raises(
        ExecutionError, match=r"^output: the files in /out have 100 bytes or more, and an"
    ) as caught:
        walk(tree, sure=sure, limit=99)
    assert caught.value.failure is Failure.USER
    assert "MaxOutputSize" in caught.value.message


@pytest.mark.parametrize("sure", [True, False])
def test_files_that_are_not_kept_do_not_count(sure: bool) -> None:
    tree: dict[str, Entry | str] = {**LARGE, "pdh/sub/c": FileEntry(1000)}
    assert names(walk(tree, sure=sure, limit=40, globs=("d/*",))) in (["d/b"], ["d"])


def test_a_file_behind_a_link_counts() -> None:
    keep = Area("/keep", Keep.FILES, KeepTree())
    tree: dict[str, Entry | str] = {"/s/o/d": "/keep/home/mine", "home/mine/y": FileEntry(5)}
    with pytest.raises(ExecutionError, match="have 5 bytes"):
        walk(tree, OUT, keep, limit=4, sure=True)


def test_an_empty_output() -> None:
    assert walk({"/s/o": DirectoryEntry(())}) == OutputPlan()


def test_an_empty_directory_is_marked() -> None:
    assert walk({"/s/o/d": DirectoryEntry(())}).items == (EmptyFile("d/.keep"),)


def test_special_files_are_left_out_with_a_note() -> None:
    plan = walk({"/s/o/fifo": SpecialEntry()})
    assert plan.items == ()
    assert "/out/fifo is neither" in plan.special.sentences[0]
    assert plan.omitted.count == 0
    assert walk({"/s/o": SpecialEntry()}).special.count == 1


def test_special_files_that_the_patterns_leave_out_have_no_note() -> None:
    plan = walk({"/s/o/fifo": SpecialEntry(), "/s/o/pipe": SpecialEntry()}, globs=("p*",))
    assert [line.split()[0] for line in plan.special.lines()] == ["/out/pipe"]


@pytest.mark.parametrize("target", ["/in/d", "../in/d", "/in/./d", "/../in/d"])
def test_a_link_into_a_collection_is_a_reference(target: str) -> None:
    plan = walk({"/s/o/l": target, "pdh/sub/d/x": FileEntry()})
    assert plan.items == (Refer("l", CollectionPath(PDH, "sub/d")),)


def test_a_link_to_a_whole_mount() -> None:
    assert walk({"/s/o/l": "/in", "pdh/sub/x": FileEntry()}).items == (
        Refer("l", CollectionPath(PDH, "sub")),
    )


def test_a_link_into_another_directory_is_mapped_through_its_mount() -> None:
    plan = walk({"/s/o/l": "/src/x", "/s/t/x": FileEntry()})
    assert plan.items == (CopyFile("l", HostPath("/s/t/x")),)


def test_links_in_the_middle_of_a_path_are_followed_inside_the_container() -> None:
    tree: dict[str, Entry | str] = {
        "/s/o/l": "/src/d/f",
        "/s/t/d": "/src/e",
        "/s/t/e/f": FileEntry(),
    }
    assert walk(tree).items == (CopyFile("l", HostPath("/s/t/e/f")),)


def test_a_link_to_a_directory_of_links() -> None:
    tree: dict[str, Entry | str] = {"/s/o/l": "d", "/s/o/d/m": "../f", "/s/o/f": FileEntry()}
    assert names(walk(tree)) == ["d/m", "f", "l/m"]


@pytest.mark.parametrize(
    ("tree", "fault"),
    [
        ({"/s/o/l": "/etc/passwd"}, "in no mount"),
        ({"/s/o/l": "/"}, "in no mount"),
        ({"/s/o/l": "/src/none"}, "does not exist"),
        ({"/s/o/l": "none"}, "does not exist"),
        ({"/s/o/l": "/src/d/f", "/s/t/d": "/etc"}, "in no mount"),
        ({"/s/o/l": "l"}, "more than 10 links"),
        ({"/s/o/a": "b", "/s/o/b": "a"}, "more than 10 links"),
        ({"/s/o/l": "."}, "lies in"),
        ({"/s/o/d/l": "../d"}, "lies in"),
        (
            {"/s/o/l": "/usr/bin/java", "image/usr/bin/java": FileEntry(MAX_IMAGE_FILE + 1)},
            "a file of the image of more than",
        ),
        ({"/s/o/l": "/usr/bin", "image/usr/bin/sh": FileEntry(1)}, "a directory of the image"),
        ({"/s/o/" + "n" * 256: FileEntry()}, "at most 255 bytes"),
    ],
)
def test_an_entry_that_cannot_be_saved_costs_itself_alone(
    tree: dict[str, Entry | str], fault: str
) -> None:
    plan = walk({**tree, "/s/o/kept": FileEntry(3)})
    assert CopyFile("kept", HostPath("/s/o/kept")) in one_by_one(plan)
    assert plan.omitted.count == len(plan.omitted.sentences) == sum("/s/o" in path for path in tree)
    assert all(re.search(fault, sentence) for sentence in plan.omitted.sentences)
    assert walk({**tree, "/s/o/kept": FileEntry(3)}, globs=("kept",)).omitted.count == 0


def test_an_output_path_that_leads_nowhere_is_a_failure() -> None:
    with pytest.raises(ExecutionError, match=r"^output: /out/l is a link to /out/none") as caught:
        walk({"/s/o/l": "none"}, output="/out/l")
    assert caught.value.failure is Failure.USER


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/tmp/x", "/tmp/x"),
        ("../../tmp/d/none", "/tmp/d/none"),
        ("/tmp", "/tmp"),
        ("/src/m", "/tmp/x"),
    ],
)
def test_a_link_to_another_tmp_mount_is_never_looked_at(target: str, path: str) -> None:
    tree: dict[str, Entry | str] = {"/s/o/d/l": target, "/s/t/m": "/tmp/x"}
    assert walk(tree).omitted.sentences == (
        f"/out/d/l is a link to {path}, which is in the mount /tmp, whose content is not saved;"
        " write it below /out",
    )
    assert walk(tree, globs=("other",)) == OutputPlan()


def test_links_to_files_of_the_image_are_followed() -> None:
    plan = walk(
        {
            "/s/o/v/bin/python": "python3",
            "/s/o/v/bin/python3": "/usr/bin/python3",
            "image/usr/bin/python3": "python3.11",
            "image/usr/bin/python3.11": FileEntry(MAX_IMAGE_FILE),
        }
    )
    assert plan.items == tuple(
        CopyFile(f"v/bin/{name}", ImagePath("usr/bin/python3.11")) for name in ("python", "python3")
    )
    assert plan.omitted.count == 0


def test_a_link_above_a_mount_target_in_the_image_does_not_lead_the_output_elsewhere() -> None:
    area = Area("/var/run/out", Keep.FILES, HostPath("/s/o"))
    tree: dict[str, Entry | str] = {"/s/o/f": FileEntry(), "image/var/run": "/run"}
    assert names(walk(tree, area, output="/var/run/out", sure=True)) == [""]


@pytest.mark.parametrize("sure", [True, False])
def test_names_that_are_not_utf_8_are_spelled(sure: bool) -> None:
    tree: dict[str, Entry | str] = {
        "/s/o/a": FileEntry(1),
        "/s/o/\udcff\udcfe": FileEntry(1),
        "/s/o/\udce9/x": FileEntry(1),
        "/s/o/%raw-z": FileEntry(1),
    }
    plan = walk(tree, sure=sure)
    assert one_by_one(plan) == [
        CopyFile("%raw-%25raw-z", HostPath("/s/o/%raw-z")),
        CopyFile("%raw-%E9/x", HostPath("/s/o/\udce9/x")),
        CopyFile("%raw-%FF%FE", HostPath("/s/o/\udcff\udcfe")),
        CopyFile("a", HostPath("/s/o/a")),
    ]
    assert plan.renamed.count == 3
    assert walk(tree, sure=sure, globs=("a",)).renamed.count == 0
    assert plan.renamed.sentences[0].startswith("/out/%raw-%")


def test_names_of_a_git_tree_are_spelled() -> None:
    git = Area("/git", Keep.FILES, GitTree("0" * 40, "tree", "g"))
    tree: dict[str, Entry | str] = {
        "/s/o/l": "/git", "g/\udcff": FileEntry(), "g/" + "\udcff" * 100: FileEntry()
    }  # fmt: skip
    plan = walk(tree, OUT, git, sure=True)
    assert [item.name for item in plan.items] == ["l/%raw-%FF"]
    assert plan.omitted.count == 1


def test_a_spelled_name_that_is_too_long_is_left_out() -> None:
    raw = "\udcff" * 100
    plan = walk({f"/s/o/{raw}": FileEntry(), "/s/o/a": FileEntry()}, sure=True)
    assert [item.name for item in one_by_one(plan)] == ["a"]
    assert "at most 255 bytes" in plan.omitted.sentences[0]
    # Nothing in the output spells it.
    assert plan.renamed.count == 0


def test_a_link_to_another_tmp_mount_that_the_globs_leave_out_is_left_out() -> None:
    planned = walk({"/s/o/l": "/tmp/x", "/s/o/a": FileEntry(3)}, OUT, TMP, globs=("a",))
    assert [item.name for item in planned.items] == ["a"]


def test_files_of_a_collection_that_the_globs_leave_out_are_left_out() -> None:
    tree: dict[str, Entry | str] = {
        "/s/o/l": "/in/d", "pdh/sub/d/a": FileEntry(1), "pdh/sub/d/b": FileEntry(1)
    }  # fmt: skip
    planned = walk(tree, OUT, IN, globs=("l/a",), sure=True)
    assert [item.name for item in planned.items] == ["l/a"]


def test_a_link_to_a_collection_that_is_mounted_in_another_tmp_mount() -> None:
    inner = Area("/tmp/in", Keep.REFERENCE, CollectionPath(PDH))
    assert walk({"/s/o/l": "/tmp/in/x", "pdh/x": FileEntry()}, OUT, TMP, inner).items == (
        Refer("l", CollectionPath(PDH, "x")),
    )


def test_ten_links_are_not_too_many() -> None:
    tree: dict[str, Entry | str] = {f"/s/t/{number}": f"/src/{number + 1}" for number in range(9)}
    assert names(walk({**tree, "/s/t/9": FileEntry(), "/s/o/l": "/src/0"})) == ["l"]


def test_a_link_to_a_secret_is_dropped() -> None:
    assert walk({"/s/o/l": "/key", "/s/o/m": "/key/x", "/s/o/f": FileEntry()}).items == (
        CopyFile("f", HostPath("/s/o/f")),
    )


def test_a_mounted_collection_is_referred_to() -> None:
    areas = (OUT, Area("/out/in", Keep.REFERENCE, CollectionPath(PDH)))
    plan = walk({"/s/o/in": DirectoryEntry(()), "pdh/x": FileEntry()}, *areas)
    assert plan.items == (Refer("in", CollectionPath(PDH)),)


def test_a_mounted_file_of_a_collection() -> None:
    areas = (OUT, Area("/out/in", Keep.REFERENCE, CollectionPath(PDH, "x")))
    assert walk({"/s/o/in": FileEntry(), "pdh/x": FileEntry()}, *areas).items == (
        Refer("in", CollectionPath(PDH, "x")),
    )


def test_mounts_in_a_mounted_collection_are_visited() -> None:
    areas = (
        OUT,
        Area("/out/in", Keep.REFERENCE, CollectionPath(PDH)),
        Area("/out/in/a", Keep.REFERENCE, CollectionPath(PDH, "other")),
    )
    plan = walk(
        {
            "/s/o": DirectoryEntry(()),
            "pdh/a": FileEntry(),
            "pdh/b": FileEntry(),
            "pdh/other/z": FileEntry(),
        },
        *areas,
    )
    assert plan.items[:2] == (
        Refer("in/a", CollectionPath(PDH, "other")),
        Refer("in/b", CollectionPath(PDH, "b")),
    )


def test_mounts_below_what_is_excluded_are_visited() -> None:
    areas = (
        OUT,
        Area("/out/x", Keep.NOTHING),
        Area("/out/x/y", Keep.REFERENCE, CollectionPath(PDH)),
    )
    plan = walk({"/s/o/x/f": FileEntry(), "pdh/z": FileEntry()}, *areas)
    assert plan.items == (Refer("x/y", CollectionPath(PDH)),)


def test_a_mount_whose_folder_the_host_does_not_show() -> None:
    areas = (
        OUT,
        Area("/out/x/y", Keep.REFERENCE, CollectionPath(PDH)),
        Area("/out/x/y/z", Keep.NOTHING),
    )
    plan = walk({"/s/o/f": FileEntry(), "pdh/w": FileEntry()}, *areas)
    assert plan.items == (
        CopyFile("f", HostPath("/s/o/f")),
        Refer("x/y/w", CollectionPath(PDH, "w")),
    )


def test_an_excluded_output_keeps_nothing_of_its_own() -> None:
    assert walk({"/s/o/f": FileEntry()}, Area("/out", Keep.NOTHING)) == OutputPlan()


@pytest.mark.parametrize(
    ("globs", "kept"),
    [
        (("*.txt",), ["a.txt"]),
        (("d/**",), ["d/b", "d/e/.keep"]),
        (("d/*",), ["d/b", "d/e/.keep"]),
        (("**/b",), ["d/b"]),
        (("l/x",), ["l/x"]),
        (("l/**",), ["l"]),
        (("none",), []),
    ],
)
def test_globs(globs: tuple[str, ...], kept: list[str]) -> None:
    tree: dict[str, Entry | str] = {
        "/s/o/a.txt": FileEntry(),
        "/s/o/d/b": FileEntry(),
        "/s/o/d/e": DirectoryEntry(()),
        "/s/o/l": "/in",
        "pdh/sub/x": FileEntry(),
        "pdh/sub/y": FileEntry(),
    }
    assert names(walk(tree, globs=globs)) == kept


@pytest.mark.parametrize("depth", [300, 3000])
def test_directories_are_saved_as_deep_as_a_manifest_allows(depth: int) -> None:
    files = {f"/s/o{'/d' * level}/f": FileEntry() for level in (0, MAX_DEPTH - 1, MAX_DEPTH)}
    plan = walk({**files, f"/s/o{'/d' * depth}/f": FileEntry()})
    assert names(plan) == ["d/" * (MAX_DEPTH - 1) + "f", "f"]
    assert all(fault_of(name) == "" for name in names(plan))
    assert plan.omitted.count == 1
    assert len(plan.omitted.sentences[0]) < 300
    assert "too deep" in plan.omitted.sentences[0]
    empty = walk({f"/s/o{'/d' * depth}/f": FileEntry()})
    assert names(empty) == ["d/" * (MAX_DEPTH - 1) + ".keep"]


LEAVES = st.sampled_from(
    [
        FileEntry(),
        "/in/x",
        "/src/x",
        "/tmp/x",
        "a",
        "../out/b",
        "/key",
        SpecialEntry(),
        "/out",
        "/none",
    ]
)
TREES = st.dictionaries(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(
        lambda parts: "/s/o/" + "/".join(parts)
    ),
    LEAVES,
    max_size=6,
)


@given(TREES)
def test_a_walk_ends_and_never_leaves_the_mounts(tree: dict[str, Entry | str]) -> None:
    leaves = {
        path: entry
        for path, entry in tree.items()
        if not any(other.startswith(path + "/") for other in tree)
    }
    plan = walk(
        {"/s/o": DirectoryEntry(()), "/s/t/x": FileEntry(), "pdh/sub/x": FileEntry(), **leaves}
    )
    assert len(set(names(plan))) == len(plan.items)
    assert all(
        item.source.path.startswith(("/s/o/", "/s/t/"))
        for item in plan.items
        if isinstance(item, CopyFile)
    )


@given(TREES, st.sampled_from([(), ("a",), ("a/*", "b"), ("**/c",), ("[ab]/**",)]))
def test_files_that_a_directory_tells_of_are_the_same_as_those_that_were_looked_at(
    tree: dict[str, Entry | str], globs: tuple[str, ...]
) -> None:
    leaves = {
        path: entry
        for path, entry in tree.items()
        if not any(other.startswith(path + "/") for other in tree)
    }
    leaves |= {"/s/o/a/f": FileEntry(), "/s/t/x": FileEntry(), "pdh/sub/x": FileEntry()}
    leaves.pop("/s/o/a", None)
    areas = (
        OUT,
        SRC,
        IN,
        SECRET,
        TMP,
        Area("/out/a/f/m", Keep.NOTHING),
        Area("/out/b", Keep.FILES, HostPath("/s/t")),
    )
    try:
        plan = walk(leaves, *areas, globs=globs)
    except ExecutionError as error:
        with pytest.raises(ExecutionError, match=re.escape(error.message)):
            walk(leaves, *areas, globs=globs, sure=True)
        return
    assert one_by_one(walk(leaves, *areas, globs=globs, sure=True)) == one_by_one(plan)


def test_the_files_of_a_directory_are_one_item() -> None:
    plan = walk(
        {
            "/s/o/d/b": FileEntry(),
            "/s/o/d/a": FileEntry(),
            "/s/o/d/l": "a",
            "/s/o/d/e/f": FileEntry(),
        },
        sure=True,
    )
    assert plan.items == (
        CopyFiles("d", HostPath("/s/o/d"), ("a", "b")),
        CopyFiles("d/e", HostPath("/s/o/d/e"), ("f",)),
        CopyFile("d/l", HostPath("/s/o/d/a")),
    )


def test_what_a_link_leads_to_in_a_git_tree_is_copied() -> None:
    tree = GitTree("a" * 40, "tree")
    source = Area("/src", Keep.FILES, tree)
    plan = walk({"/s/o/l": "/src/d", "d/x": FileEntry()}, OUT, source)
    assert plan.items == (CopyFile("l/x", GitTree("a" * 40, "tree", "d/x")),)


@pytest.mark.parametrize(
    ("area", "item"),
    [
        (OUT, CopyFiles("", HostPath("/s/o"), ("f",))),
        (
            Area("/out", Keep.FILES, GitTree("a" * 40, "tree")),
            CopyFile("f", GitTree("a" * 40, "tree", "f")),
        ),
        (
            Area("/out", Keep.REFERENCE, CollectionPath(PDH, "sub")),
            Refer("f", CollectionPath(PDH, "sub/f")),
        ),
    ],
)
def test_what_is_surely_a_file_is_not_looked_at(area: Area, item: Item) -> None:
    looked: list[Source] = []

    def look(place: Source) -> Entry:
        looked.append(place)
        return DirectoryEntry(("f", "g"), frozenset("fg"))

    plan = plan_output("/out", [area], look=look, globs=compile_globs(["f"]))
    assert plan.items == (item,)
    assert len(looked) == 1


def test_a_file_that_is_mounted_over_is_looked_at() -> None:
    entries: dict[str, Entry] = {
        "/s/o": DirectoryEntry(("f",), frozenset("f")),
        "/s/m": FileEntry(),
    }
    mounted = Area("/out/f", Keep.FILES, HostPath("/s/m"))
    plan = plan_output(
        "/out", [OUT, mounted], look=lambda place: entries[place.path], globs=compile_globs([])
    )
    assert plan.items == (CopyFile("f", HostPath("/s/m")),)


class _Enough(Exception):
    """Somebody wants no more of it."""


@pytest.mark.parametrize(
    ("files", "globs", "least"), [(1, (), 1), (600, ("**/x*",), 4), (200_000, (), 3)]
)
def test_the_walk_can_be_ended_from_outside(files: int, globs: tuple[str, ...], least: int) -> None:
    names = tuple(f"x{number}" for number in range(files))
    folder = DirectoryEntry(names, frozenset(names))
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        if asked > least:
            raise _Enough

    def look(place: Source) -> Entry:
        return folder if place.path == "/s/o" else FileEntry()

    def work() -> OutputPlan:
        return plan_output("/out", (OUT,), look=look, globs=compile_globs(globs), ask=ask)

    if least == 1:
        assert work().items == (CopyFiles("", HostPath("/s/o"), names),)
    least -= 1
    asked = 0
    with pytest.raises(_Enough):
        work()


def test_very_many_names_are_in_order() -> None:
    names = tuple(f"{number:06}" for number in range(200_000, 0, -1))
    plan = plan_output(
        "/out",
        (OUT,),
        look=lambda place: DirectoryEntry(names, frozenset(names)),
        globs=compile_globs(()),
    )
    assert plan.items == (CopyFiles("", HostPath("/s/o"), names[::-1]),)


def test_unreadable_entries_are_named_and_the_others_saved() -> None:
    plan = walk(
        {
            "/s/o/a": FileEntry(1),
            "/s/o/m": UnreadableEntry(),
            "/s/o/d": UnreadableEntry(),
            "/s/o/l": "/out/m",
            "/s/o/i": "/bin/su",
            "image/bin/su": UnreadableEntry(),
        },
        OUT,
    )
    assert names(plan) == ["a"]
    lines = plan.omitted.lines()
    assert plan.omitted.count == 4
    assert lines[0] == (
        "/out/d cannot be read by the account that saves the output; let the command end with "
        "chmod -R a+rX on it"
    )
    assert "/out/i is a link to /bin/su, a file of the image that cannot be read" in lines[1]
    assert "/out/l is a link to /out/m, which cannot be read" in lines[2]


def test_an_output_that_cannot_be_read_at_all_is_the_fault_of_the_command() -> None:
    with pytest.raises(ExecutionError, match="/out cannot be read by the account") as caught:
        walk({"/s/o": UnreadableEntry()}, OUT)
    assert caught.value.failure is Failure.USER
