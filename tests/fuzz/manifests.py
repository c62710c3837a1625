"""Manifests spoiled at random: each is refused in plain words or is a manifest, whatever it is made
of.

What holds of every text: the only error is Malformed, of one short line. What is taken can be
rendered, read again and rendered to the same; it says the same of itself before and after; as a
tree it gives a normalised manifest, which is its own normal form; and the work grows with the text.
Hostile shapes of growing size are timed for the last.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from lading.core.data import filetree, locator, manifest, tree_changes
from lading.core.errors import LadingError, Malformed

_BLOCKS = (
    "d41d8cd98f00b204e9800998ecf8427e+0",
    "acbd18db4cc2f85cedef654fccc4a4d8+3",
    "37b51d194a7513e45b56f6524f2d51f2+3+K@zzzzz",
    f"0cc175b9c0f1b6a831c399e269772661+67108864+A{'5' * 40}@7fffffff",
)
_WORDS = (
    " ", "  ", "\n", "\n\n", "\r", "\t", "\0", "\x7f", "\x85", "\u2028", "\ufeff", "\ud800",
    "\U0001f9ec", "é", ".", "..", "./", "/", "//", "/.", "/..", ":", "::", "+", "+A", "@", "\\",
    "\\0", "\\056", "\\056\\056", "\\057", "\\000", "\\377", "\\303\\251", "\\012", "\\040",
    "\\134056", "0:0:\\056", "0:0:.", "0:1:a", "0:1:a/b", "0:0:a", "-1:0:a", "0:-1:a", "9" * 18,
    "9" * 19, "9" * 5000, "0" * 30, "٣", "n" * 256, "d/" * 300, "0:3:foo", *_BLOCKS,
)  # fmt: skip
_SLOW = 2.0
_LONGEST = 500


def seeds(chance: random.Random) -> list[str]:
    """Manifests that are right, of many forms."""
    found = ["", f". {_BLOCKS[0]} 0:0:\\056\n", f". {_BLOCKS[1]} 0:3:foo\n"]
    for _ in range(60):
        lines = []
        for number in range(chance.randint(1, 4)):
            blocks = [chance.choice(_BLOCKS[:3]) for _ in range(chance.randint(1, 4))]
            size = sum(map(manifest.size_of, blocks))
            files = []
            for name in chance.sample(
                ["a", "b c", "x:y", "é", "deep/er/f", "\\", "+A", "n" * 60], chance.randint(1, 5)
            ):
                start = chance.randint(0, size)
                files.append(f"{start}:{chance.randint(0, size - start)}:{manifest.escape(name)}")
            lines.append(f".{'/d' * number} {' '.join(blocks)} {' '.join(files)}\n")
        found.append("".join(lines))
    return found


def spoil(text: str, chance: random.Random) -> str:
    """The text with one to four changes."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4))):
        at = chance.randint(0, len(text))
        end = min(len(text), at + chance.choice((0, 1, 1, 2, 8, 40)))
        match chance.randrange(7):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + chance.choice(_WORDS) + text[at:]
            case 2:
                text = text[:at] + chance.choice(_WORDS) + text[end:]
            case 3:
                text = (
                    text[:at]
                    + chr(chance.choice((chance.randrange(128), chance.randrange(0x3000))))
                    + text[end:]
                )
            case 4:
                text = text[:at] + text[at:end] * chance.randint(2, 5) + text[end:]
            case 5:
                words = text.split(" ")
                one, two = chance.randrange(len(words)), chance.randrange(len(words))
                words[one], words[two] = words[two], words[one]
                text = " ".join(words)
            case _:
                text += text[at:end]
    return text


def try_manifests(*, count: int, number: int) -> tuple[list[str], int]:
    """Try spoiled manifests; what went wrong, and how many were taken all the same."""
    chance = random.Random(number)
    good, taken, faults = seeds(chance), 0, list[str]()
    for _ in range(count):
        text = spoil(chance.choice(good), chance)
        began = time.process_time()
        try:
            taken += check(text)
        except Exception as error:  # noqa: BLE001 (any other error is what is sought)
            faults.append(f"manifest {text[:200]!r}: {type(error).__name__}: {str(error)[:200]}")
        if time.process_time() - began > _SLOW:
            faults.append(f"manifest {text[:200]!r}: took {time.process_time() - began:.1f} s")
    return faults, taken


