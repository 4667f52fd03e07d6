"""The way of a call, as a picture: writes way.svg to standard output.

    python3 docs/book/way.py > docs/book/way.svg      # or: scripts/book write

The words are in ROWS; everything else is where they stand.
"""

from xml.sax.saxutils import escape

# The stages of a call: what each is called, what it asks or does, and when it ends in a refusal.
THERE = [
    ("call", ["an agent wants", "to use a tool"], "no such tool,|wrong arguments"),
    ("effects", ["what would it run,", "read, write, delete,", "reach?"], "cannot be|worked out"),
    ("decision", ["rules on effects:", "allow, ask or deny;", "the strictest wins"], "denied"),
    ("review", ["reviewers look at", "the arguments, and", "may change them"], "a reviewer|objects, or breaks"),
    ("rehearsal", ["where it would ask:", "it runs on a copy,", "and is evaluated again"], "what it did|is denied"),
]
# From right to left, beneath.
BACK = [
    ("question", ["a person sees what", "it really did: yes,", "no, edit, or always"], "no, or|no answer"),
    ("run, once", ["written down first;", "programs run in", "the sandbox"], "changed since,|halted"),
    ("review", ["reviewers look at", "the result; it may", "be held for a person"], None),
    ("result", ["completed, failed, refused,", "answered, withheld,", "dry-run, unknown"], None),
]
BOOK = ["the audit log", "every step is an entry, chained and sealed; what cannot be recorded does not happen;", "a process may stop at any of them, and another goes on from what is written"]

WIDTH, HEIGHT = 800, 436
BOX, TALL, GAP = 140, 92, 20
INK, PALE, LINE, NO = "#1b1f24", "#f4f6f8", "#57606a", "#a40e26"
TOP, BAND, BELOW, SHELF = 14, 168, 236, 366


def left(column):
    return 10 + column * (BOX + GAP)


def text(x, y, words, size=12.5, weight="normal", fill=INK, anchor="middle"):
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}">{escape(words)}</text>'


def box(column, y, name, lines):
    x = left(column)
    yield f'<rect x="{x}" y="{y}" width="{BOX}" height="{TALL}" rx="6" fill="{PALE}" stroke="{LINE}"/>'
    yield text(x + BOX / 2, y + 22, name, 15, "bold")
    for number, line in enumerate(lines):
        yield text(x + BOX / 2, y + 43 + number * 16, line)


def arrow(x1, y1, x2, y2, no=False):
    colour, mark = (NO, "no") if no else (LINE, "on")
    dash = ' stroke-dasharray="4 3"' if no else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="1.5"{dash} marker-end="url(#{mark})"/>'


def why(x, y, words):
    for number, line in enumerate(words.split("|")):
        yield text(x, y + number * 13, line, 11, fill=NO, anchor="start")


def picture():
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" font-family="Helvetica, Arial, sans-serif" role="img">'
    yield "<title>The way of a call: effects, decision, review, rehearsal, question, one run, review, result; every step in the audit log</title>"
    yield "<!-- Made by docs/book/way.py; do not edit. -->"
    yield "<defs>"
    for mark, colour in (("on", LINE), ("no", NO)):
        yield f'<marker id="{mark}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
    yield "</defs>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'

    last = len(THERE) - 1
    for column, (name, lines, no) in enumerate(THERE):
        yield from box(column, TOP, name, lines)
        if column < last:
            yield arrow(left(column) + BOX, TOP + TALL / 2, left(column + 1) - 1, TOP + TALL / 2)
        if no:
            yield arrow(left(column) + 20, TOP + TALL, left(column) + 20, BAND - 1, no=True)
            yield from why(left(column) + 27, TOP + TALL + 24, no)

    band = left(last) + 60 - 10
    yield f'<rect x="10" y="{BAND}" width="{band}" height="26" rx="13" fill="#fff1f2" stroke="{NO}"/>'
    yield text(10 + band / 2, BAND + 17.5, "refused: nothing has changed; a code, the reason, and a page that says what to do", 12.5, fill=NO)

    # Down on the right, and back.
    yield arrow(left(last) + 105, TOP + TALL, left(last) + 105, BELOW - 1)
    for step, (name, lines, no) in enumerate(BACK):
        column = last - step
        yield from box(column, BELOW, name, lines)
        if step < len(BACK) - 1:
            yield arrow(left(column), BELOW + TALL / 2, left(column - 1) + BOX + 1, BELOW + TALL / 2)
        if no:
            yield arrow(left(column) + 20, BELOW, left(column) + 20, BAND + 27, no=True)
            yield from why(left(column) + 27, BAND + 44, no)

    # What a rule allows is not asked about.
    yield text(left(0) + BOX / 2, BELOW + 26, "what rules allow", 12, fill=LINE)
    yield text(left(0) + BOX / 2, BELOW + 42, "asks nobody;", 12, fill=LINE)
    yield text(left(0) + BOX / 2, BELOW + 58, "what they deny,", 12, fill=LINE)
    yield text(left(0) + BOX / 2, BELOW + 74, "nobody can allow", 12, fill=LINE)

    for column in range(1, last + 1):
        x = left(column) + BOX / 2
        yield f'<line x1="{x}" y1="{BELOW + TALL}" x2="{x}" y2="{SHELF}" stroke="{LINE}" stroke-width="1"/>'
    yield f'<rect x="10" y="{SHELF}" width="{WIDTH - 20}" height="62" rx="6" fill="{INK}"/>'
    yield text(WIDTH / 2, SHELF + 21, BOOK[0], 15, "bold", "#ffffff")
    yield text(WIDTH / 2, SHELF + 38, BOOK[1], 12, fill="#ffffff")
    yield text(WIDTH / 2, SHELF + 53, BOOK[2], 12, fill="#ffffff")
    yield "</svg>"


print("\n".join(picture()))
