#!/usr/bin/env python3
"""The duration of a `.ci/run`.

    .ci/times.py print TIMES JUNIT cold|warm SECONDS   print the table of the run that just ended (used by `.ci/run`)
    .ci/times.py table TIMES                           print only the table (used by `.ci/nightly`)
    .ci/times.py keep                                  add the last run to docs/dev/ci-runs.tsv and write the tables of docs/dev/ci.md

TIMES has a line per step: name, `compile` or `run`, seconds, `passed` or `FAILED`. JUNIT is nextest's report.
"""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("BYLEAVE_CI_CACHE", Path.home() / ".cache/byleave-ci"))
LAST = CACHE / "last-run-kept.tsv"
RUNS = ROOT / "docs/dev/ci-runs.tsv"
PAGE = ROOT / "docs/dev/ci.md"
SLOWEST = 40


def main():
    match sys.argv[1:]:
        case ["print", times, junit, start, seconds]:
            print_run(Path(times), Path(junit), start, int(seconds))
        case ["table", times]:
            print_table(read(Path(times)))
        case ["keep"]:
            keep()
        case _:
            sys.exit(__doc__)


def print_run(times, junit, start, seconds):
    rows, tests, machine = read(times), slowest(junit), reference()
    print_table(rows)
    print(f"{'all, ' + start:<18}{'':>10}{seconds:>8}")
    print(f"this machine: {machine} ms for a fixed computation")
    if tests:
        print(f"\n== the {len(tests)} slowest tests, in seconds")
        for took, name in tests:
            print(f"{took:>8.1f}  {name}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    date = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    passed = bool(rows) and all(row[3] == "passed" for row in rows)
    lines = [[date, commit, start, name, kind, took] for name, kind, took, _ in rows]
    lines.append([date, commit, start, "all", "run", str(seconds)])
    lines.append([date, commit, start, "machine", "ms", str(machine)])
    lines += [[date, commit, start, name, "test", f"{took:.1f}"] for took, name in tests]
    LAST.write_text("".join("\t".join(line) + "\n" for line in lines) if passed else "")


def reference():
    """Returns the milliseconds of a fixed computation, the median of five. It shows the speed of this machine, to compare runs."""

    def once():
        began, total = time.perf_counter(), 0
        for number in range(2_000_000):
            total += number * number % 7
        return round((time.perf_counter() - began) * 1000)

    return sorted(once() for _ in range(5))[2]


def read(times):
    return [line.split("\t") for line in times.read_text().splitlines()]


def print_table(rows):
    print(f"\n{'step':<18}{'compile s':>10}{'run s':>8}  result")
    for name, (compiled, ran, result) in merged(rows).items():
        print(f"{name:<18}{shown(compiled):>10}{shown(ran):>8}  {result}")


def merged(rows):
    """Returns each step's compile seconds, run seconds and result, in the order of the run."""
    steps = {}
    for name, kind, took, result in rows:
        compiled, ran, before = steps.get(name, (None, None, "passed"))
        if kind == "compile":
            compiled = (compiled or 0) + int(took)
        else:
            ran = (ran or 0) + int(took)
        steps[name] = compiled, ran, result if before == "passed" else before
    return steps


def slowest(junit):
    if not junit.exists():
        return []
    cases = xml.etree.ElementTree.parse(junit).getroot().iter("testcase")
    named = [(float(case.get("time", 0)), f"{case.get('classname')} {case.get('name')}") for case in cases]
    return sorted(named, reverse=True)[:SLOWEST]


def shown(seconds):
    return "" if seconds is None else str(seconds)


def keep():
    """Keeps the last three runs of each kind, the slowest tests of the newest one, and writes the page."""
    fresh = LAST.read_text() if LAST.exists() else ""
    if not fresh:
        sys.exit(".ci/times.py: the last run did not pass, so there is nothing to keep")
    known = RUNS.read_text() if RUNS.exists() else ""
    lines = [line.split("\t") for line in (known + ("" if fresh in known else fresh)).splitlines()]
    runs = []
    for date, commit, start, *_ in lines:
        if (date, commit, start) not in runs:
            runs.append((date, commit, start))
    kept = [run for kind in ("cold", "warm") for run in [run for run in runs if run[2] == kind][-3:]]
    newest = {kind: [run for run in kept if run[2] == kind][-1:] for kind in ("cold", "warm")}
    lines = [line for line in lines if tuple(line[:3]) in kept and (line[4] != "test" or tuple(line[:3]) in newest["warm"])]
    RUNS.write_text("".join("\t".join(line) + "\n" for line in lines))
    text = PAGE.read_text()
    text = between(text, "runs", "\n".join(tables(lines, kept)))
    text = between(text, "slowest", "\n".join(slow_table(lines)))
    PAGE.write_text(text)
    print(f".ci/times.py: {len(kept)} runs are in {PAGE.relative_to(ROOT)}")


def tables(lines, kept):
    for kind in ("cold", "warm"):
        runs = [run for run in kept if run[2] == kind]
        if not runs:
            continue
        yield f"### {kind.capitalize()}"
        yield ""
        heads = [f"{date}, `{commit}`" for date, commit, _ in runs]
        yield "| step | " + " | ".join(heads) + " |"
        yield "|---|" + "---|" * len(runs)
        names = []
        for line in lines:
            if line[2] == kind and line[4] != "test" and (line[3], line[4]) not in names:
                names.append((line[3], line[4]))
        names.sort(key=lambda name: ("all", "machine").index(name[0]) + 1 if name[0] in ("all", "machine") else 0)
        for name, what in names:
            cells = []
            for run in runs:
                took = [line[5] for line in lines if tuple(line[:3]) == run and (line[3], line[4]) == (name, what)]
                cells.append(took[0] if took else "")
            title = {"all": "**all**", "machine": "a fixed computation, ms"}.get(name, f"{name}, {what}")
            yield f"| {title} | " + " | ".join(cells) + " |"
        yield ""


def slow_table(lines):
    tests = [line for line in lines if line[4] == "test"]
    if tests:
        yield "| seconds | test |"
        yield "|---|---|"
        for line in tests:
            yield f"| {line[5]} | `{line[3]}` |"


def between(text, name, new):
    first, last = f"<!-- {name}: written by .ci/times.py keep -->", f"<!-- /{name} -->"
    head, rest = text.split(first, 1)
    return head + first + "\n" + new.strip() + "\n" + last + rest.split(last, 1)[1]


if __name__ == "__main__":
    main()
