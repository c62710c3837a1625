from __future__ import annotations

from typing import Any, cast

from bench.listeners import _figures, _Side


def test_only_listeners_who_read_nothing_have_a_promise() -> None:
    side = _Side("", cast(Any, None), cast(Any, None), "", 0)
    side.taken = {(0, False): [10.0], (200, False): [10.5], (9, False): [12.0], (9, True): [12.0]}
    figures = _figures(side)
    assert [figure.met for figure in figures] == [None, True, False, None]
    assert figures[3].name == "server for a container, 9 listeners who read all"
    assert figures[3].note == "+2.00 ms"
