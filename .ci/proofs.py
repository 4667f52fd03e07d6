#!/usr/bin/env python3
"""The proofs that passed, with their commits: the first table of docs/proofs.md.

    .ci/proofs.py record NAME COMMIT SECONDS STATUS LOG   write the row of a proof that was just run (used by `scripts/prove`)
    .ci/proofs.py stale                                   list the proofs whose watched paths changed since they last passed
    .ci/proofs.py left                                    list the proofs that have not passed on this commit
    .ci/proofs.py check                                   check that the table has exactly the rows of `scripts/prove --list`
    .ci/proofs.py write                                   the same, and add missing rows and drop those of removed proofs

A proof's figures are the lines of its output that begin with `figure: `.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/proofs.md"
FIRST, LAST = "<!-- results: written by .ci/proofs.py -->", "<!-- /results -->"
HEAD = "| proof | shows | commit | date | seconds | result |"


def main():
    match sys.argv[1:]:
        case ["record", name, commit, seconds, status, log]:
            record(name, commit, int(seconds), int(status), Path(log))
        case ["stale"]:
            print_stale()
        case ["left"]:
            head = commit_of("HEAD")
            print("".join(f"{name}\n" for name in known() if not passed_on(rows().get(name), head)), end="")
        case ["check"]:
            if set(rows()) != set(known()):
                sys.exit(f".ci/proofs.py: docs/proofs.md and `scripts/prove --list` differ: {sorted(set(rows()) ^ set(known()))}; run .ci/proofs.py write")
            print(f"{len(rows())} proofs have a row in docs/proofs.md")
        case ["write"]:
            write(rows())
        case _:
            sys.exit(__doc__)


def said(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def known():
    """Returns the watched paths and the meaning of every proof, in their order."""
    lines = (line.split("\t") for line in said("scripts/prove", "--list").splitlines())
    return {name: (watched.split(), shows) for name, watched, shows in lines}


def rows():
    """Returns the table: for each proof its commit, date, seconds and result."""
    table = PAGE.read_text().split(FIRST, 1)[1].split(LAST, 1)[0]
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:])
    return {cell[0]: cell[2:6] for cell in cells}


def write(table):
    lines = [HEAD, "|---|---|---|---|---|---|"]
    for name, (_, shows) in known().items():
        commit, date, seconds, result = table.get(name, ["", "", "", "never run in this form"])
        lines.append(f"| {name} | {shows} | {commit} | {date} | {seconds} | {result} |")
    head, rest = PAGE.read_text().split(FIRST, 1)
    PAGE.write_text(head + FIRST + "\n" + "\n".join(lines) + "\n" + LAST + rest.split(LAST, 1)[1])


def record(name, commit, seconds, status, log):
    marked = [line.split("figure: ", 1)[1] for line in log.read_text(errors="replace").splitlines() if "figure: " in line]
    figures = "; ".join(line.strip().rstrip(".").replace("|", "/") for line in marked)
    result = "passed" if status == 0 else "FAILED"
    table = rows()
    table[name] = [commit, time.strftime("%Y-%m-%d", time.gmtime()), str(seconds), f"{result}: {figures}" if figures else result]
    write(table)


def commit_of(name):
    return said("git", "rev-parse", "--short", name)


def passed_on(row, commit):
    return row is not None and row[0] == commit and row[3].startswith("passed")


def print_stale():
    table, stale = rows(), []
    for name, (watched, _) in known().items():
        commit, date, _, result = table[name]
        if not result.startswith("passed"):
            stale.append(f"{name} ({'failed on ' + date if date else 'never run'})")
            continue
        changed = subprocess.run(["git", "diff", "--quiet", commit.rstrip("+"), "HEAD", "--", *watched], cwd=ROOT, capture_output=True)
        if changed.returncode != 0:
            stale.append(f"{name} (passed on {date})")
    print(f"\n== {len(stale)} of {len(table)} proofs are stale: a path that they watch has changed since they last passed (scripts/prove NAME)")
    for line in stale:
        print(f"   {line}")


if __name__ == "__main__":
    main()
