"""Tables, sizes, times, progress."""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime

import click
import pytest
from click.testing import CliRunner

from lading.cli import display


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 50, "3.0 PiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert display.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.00 s"),
        (0.123, "0.12 s"),
        (9.87, "9.9 s"),
        (59, "59 s"),
        (61, "1 min"),
        (7200, "2 h"),
        (2 * 86400, "2 d"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert display.duration(seconds) == text


def test_ages() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert display.age("2026-01-02T03:03:45.000000000Z", now) == "20 s"
    assert display.age(None, now) == ""


def test_tables_have_aligned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    display.table(("A", "LONG"), [("aaa", "b"), ("c", "two\nlines")])
    assert capsys.readouterr().out == "A    LONG\naaa  b\nc    two lines\n"


def test_tables_fit_a_terminal() -> None:
    rows = [["UUID", "AGE", "NAME"], ["u" * 10, "5 min", "n" * 60], ["u" * 10, "1 h", "short"]]
    assert display.fit(rows, 100, ("AGE",)) == rows
    cut = display.fit(rows, 50, ("AGE",))
    assert cut[0] == ["UUID", "AGE", "NAME"]
    assert cut[1][2] == "n" * 30 + "…"
    assert max(len("  ".join(row)) for row in cut[1:2]) == 10 + 2 + 5 + 2 + 31 == 50
    narrow = display.fit(rows, 40, ("AGE",))
    assert narrow[1] == ["u" * 10, "n" * 27 + "…"]
    assert display.fit(rows, 8)[1] == ["u" * 10, "5 min", "nnn…"]
    last = [["NAME", "UUID"], ["n", "u" * 27]]
    assert display.fit(last, 8) == last


def test_a_table_in_a_file_is_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    display.table(("A", "B"), [("a", "b" * 90)])
    assert capsys.readouterr().out == "A  B\na  " + "b" * 90 + "\n"


def test_a_table_of_sentences_is_whole_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    display.table(("A", "B"), [("a", "b" * 90)], is_cut=False)
    assert "b" * 90 in capsys.readouterr().out
    display.table(("A", "B"), [("a", "b" * 90)])
    assert "b" * 90 not in capsys.readouterr().out


def test_fields_leave_out_what_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    display.fields([("name", "x"), ("other thing", ""), ("ab", "y")])
    assert capsys.readouterr().out == "name  x\nab    y\n"
    display.fields([])
    assert capsys.readouterr().out == ""


def test_nothing_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b[2J\nb\x7f\u202e\u00e9"
    assert display.plain(hostile) == r"a\x1b[2J\nb\x7f\u202e" + "\u00e9"
    display.note(hostile)
    display.table(["name"], [[hostile]])
    display.fields([("name", hostile)])
    said = capsys.readouterr()
    assert all(line.isprintable() for line in (said.out + said.err).splitlines())
    assert len(said.err.splitlines()) == 1


def test_long_texts_are_cut() -> None:
    assert display.shorten("abcdef", 4) == "abc…"
    assert display.shorten("abcd", 4) == "abcd"


class _Narrow(io.BytesIO):
    def write(self, data: object, /) -> int:
        return super().write(bytes(data)[:3])  # type: ignore[call-overload]


def test_everything_is_written_to_streams_that_take_a_part() -> None:
    narrow = _Narrow()
    display.write_all(narrow, b"0123456789")
    display.write_all(narrow, b"")
    assert narrow.getvalue() == b"0123456789"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_terminals_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with display.progress("Storing") as report:
        report(1, 10)
    assert terminal.getvalue() == ""
    with display.progress("Storing", patience=0.0) as report:
        report(1 << 20, 10 << 20)
        report(2 << 20, 10 << 20)
    assert "Storing" in terminal.getvalue()


def test_progress_is_not_drawn_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, is_quiet in ((io.StringIO(), False), (_Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        with display.progress("Storing", is_quiet=is_quiet, patience=0.0) as report:
            report(1, 10)
        assert stream.getvalue() == ""


def _invoke(*words: str) -> str:
    @click.command()
    @display.with_json
    def shown() -> display.Output:
        yield {"a": 1}
        display.table(("A",), [("1",)])
        with display.progress("Storing", patience=0.0) as report:
            report(1, 10)

    result = CliRunner().invoke(shown, words)
    assert result.exit_code == 0
    return result.stdout


def test_a_result_is_a_document_or_a_text_for_people() -> None:
    assert _invoke("--json") == '{\n  "a": 1\n}\n'
    assert _invoke() == "A\n1\n"


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_conclusion_has_the_exit_code(words: tuple[str, ...]) -> None:
    @click.command()
    @display.with_json
    def judged() -> display.Output:
        yield display.Conclusion({"ok": False}, 3)
        click.echo("not well")

    result = CliRunner().invoke(judged, words, standalone_mode=False)
    assert result.return_value == 3
    assert result.stdout == ('{\n  "ok": false\n}\n' if words else "not well\n")


def test_no_progress_is_drawn_beside_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    @click.command()
    @display.json_option
    def work() -> None:
        terminal = _Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal)
            with display.progress("Storing", patience=0.0) as report, display.steps("x") as tell:
                report(1, 10)
                tell("y", 1, 2)
        drawn.append(terminal.getvalue())

    CliRunner().invoke(work, ["--json"], catch_exceptions=False)
    assert drawn == [""]
