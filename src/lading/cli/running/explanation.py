"""Prints the server's explanations of a request: decision, similar containers, differences.

The texts are those of `client.explanations`, which the page shows too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from lading.cli import display
from lading.client import explanations
from lading.client.explanations import Explanation

# Characters of a value in the table of differences.
_LONGEST = 48


def show_preview(answer: Explanation, *, is_verbose: bool = False) -> None:
    """Show the response of `container_requests/preview`: the effect that a request would have."""
    click.echo(explanations.decision_text(answer, would="would "))
    if learned := explanations.learned_text(answer):
        click.echo(f"learned: {learned}")
    show_trail(answer)
    _show_rules(answer, is_verbose=is_verbose)


def show_why(answer: Explanation, *, is_verbose: bool = False) -> None:
    """Show the response of `container_requests/{uuid}/why`: its progress, and the decision behind
    it; `is_verbose`: with the attributes that never count.
    """
    display.fields(explanations.why_fields(answer))
    show_trail(answer["decision"] or {})
    if answer.get("dispatch"):
        click.echo()
        show_decisions(answer["dispatch"])
    _show_rules(answer, is_verbose=is_verbose)


def _show_rules(answer: Explanation, *, is_verbose: bool) -> None:
    """Show the rule about containers of other users, for a request without reuse; `is_verbose`:
    also the attributes that never count.
    """
    decision = answer.get("decision")
    made = decision.get("decision") if isinstance(decision, Mapping) else decision
    if is_verbose and made == "new" and answer.get("not_compared"):
        click.echo()
        click.echo(f"never compared: {', '.join(map(str, answer['not_compared']))}")
    # The decision is in the answer of `why`, and is the answer of a preview.
    rule = explanations.rule_text(decision if isinstance(decision, Mapping) else answer)
    if rule:
        click.echo(f"other users: {rule}")


def show_decisions(decisions: Sequence[Explanation]) -> None:
    """Show the decisions of dispatchers about the containers of a request, in order of time."""
    display.table(("AT", "CONTAINER", "DECISION", "WHY"), explanations.dispatch_rows(decisions))


def show_trail(resolution: Explanation) -> None:
    """Show each candidate with its reason, then the nearest earlier container and the
    differences.
    """
    candidates = list(explanations.candidate_rows(resolution))
    if candidates:
        click.echo()
        display.table(("CANDIDATE", "STATE", "USABLE", "REASON"), candidates)
    nearest = explanations.nearest_text(resolution)
    if nearest:
        click.echo()
        click.echo(nearest)
    differences = [
        (field, display.shorten(ours, _LONGEST), display.shorten(theirs, _LONGEST))
        for field, ours, theirs in explanations.difference_rows(resolution)
    ]
    if differences:
        display.table(("FIELD", "THIS REQUEST", "THAT CONTAINER"), differences)
    further = explanations.further_text(resolution)
    if further:
        click.echo(further)
