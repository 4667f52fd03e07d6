"""Draws the charts of docs/performance.md and docs/security/scores.md from their tables, and looks whether the pages have the form that the
measuring commands write.

    python3 docs/charts/draw.py write    draw the charts, and put each behind its table
    python3 docs/charts/draw.py check    fail where a chart is not what its table says, or a table was not written by a command

A chart of performance shows ratios, for those are what can be compared between machines: a bar a row on a logarithmic scale, a mark where the bar is
that was asked for. A chart of scores shows parts of a whole. Standard library only.
"""

import math
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "performance.md"
SCORES = HERE.parent / "security" / "scores.md"
# Of the scores, by the part of the page: the head of the table that is drawn, the column of the whole, and the columns that are parts of it,
# the larger first, with what each is called.
PARTS = {
    "escapes": (["", "held", "of"], "of", {"held": "held"}),
    "rehearsal": (
        ["class", "commands", "by text", "asked", "otherwise", "asked under `careful`"],
        "commands",
        {5: "asked about under careful", 3: "asked about under everyday"},
    ),
}
SHADES = ["#2e7d32"], ["#d9a441", "#8e2f2f"]
BLOCK = re.compile(r"<!-- (\w+) -->\n(.*?)<!-- /\1 -->\n", re.S)
WRITTEN = re.compile(r"^Written by `([^`]+)` on (\d{4}-\d\d-\d\d \d\d:\d\d) UTC, .+, rustc .+\.$", re.M)
# The column that is drawn, by the first of these that a table has, and what it is called.
COLUMNS = ["ratio", "ratio to git", "ratio to /bin/true", "p50, to the bare proxy", "share"]
LABEL, WIDE, ROW, TOP = 430, 860, 22, 34


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(text):
    """The head and the rows of the first table with a column of ratios."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    if len(lines) < 3:
        return None
    head = cells(lines[0])
    column = next((name for name in COLUMNS if name in head), None)
    return (head, column, [cells(line) for line in lines[2:]]) if column else None


def number(text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)", text)
    return float(found[1]) if found else None


def bound(text):
    """What was asked for, where it is a plain ratio."""
    found = re.match(r"([≤≥]) (\d+(?:\.\d+)?)(?=$|,)", text) or re.search(r", ([≤≥]) (\d+(?:\.\d+)?)$", text)
    return (found[1], float(found[2])) if found else None


def rows(head, column, body):
    at, bar = head.index(column), head.index("bar") if "bar" in head else None
    for row in body:
        value = number(row[at])
        if not value:
            continue
        label = ": ".join(row[:2]) if head[1] == "way" else row[0]
        yield label.replace("`", ""), value, bound(row[bar]) if bar is not None and bar < len(row) else None


def frame(tall):
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE}" height="{tall}" viewBox="0 0 {WIDE} {tall}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDE}" height="{tall}" fill="#ffffff"/>',
    ]


def beside(label, y):
    label = label if len(label) < 66 else label[:64] + "…"
    return f'<text x="{LABEL - 8}" y="{y + 12}" text-anchor="end" fill="#222222">{escape(label)}</text>'


def chart(column, drawn):
    values = [value for _, value, _ in drawn] + [asked[1] for *_, asked in drawn if asked] + [1.0]
    low, high = math.log10(min(values) / 1.3), math.log10(max(values) * 1.3)
    place = lambda value: LABEL + (math.log10(value) - low) / (high - low) * (WIDE - LABEL - 60)
    tall = TOP + ROW * len(drawn) + 12
    out = [*frame(tall), f'<text x="{LABEL}" y="16" fill="#555555">{escape(column)}, logarithmic; a mark is what was asked for</text>']
    one = place(1.0)
    out.append(f'<line x1="{one:.1f}" y1="{TOP - 8}" x2="{one:.1f}" y2="{tall - 8}" stroke="#bbbbbb" stroke-dasharray="3 3"/>')
    for nth, (label, value, asked) in enumerate(drawn):
        y = TOP + ROW * nth
        holds = asked is None or (value <= asked[1] if asked[0] == "≤" else value >= asked[1])
        colour = "#888888" if asked is None else "#2e7d32" if holds else "#c62828"
        start, end = sorted((one, place(value)))
        out.append(beside(label, y))
        out.append(f'<rect x="{start:.1f}" y="{y + 2}" width="{max(end - start, 1.5):.1f}" height="12" fill="{colour}"/>')
        x = place(asked[1]) if asked else one
        if asked:
            out.append(f'<line x1="{x:.1f}" y1="{y - 1}" x2="{x:.1f}" y2="{y + 17}" stroke="#111111" stroke-width="2"/>')
        out.append(f'<text x="{max(end, one, x) + 5:.1f}" y="{y + 12}" fill="#222222">{value:g}</text>')
    return "\n".join(out) + "\n</svg>\n"


def whole_and_parts(text, head, whole, parts):
    """The rows of the table with this head: a label, the whole, and its parts."""
    lines = text.splitlines()
    first = next((nth for nth, line in enumerate(lines) if line.startswith("|") and cells(line) == head), None)
    if first is None:
        return
    columns = [name if isinstance(name, int) else head.index(name) for name in parts]
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            return
        row = cells(line)
        if not row[0].startswith("**"):
            yield row[0].replace("`", ""), int(row[head.index(whole)]), [int(row[column]) for column in columns]


def score_chart(parts, drawn):
    shades = SHADES[len(parts) - 1]
    most = max(count for _, count, _ in drawn)
    place = lambda count: count / most * (WIDE - LABEL - 90)
    tall = TOP + ROW * len(drawn) + 12
    out = frame(tall)
    x = LABEL if len(parts) == 1 else LABEL - 110
    for shade, name in zip(shades, parts.values()):
        out.append(f'<rect x="{x}" y="7" width="10" height="10" fill="{shade}"/><text x="{x + 15}" y="16" fill="#555555">{escape(name)}</text>')
        x += 32 + 6 * len(name)
    out.append(f'<rect x="{x}" y="7" width="10" height="10" fill="#dddddd"/><text x="{x + 15}" y="16" fill="#555555">all</text>')
    for nth, (label, count, held) in enumerate(drawn):
        y = TOP + ROW * nth
        out.append(beside(label, y))
        out.append(f'<rect x="{LABEL}" y="{y + 2}" width="{place(count):.1f}" height="12" fill="#dddddd"/>')
        for shade, part in zip(shades, held):
            out.append(f'<rect x="{LABEL}" y="{y + 2}" width="{place(part):.1f}" height="12" fill="{shade}"/>')
        said = " → ".join(str(part) for part in held)
        out.append(f'<text x="{LABEL + place(count) + 5:.1f}" y="{y + 12}" fill="#222222">{said} of {count}</text>')
    return "\n".join(out) + "\n</svg>\n"


def stood(how, page, name, svg, picture, wrong):
    """The page with the chart of a part behind it, drawn where that is wanted; else what is not so is added to what is wrong."""
    path, shown = HERE / f"{name}.svg", f"<!-- /{name} -->\n\n{picture}\n"
    if how == "write":
        path.write_text(svg)
        return page if shown in page else page.replace(f"<!-- /{name} -->\n", shown, 1)
    if not path.exists() or path.read_text() != svg:
        wrong.append(f"docs/charts/{name}.svg is not what the table of `{name}` says")
    if shown not in page:
        wrong.append(f"the chart of `{name}` does not stand behind its table")
    return page


def scores(how):
    """Draws or checks the charts of the scores; gives what is wrong."""
    page, wrong = SCORES.read_text(), []
    for name, (head, whole, parts) in PARTS.items():
        match = next((match for match in BLOCK.finditer(page) if match[1] == name), None)
        drawn = list(whole_and_parts(match[2], head, whole, parts)) if match else []
        if not drawn:
            wrong.append(f"docs/security/scores.md has no table of `{name}` to draw")
            continue
        legend = "; ".join(parts.values())
        page = stood(how, page, name, score_chart(parts, drawn), f"![{legend}: the table above, drawn](../charts/{name}.svg)", wrong)
    if how == "write":
        SCORES.write_text(page)
    return wrong


def main(how):
    page, wrong = PAGE.read_text(), scores(how)
    found = list(BLOCK.finditer(page))
    if not found:
        wrong.append("docs/performance.md has no table between marks")
    for match in found:
        name, text = match[1], match[2]
        if not WRITTEN.search(text):
            wrong.append(f"the part `{name}` does not say which command wrote it, when and on what")
        parsed = table(text)
        drawn = list(rows(*parsed)) if parsed else []
        if not drawn:
            continue
        page = stood(how, page, name, chart(parsed[1], drawn), f"![{parsed[1]}: the table above, drawn](charts/{name}.svg)", wrong)
    if how == "write":
        PAGE.write_text(page)
    for line in wrong:
        print(f"measure: {line}", file=sys.stderr)
    if wrong:
        sys.exit("measure: `scripts/measure charts` draws them anew; tables are written by the commands that they name, never by hand")
    print(f"measure: {len(found)} parts are as their commands wrote them, their charts are drawn")


if __name__ == "__main__":
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit(__doc__)
    main(sys.argv[1])
