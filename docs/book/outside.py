"""A preprocessor of mdBook: a link that leads out of docs/ leads to the repository instead, and the first page is the list of chapters.

On a code host `../crates/x.rs` is a file; in the book there is none. Only Markdown links outside code are looked at. The first page is
needed because mdBook shows the first chapter a second time as `index.html`, where links from its own directory would lead nowhere.
"""

import json
import os
import posixpath
import re
import sys

REPOSITORY = "https://github.com/byleave/byleave"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
CODE = re.compile(r"(`+)(?:(?!\1).)*\1")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def led_outside(target, chapter, root):
    """Where a link of a chapter leads in the repository, if that is outside docs/."""
    if re.match(r"[a-z]+:", target) or target.startswith("#"):
        return None
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(chapter), path))
    if path == "docs" or path.startswith("docs/"):
        return None
    kind = "tree" if os.path.isdir(os.path.join(root, path)) else "blob"
    return f"{REPOSITORY}/{kind}/main/{path}" + (f"#{anchor}" if anchor else "")


def rewritten(line, chapter, root):
    codes = [match.span() for match in CODE.finditer(line)]

    def one(match):
        # A link may have code in its words; its address never stands in code.
        if any(begin < match.start(2) < end for begin, end in codes):
            return match.group(0)
        return match.group(1) + (led_outside(match.group(2), chapter, root) or match.group(2)) + match.group(3)

    return LINK.sub(one, line)


def content(text, chapter, root):
    lines, fence = [], None
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence:
            if mark and mark.group(1).startswith(fence) and not line.strip(" `~"):
                fence = None
        elif mark:
            fence = mark.group(1)
        else:
            line = rewritten(line, chapter, root)
        lines.append(line)
    return "\n".join(lines)


def walk(items, root):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter.get("path"):
                chapter["content"] = content(chapter["content"], chapter["path"], root)
            walk(chapter["sub_items"], root)


def front(items):
    """The first page."""
    lines = ["# Byleave", "", "A gate between AI agents and the world: nothing happens but by your leave.", ""]
    for item in items:
        if isinstance(item, dict) and "PartTitle" in item:
            lines += ["", f"## {item['PartTitle']}", ""]
        elif isinstance(item, dict) and "Chapter" in item:
            chapter = item["Chapter"]
            lines.append(f"- [{chapter['name']}]({chapter['path']})")
    return {"name": "Byleave", "content": "\n".join(lines) + "\n", "number": None, "sub_items": [], "path": "index.md", "source_path": None, "parent_names": []}


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    root = os.path.join(context["root"], "../..")
    items = book["items"]
    walk(items, root)
    items.insert(0, {"Chapter": front(items)})
    json.dump(book, sys.stdout)


main()
