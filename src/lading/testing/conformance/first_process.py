"""Conformance suite of the first process of a container: the command is another one.

A test module subclasses it beside `isolation.IsolatingEngineSuite`, for an engine whose containers
have a first process of their own. The ranks of a gang are tried with the same scripts.
"""

from __future__ import annotations

from typing import Final

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Exit
from lading.testing.conformance.engines import EngineSuite, Kit
from lading.testing.images import ArchiveImage, tiny_image

ORPHANS = 3000
PROCESSES = 400
"""The most processes of the container in which these are made: far fewer than all of them."""
SIGNALS: Final = (("TERM", 143), ("KILL", 137), ("ABRT", 134), ("SEGV", 139))
"""Each signal that a command sends to itself, with the exit code that follows."""
ORPHANED: Final = (
    f"i=0; while [ $i -lt {ORPHANS} ]; do (true &); i=$((i+1)); done; echo $i made;"
    " for second in 1 2 3 4 5 6 7 8 9 10; do ended=0; for file in /proc/[0-9]*/stat; do"
    " read -r pid name state others < $file && [ $state = Z ] && ended=$((ended+1));"
    " done 2> /dev/null; [ $ended = 0 ] && break; sleep 1; done; echo $ended left"
)
"""Makes many orphans, and tells how many ended ones nobody collects."""
AS_ORPHANED: Final = f"{ORPHANS} made\n0 left\n"
"""The output of `ORPHANED`."""
PROGRAMS: Final = tuple(f"/bin/{name}" for name in ("dash", "cat", "ls", "rm", "mv"))
"""Needed in the image by `ATTACK`."""
ATTACK: Final = (
    "kill -KILL 1; kill -STOP 1; cat /proc/1/environ /proc/1/maps;"
    " [ -r /proc/1/exe ] && echo read; for file in exe mem fd/0 fd/1 fd/2 fd/3; do"
    " (echo x > /proc/1/$file) && echo wrote; done; if [ -e /.lading-init ]; then"
    " (echo x > /.lading-init) && echo wrote; rm -f /.lading-init && echo removed;"
    " mv /bin/cat /.lading-init && echo replaced; fi; echo alive"
)
"""Tries to end, read, write and replace the first process. Says no more than that it is alive."""


class FirstProcessSuite(EngineSuite):
    """The promises about signals, orphans and the end of a command."""

    @pytest.mark.parametrize(("signal", "code"), SIGNALS)
    async def test_a_command_can_send_signals_to_itself(
        self, kit: Kit, signal: str, code: int
    ) -> None:
        # The kernel drops those that the first process of a container sends to itself.
        assert (await kit.run(f"kill -{signal} $$; echo unheard"))[:2] == (Exit(code=code), "")

    async def test_orphans_are_collected(self, kit: Kit) -> None:
        ended, out, err = await kit.run(ORPHANED, processes=PROCESSES)
        assert (ended, out, err) == (Exit(code=0), AS_ORPHANED, "")

    async def test_nobody_inside_reaches_the_first_process(self, kit: Kit) -> None:
        kit.image = ArchiveImage(*tiny_image(programs=PROGRAMS))
        assert (await kit.run(ATTACK))[:2] == (Exit(code=0), "alive\n")

    async def test_each_process_is_asked_to_end_once(self, kit: Kit) -> None:
        # Programs take a second TERM for an order to end without their handler.
        heard = "trap 'echo heard >> /made/file' TERM"
        child = f"{heard}; echo > /made/bell; for i in 1 2 3 4 5 6 7 8; do sleep 0.05; done"
        code = await kit.run_and_stop(f'{heard}; sh -c "{child}"; exit 7')
        assert code == 7
        assert (kit.directory / "made" / "file").read_text() == "heard\nheard\n"

    async def test_a_command_without_a_handler_ends_by_the_signal(self, kit: Kit) -> None:
        assert await kit.run_and_stop("echo > /made/bell; sleep 600; :") == 143

    async def test_others_have_their_time_when_the_command_is_stopped(self, kit: Kit) -> None:
        # The command has no handler and ends at once, unlike its child.
        child = (
            "trap 'sleep 0.3; echo saved > /made/file; exit' TERM; echo > /made/bell;"
            " while :; do sleep 0.01; done"
        )
        assert await kit.run_and_stop(f'sh -c "{child}"; sleep 600; :') == 143
        assert (kit.directory / "made" / "file").read_text() == "saved\n"

    async def test_a_command_that_cannot_be_run_is_the_users_fault(self, kit: Kit) -> None:
        made = kit.bind("/made")
        (kit.directory / "made" / "text").write_text("no program\n")
        with pytest.raises(ExecutionError, match=r"cannot be started.*executable") as caught:
            await kit.run_command(("/made/text",), binds=(made,))
        assert caught.value.failure is Failure.USER

    @pytest.mark.parametrize("code", [125, 126, 127])
    async def test_codes_of_shells_are_those_of_the_command(self, kit: Kit, code: int) -> None:
        assert (await kit.run(f"exit {code}"))[0] == Exit(code=code)
