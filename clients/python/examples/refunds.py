"""A function behind the gate, with reviewers of its arguments and its result.

    BYLEAVE_URL=http://127.0.0.1:7411 BYLEAVE_TOKEN=byl_... python refunds.py

A person answers at `byleave inbox`, or in any other place that shows questions.
"""

from __future__ import annotations

from typing import Any

import byleave


def not_too_much(subject: byleave.Input) -> Any:
    """Reviews the arguments before a person is asked."""
    if subject.arguments["cents"] > 100_00:
        return byleave.deny("more than 100 is never paid back")
    return True


def without_card(subject: byleave.Output) -> Any:
    """Reviews the result before the model receives it."""
    return {name: value for name, value in subject.value.items() if name != "card"}


@byleave.tool(input=not_too_much, output=without_card, declaration={"kind": "generic", "destructive": True})
def refund(order: str, cents: int) -> dict[str, Any]:
    """Pays money back."""
    return {"order": order, "cents": cents, "card": "4111 1111 1111 1111"}


if __name__ == "__main__":
    print("paid back:", refund("a17", cents=5_00))
    try:
        refund("a18", cents=500_00)
    except byleave.Refused as refused:
        print(f"refused: {refused.reason} ({refused.code}, {refused.page})")