def check(text: str) -> bool:
    """Whether the text is a manifest. Raises AssertionError when it breaks a rule, and what it
    should not raise.
    """
    try:
        found = manifest.parse(text)
    except Malformed as refusal:
        _check_refusal(refusal)
        for other in (manifest.counts, filetree.from_manifest):
            assert _refuses(other, text), f"{other.__name__} takes what parse refuses"
        return False
    rendered = manifest.render(found)
    assert manifest.parse(rendered) == found, "it reads otherwise once rendered"
    assert manifest.counts(rendered) == manifest.counts(text), "it counts otherwise once rendered"
    tree = filetree.from_manifest(text)
    normal = filetree.to_manifest(tree)
    assert filetree.to_manifest(filetree.from_manifest(normal)) == normal, (
        "its normal form has another one"
    )
    assert not tree_changes.diff(tree, filetree.from_manifest(normal)), (
        "its normal form has other files"
    )
    files, size = manifest.counts(text)
    assert (files, size) == (len(list(filetree.files(tree))), filetree.total_size(tree)), (
        "the tree counts otherwise"
    )
    signed = manifest.sign(
        text, lambda one: locator.signed(one, token="t", expiry=1, ttl=2, key="k")
    )
    assert manifest.portable_data_hash(signed) == manifest.portable_data_hash(text), (
        "a signature changes its hash"
    )
    assert manifest.parse(manifest.strip_signatures(signed)) == manifest.parse(
        manifest.strip_signatures(text)
    )
    return True


def _check_refusal(refusal: LadingError) -> None:
    assert len(refusal.message) < _LONGEST, "the refusal is too long"
    assert refusal.message.isprintable(), "the refusal is more than one line"


def _refuses(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except Malformed:
        return True
    return False


def shapes(size: int) -> Iterator[tuple[str, str]]:
    """Hostile texts of about `size` characters, with what is hostile about them."""
    block = _BLOCKS[1]
    many = size // 40
    yield "one long name", f". {block} 0:3:{'n' * size}\n"
    yield "one deep path", f". {block} 0:3:{'d/' * (size // 2)}f\n"
    yield "one deep stream", f".{'/d' * (size // 2)} {block} 0:3:f\n"
    yield "a long number", f". {block} {'9' * size}:0:f\n"
    yield "backslashes", f". {block} 0:3:{chr(92) * size}\n"
    yield "escapes", f". {block} 0:3:{chr(92)}141{(chr(92) + '141') * (size // 4)}\n"
    yield "dots", f". {block} 0:3:{'./' * (size // 2)}\n"
    yield "spaces", f". {block}{' ' * size}0:3:f\n"
    yield "empty lines", "\n" * size
    yield "hints", f". {block}{'+K@zzzzz' * (size // 8)} 0:3:f\n"
    yield "signatures", f". {block}{('+A' + '0' * 40 + '@0') * (size // 44)} 0:3:f\n"
    yield "one file in many parts", f". {block} {'0:3:f ' * (size // 6)}0:3:f\n"
    yield "many blocks", f". {' '.join([block] * many)} 0:{3 * many}:f\n"
    yield (
        "all files over all blocks",
        f". {' '.join([block] * (many // 2))} "
        + " ".join(f"0:{3 * (many // 2)}:f{number}" for number in range(many))
        + "\n",
    )
    yield (
        "many directories",
        "".join(f"./d{number} {block} 0:3:f\n" for number in range(size // 50)),
    )
    yield (
        "nested directories",
        "".join(f".{'/d' * (number % 250)} {block} 0:3:f\n" for number in range(size // 300)),
    )
    yield (
        "files that are directories",
        f". {block} " + " ".join(f"0:3:f{n} 0:3:f{n}/g" for n in range(size // 30)) + "\n",
    )


def too_slow(*, small: int = 1 << 17, times: int = 8) -> list[str]:
    """Shapes for which a text of `times` the size takes much more than `times` the time."""
    faults = []
    for (name, few), (_, more) in zip(shapes(small), shapes(small * times), strict=True):
        one, other = (min(_seconds(text) for _ in range(3)) for text in (few, more))
        # A shape may grow by more than `times`: directories repeat the names of those above.
        growth = len(more) / len(few)
        if other > _SLOW or other > one * growth * 3 + 0.1:
            faults.append(
                f"{name}: {len(few)} characters take {one:.3f} s, {len(more)} take {other:.3f} s"
            )
    return faults


def _seconds(text: str) -> float:
    began = time.process_time()
    for work in (
        manifest.counts,
        filetree.from_manifest,
        manifest.strip_signatures,
        manifest.portable_data_hash,
    ):
        try:
            work(text)
        except LadingError as refusal:
            _check_refusal(refusal)
    return time.process_time() - began
