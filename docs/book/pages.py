"""Writes what is generated in the book, or says what is stale.

    BYLEAVE=PROGRAM python3 docs/book/pages.py write|check

commands.md is what the program says of its commands, settings.md what it says of its settings, and in docs/SUMMARY.md the chapters of
tools and refusals are those that their indexes list. way.svg is made by way.py. `check` names the first difference.
"""

import difflib
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.dirname(HERE)
WRITTEN = "<!-- Written by `scripts/book write` from what the program says; do not edit. -->"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Program:
    """The program, in a home directory with nothing in it."""

    def __init__(self, home):
        self.home = home

    def says(self, *words):
        done = self.run(*words, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"`byleave {shlex.join(words)}` ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def edits(self, editor):
        """`config edit`, which wants a terminal."""
        ours, theirs = pty.openpty()
        try:
            if self.run("config", "edit", stdin=theirs, stdout=theirs, stderr=theirs, VISUAL=editor).returncode != 0:
                sys.exit(f"`byleave config edit` failed: {os.read(ours, 65536).decode().strip()}")
        finally:
            os.close(theirs)
            os.close(ours)

    def run(self, *words, VISUAL="false", **streams):
        environment = {"HOME": self.home, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "VISUAL": VISUAL}
        return subprocess.run([os.environ["BYLEAVE"], *words], env=environment, cwd=self.home, text=True, timeout=60, check=False, **streams)


def helps(program):
    """Every command with its help, each before its subcommands. The manual pages list the commands, also those that `--help` hides."""
    for page in json.loads(program.says("man", "--json")):
        words = tuple(page["command"])
        yield words, program.says(*words, "--help")


def own(said):
    """A help text without what stands in every other one."""
    said = said.split("\nOptions for every command:\n")[0]
    said = re.sub(r"^  -h, --help(?:  .*|\n +Print help.*)\n?", "", said, flags=re.MULTILINE)
    return re.sub(r"\n*^Options:\n*\Z", "", said, flags=re.MULTILINE)


def commands(program):
    yield "# Commands\n"
    yield WRITTEN + "\n"
    yield "The help text of every command. [Exit codes](exit-codes.md) are the same for all commands. `byleave man` prints manual pages,"
    yield "and `byleave completions` generates shell completions. The options for every command are at the end of [byleave](#byleave).\n"
    every = list(helps(program))
    for words, _ in every:
        if len(words) == 1:
            name = words[0]
            beneath = [f"[`{other[1]}`](#byleave-{name}-{other[1]})" for other, _ in every if len(other) == 2 and other[0] == name]
            yield f"- [`byleave {name}`](#byleave-{name})" + (": " + ", ".join(beneath) if beneath else "")
    for words, said in every:
        level = "##" if len(words) < 2 else "###"
        yield f"\n{level} byleave {' '.join(words)}".rstrip() + "\n"
        yield "```text"
        yield "\n".join(line.rstrip() for line in (own(said) if words else said).strip("\n").split("\n"))
        yield "```"


def defaults(program):
    """The file of the defaults as (name, value, what it does), from what `config edit` begins with."""
    with tempfile.TemporaryDirectory() as place:
        kept = os.path.join(place, "kept")
        editor = os.path.join(place, "editor")
        with open(editor, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\ncat "$1" > {shlex.quote(kept)}\n')
        os.chmod(editor, 0o700)
        program.edits(editor)
        lines = read(kept).split("\n")
    words = []
    for line in lines:
        setting = re.fullmatch(r"#? ?([a-z_]+) = (.+)", line)
        if setting:
            yield setting.group(1), setting.group(2), " ".join(words)
            words = []
        elif line.startswith("#") and line.strip("# "):
            words.append(line.lstrip("# ").strip())
        else:
            words = []


def settings(program):
    yield "# Settings\n"
    yield WRITTEN + "\n"
    yield "Every setting with its default. [Where they come from](../guide/settings.md) says which file, variable or flag counts, and what a project may"
    yield "set; `byleave config` shows what holds where you are. What policy files can say is under [every key](../policy.md#every-key).\n"
    yield "| setting | default | variable | what it does |"
    yield "|---|---|---|---|"
    shown = json.loads(program.says("config", "show", "--json"))
    rows = list(defaults(program))
    names = sorted(names_of(shown))
    if names != sorted(name for name, _, _ in rows):
        sys.exit(f"`config show` has the settings {', '.join(names)}, `config edit` another list: {', '.join(name for name, _, _ in rows)}")
    for name, value, what in rows:
        yield f"| `{name}` | `{value}` | `BYLEAVE_{name.upper()}` | {what.replace('|', chr(92) + '|')} |"


def names_of(shown):
    listed = shown["settings"] if isinstance(shown, dict) and "settings" in shown else shown
    return [each["name"] for each in listed] if isinstance(listed, list) else list(listed)


def chapters(directory):
    """The pages that the index of a directory lists, in its order, each once."""
    index = read(os.path.join(DOCS, directory, "README.md"))
    names = list(dict.fromkeys(re.findall(r"\]\(([a-z_-]+)\.md\)", index)))
    there = {name[:-3] for name in os.listdir(os.path.join(DOCS, directory)) if name.endswith(".md") and name != "README.md"}
    if set(names) != there:
        sys.exit(f"docs/{directory}/README.md does not list what is there: {', '.join(sorted(set(names) ^ there))}")
    return [f"  - [{name}]({directory}/{name}.md)" for name in names]


def summary():
    text = read(os.path.join(DOCS, "SUMMARY.md"))
    for directory in ("tools", "refusals"):
        marked = re.compile(rf"(<!-- {directory}: [^\n]*-->\n).*?( *<!-- /{directory} -->)", re.DOTALL)
        if not marked.search(text):
            sys.exit(f"docs/SUMMARY.md has no part marked `<!-- {directory}: … -->` to `<!-- /{directory} -->`; put the marks back")
        text = marked.sub(lambda found, lines=chapters(directory): found.group(1) + "\n".join(lines) + "\n" + found.group(2), text)
    return text


def unnamed(text):
    """Pages in docs/ that are no chapter."""
    for directory, directories, files in os.walk(DOCS):
        directories.sort()
        for file in sorted(files):
            path = os.path.relpath(os.path.join(directory, file), DOCS)
            if file.endswith(".md") and path != "SUMMARY.md" and f"]({path})" not in text:
                yield path


def generated():
    with tempfile.TemporaryDirectory() as home:
        program = Program(home)
        yield os.path.join(HERE, "commands.md"), "\n".join(commands(program)) + "\n"
        yield os.path.join(HERE, "settings.md"), "\n".join(settings(program)) + "\n"
    yield os.path.join(DOCS, "SUMMARY.md"), summary()
    drawn = subprocess.run([sys.executable, os.path.join(HERE, "way.py")], capture_output=True, text=True, check=True).stdout
    yield os.path.join(HERE, "way.svg"), drawn


def main():
    writing = sys.argv[1:] == ["write"]
    for path, text in generated():
        name = os.path.relpath(path, os.path.dirname(DOCS))
        old = read(path) if os.path.exists(path) else ""
        if old == text:
            continue
        if writing:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            print(f"{name}: written")
            continue
        difference = list(difflib.unified_diff(old.split("\n"), text.split("\n"), f"{name} as it is", f"{name} as it should be", n=1, lineterm=""))
        print("\n".join(difference[:20]))
        sys.exit(f"{name} is stale; write it anew: scripts/book write")
    for path in unnamed(read(os.path.join(DOCS, "SUMMARY.md"))):
        sys.exit(f"docs/{path} is no chapter of the book; name it in docs/SUMMARY.md")


main()
