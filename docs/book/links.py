"""Checks a built book: every link and anchor in its pages leads somewhere.

    python3 docs/book/links.py DIRECTORY ROOT

DIRECTORY is where mdBook has put the book, ROOT the checkout: links into the repository must name what is there. Other addresses of
the web are not looked at.
"""

import html.parser
import os
import re
import sys
import urllib.parse

IN_REPOSITORY = re.compile(r"https://github\.com/byleave/byleave/(?:blob|tree)/main/([^#?]+)")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            elif name in ("href", "src") and value and tag in ("a", "img", "link", "script"):
                self.links.append(value)


def fault(page, link, pages, book, root):
    """What is wrong with a link of a page, if anything is."""
    inside = IN_REPOSITORY.match(link)
    if inside:
        there = os.path.exists(os.path.join(root, urllib.parse.unquote(inside.group(1))))
        return None if there else "names nothing in the repository"
    if re.match(r"[a-z]+:|//", link):
        return None
    path, _, anchor = link.partition("#")
    path = urllib.parse.unquote(path.partition("?")[0])
    target = page if not path else os.path.normpath(os.path.join(os.path.dirname(page), path))
    if target.startswith(".."):
        return "leads out of the book"
    if not os.path.isfile(os.path.join(book, target)):
        return "leads nowhere"
    if anchor and target in pages and urllib.parse.unquote(anchor) not in pages[target].ids:
        return "names no heading"
    return None


def main():
    book, root = sys.argv[1:3]
    pages = {}
    for directory, _, files in os.walk(book):
        for file in files:
            # The page for what was not found is served under any address; its links are of another kind. The list of chapters is in every page.
            if file.endswith(".html") and file not in ("404.html", "toc.html"):
                path = os.path.relpath(os.path.join(directory, file), book)
                pages[path] = Page(os.path.join(book, path))
    checked, bad = 0, 0
    for page in sorted(pages):
        for link in pages[page].links:
            checked += 1
            wrong = fault(page, link, pages, book, root)
            if wrong:
                bad += 1
                print(f"{page}: `{link}` {wrong}")
    print(f"{checked} links in {len(pages)} pages checked")
    sys.exit(1 if bad else 0)


main()
