"""Writes what `run.py` found.

    tables.py write FILE        the tables of docs/guide/agents.md and docs/guide/hooks.md
    tables.py record FILE       the tools that the agents offered, to tests/agents/tools
    tables.py difference FILE   print how the offered tools differ from the recorded ones
"""

import datetime
import json
import pathlib
import sys

from agents import AGENTS
from checks import difference, recorded_tools

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
BEGIN, END = "<!-- agents: written by scripts/agents write -->", "<!-- /agents -->"
# `byleave init` supports it, but it cannot be installed here.
NOT_RUN = "Cursor"


def main():
    match sys.argv[1:]:
        case ["write", path]:
            found = json.loads(pathlib.Path(path).read_text())
            write(ROOT / "docs/guide/agents.md", found, lambda check: not check.startswith("nothing runs"))
            write(ROOT / "docs/guide/hooks.md", found, lambda check: check.startswith("nothing runs"))
        case ["record", path]:
            for name, tools in json.loads(pathlib.Path(path).read_text())["tools"].items():
                (HERE / "tools" / f"{name}.json").write_text(json.dumps(tools, indent=1) + "\n")
        case ["difference", path]:
            found = json.loads(pathlib.Path(path).read_text())
            for agent in AGENTS:
                if agent.name in found["tools"]:
                    print_difference(agent, found)
        case _:
            sys.exit(__doc__)


def print_difference(agent, found):
    lines = difference(recorded_tools(agent), found["tools"][agent.name])
    print(f"\n{agent.title} {found['versions'].get(agent.name, '?')}: " + ("offers the recorded tools" if not lines else ""))
    print("".join(f"  {line}\n" for line in lines), end="")


def write(page, found, is_wanted):
    shown = [agent for agent in AGENTS if agent.is_set_up_by_init]
    cells = {(row["agent"], row["check"]): row for row in found["rows"]}
    checks = list(dict.fromkeys(row["check"] for row in found["rows"] if is_wanted(row["check"])))
    lines = [
        "| | " + " | ".join(agent.title for agent in shown) + f" | {NOT_RUN} |",
        "|---" * (len(shown) + 2) + "|",
        "| version | " + " | ".join(version(found, agent) for agent in shown) + " | not run |",
    ]
    for check in checks:
        lines.append(f"| {check} | " + " | ".join(cell(cells.get((agent.name, check))) for agent in shown) + " | not run |")
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    reasons = dict.fromkeys(f"{agent.title}: {reason}." for agent in shown for check, reason in agent.impossible.items() if check in checks)
    text = f"Run on {date} with the real programs and a scripted model.\n\n" + "\n".join(lines) + "\n"
    if reasons:
        text += "\n*no*: " + " ".join(reasons) + "\n"
    before, rest = page.read_text().split(BEGIN, 1)
    page.write_text(f"{before}{BEGIN}\n{text}{END}{rest.split(END, 1)[1]}")


def version(found, agent):
    """Returns the number in what the agent prints as its version."""
    words = found["versions"].get(agent.name, "").replace("(", " ").split()
    return next((word.rstrip(".") for word in words if word[:1].isdigit()), "not run")


def cell(row):
    if row is None:
        return "not run"
    return {"holds": "yes", "impossible": "*no*", "FAILED": "**FAILED**"}[row["result"]]


if __name__ == "__main__":
    main()
