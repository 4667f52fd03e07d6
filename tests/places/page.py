"""docs/guide/places.md: which ordinary command does its work in which place, and what is weaker there."""

import hashlib
import json
import os
import re
import subprocess
import time
from pathlib import Path

import commands

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/places.md"
KEPT = Path(__file__).resolve().parent / "kept.json"
FIRST, LAST = "<!-- places: written by scripts/places write -->", "<!-- /places -->"
WORDS = {"ok": "ok", "ok after a question": "ok, asked", "asked": "asked", "denied": "denied", "absent": "–", "refused": "**refused**", "wrong": "**no**"}
# Tables of places that are read together.
GROUPS = [
    ("Users", ("user", "root", "no-namespaces", "root-no-namespaces", "no-home")),
    ("Containers", ("container-user", "container-root", "privileged-user", "privileged-root")),
    ("Repositories, homes and names", ("worktree", "submodule", "package", "home-var-tmp", "home-deep", "home-workspace", "names")),
    ("File systems", ("overlay", "root-overlay", "full-disk")),
]
NAMES = {"init": "`byleave init`", "doctor": "`byleave doctor`"}
NAMES |= {command.name: command.what for command in commands.COMMANDS}
NAMES |= {name: what for name, what, _ in commands.BOMBS}
NAMES |= {"escapes": "attempts to escape"}
NAMES |= {"full": "what a full disk is told", "space": "with space again"}


def known():
    """Returns the cells, as place and command, of which the page says that they do not work."""
    return {(row["name"], cell["name"]) for row in kept().values() for cell in row["cells"] if cell["result"] in ("refused", "wrong")}


def kept():
    """Returns the results that are kept, by place."""
    return {row["name"]: row for row in json.loads(KEPT.read_text())} if KEPT.exists() else {}


def keep(rows, order):
    """Keeps results in the place of earlier ones."""
    said = lambda *words: subprocess.run(words, capture_output=True, text=True, cwd=PAGE.parent).stdout.strip()
    # The program, and not the commit of the checkout: it may have been built from another one.
    program = hashlib.sha256((Path(os.environ["BYLEAVE_BUILT"]) / "byleave").read_bytes()).hexdigest()[:8]
    when = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "program": program, "kernel": said("uname", "-r").split("-")[0],
            "load": round(os.getloadavg()[2])}
    found = kept()
    for row in rows:
        cells = [{key: value for key, value in cell.items() if key not in ("asked", "said")} for cell in row["cells"]]
        doctor = {key: value for key, value in (row["doctor"] or {}).items() if key in ("code", "level", "weaker", "bad")}
        found[row["name"]] = row | when | {"cells": cells, "doctor": doctor}
    KEPT.write_text(json.dumps([found[name] for name in order if name in found], indent=0, ensure_ascii=False) + "\n")


def write():
    head, rest = PAGE.read_text().split(FIRST, 1)
    PAGE.write_text(head + FIRST + "\n" + tables(kept()) + LAST + rest.split(LAST, 1)[1])


def tables(rows):
    cells = [cell for row in rows.values() for cell in row["cells"] if cell["result"] != "absent"]
    good = [cell for cell in cells if cell["result"] not in ("refused", "wrong")]
    kernels = ", ".join(sorted({row["kernel"] for row in rows.values()}))
    lines = [f"Written by `scripts/places write`, on Linux {kernels}: {len(good)} of {len(cells)} runs in {len(rows)} places do what they should.", ""]
    for title, names in GROUPS:
        there = [rows[name] for name in names if name in rows]
        if there:
            lines += [f"### {title}", ""] + table(there) + [""]
    lines += ["### What does not work", "", "| place | command | | what is said |", "|---|---|---|---|"]
    for row in rows.values():
        for cell in row["cells"]:
            if cell["result"] in ("refused", "wrong"):
                lines.append(f"| `{row['name']}` | `{cell['name']}` | {WORDS[cell['result']].strip('*')} | {plain(cell['why'])} |")
    notes = [f"- `{row['name']}`: {plain(note)}" for row in rows.values() for note in row["notes"]]
    return "\n".join(lines + ([""] + notes if notes else [])) + "\n"


def table(rows):
    lines = ["| | " + " | ".join(row["what"] for row in rows) + " |", "|---|" + "---|" * len(rows)]
    lines.append("| place | " + " | ".join(f"`{row['name']}`" for row in rows) + " |")
    lines.append("| run on | " + " | ".join(f"{row['date']}, `{row['program']}`" for row in rows) + " |")
    lines.append("| backend | " + " | ".join(str((row["doctor"] or {}).get("level") or "none") for row in rows) + " |")
    lines.append("| not in full | " + " | ".join(", ".join(f"`{one}`" for one in (row["doctor"] or {}).get("weaker", [])) or "" for row in rows) + " |")
    for name, what in NAMES.items():
        found = [next((cell for cell in row["cells"] if cell["name"] == name), None) for row in rows]
        if any(found):
            lines.append(f"| {what} | " + " | ".join(word(cell) for cell in found) + " |")
    return lines


def word(cell):
    if cell is None:
        return ""
    if cell["kind"] == "escapes" and cell["result"] != "refused":
        return f"{cell['held']} of {cell['of']} held"
    if cell["kind"] == "bomb" and cell["result"] == "ok":
        return f"ended, {cell['seconds']} s"
    return WORDS[cell["result"]]


def plain(text):
    """Returns text of programs as it can be in a cell of a table: one line, without paths that change."""
    text = re.sub(r"/tmp/[\w./-]+", "/tmp/…", " ".join(text.split()))
    text = re.sub(r"\b[0-9a-f]{12,}\b", "…", text)
    return text.replace("|", "\\|").replace("<", "&lt;")[:300]
