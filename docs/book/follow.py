"""Does what pages of the book say, and compares.

    python3 docs/book/follow.py recipes PAGE      every recipe of the cookbook
    python3 docs/book/follow.py page PAGE         the blocks of a page that are marked to be run

`byleave` is on the PATH, and HOME is a directory that may be filled: `scripts/book` sees to both.

A recipe is a heading with a number, words that say why, one `toml` block and one `console` block. The first line of the `toml` block is a
comment with the place of the file: `~/.config/byleave/policy.toml` or `.byleave/policy.toml`. Each recipe has a home and a project of its
own, with the file in its place; `byleave policy check` must find it right, every rule that is about something must bring examples, and the
console block is followed.

In a page, a `console` block is followed if `<!-- run -->` stands on the line before it. All blocks of a page are one shell, in order.

In a console block, a line with `$ ` is a command, and goes on in the lines after it that begin with `> `. Other lines are what it must put out: each must be a line
of the output, in this order, where `…` stands for anything; there may be more. A command must end with 0, or with N where `# exit code N` stands
behind it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import uuid

BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"# exit code (\d+)$")
EFFECTS = {"run", "read", "write", "delete", "touch", "reach", "send", "invoke", "tool", "mcp"}


class Wrong(Exception):
    """What a page says is not so."""


class Command:
    def __init__(self, text):
        self.text, self.shown = text, []
        found = EXIT.search(text)
        self.code = int(found.group(1)) if found else 0


def commands(block):
    found = []
    for line in block.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif not found:
            raise Wrong(f"a console block begins with `$ ` and a command, not with `{line}`")
        elif (line == ">" or line.startswith("> ")) and not found[-1].shown:
            found[-1].text += "\n" + line[2:]
        else:
            found[-1].shown.append(line.rstrip())
    return found


def followed(steps, cwd, seconds=600):
    """Runs commands in one shell, and compares what comes of each."""
    mark = uuid.uuid4().hex
    script = ["exec 2>&1 </dev/null"]
    for step in steps:
        # What comes after something that went wrong only hides it.
        script += [step.text, f"ended=$?; printf '\\n{mark} %d\\n' $ended; [ $ended = {step.code} ] || exit"]
    with tempfile.TemporaryFile("w+") as output:
        # A session of its own, so that whatever a page leaves running ends with it.
        shell = subprocess.Popen(["bash", "-c", "\n".join(script)], cwd=cwd, stdout=output, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            shell.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pass
        ended = shell.poll() is not None
        end(shell)
        output.seek(0)
        parts = re.split(rf"\n{mark} (\d+)\n", output.read())
    for number, step in enumerate(steps):
        if 2 * number + 1 >= len(parts):
            raise Wrong(f"`{step.text}` did not end" + ("" if ended else f" within {seconds} s") + f"; so far:\n{parts[-1]}")
        said, code = parts[2 * number], int(parts[2 * number + 1])
        if code != step.code:
            raise Wrong(f"`{step.text}` ended with {code}, and should with {step.code}:\n{said}")
        compare(step, said)


def end(shell):
    """Ends a shell and what it started: by a word, and if that does not help, by force."""
    for last in (signal.SIGTERM, signal.SIGKILL):
        for _ in range(50):
            shell.poll()
            try:
                os.killpg(shell.pid, last)
            except ProcessLookupError:
                return
            time.sleep(0.1)


def compare(step, said):
    lines = iter([line.rstrip() for line in said.split("\n")])
    for shown in step.shown:
        if shown in ("", "…"):
            continue
        wanted = re.compile(".*".join(re.escape(part) for part in shown.split("…")))
        if not any(wanted.fullmatch(line) for line in lines):
            raise Wrong(f"`{step.text}` does not say `{shown}` (in this order), but:\n{said}")


def place(toml):
    """Where a policy file goes, and whose it is, by its first line."""
    first = toml.split("\n", 1)[0]
    if first == "# ~/.config/byleave/policy.toml":
        return ".config/byleave/policy.toml", "user"
    if first == "# .byleave/policy.toml":
        return "app/.byleave/policy.toml", "project"
    raise Wrong(f"the first line of the policy must say where it goes, `# ~/.config/byleave/policy.toml` or `# .byleave/policy.toml`, not `{first}`")


def recipe(text, home):
    blocks = BLOCK.findall(text)
    if [kind for kind, _ in blocks] != ["toml", "console"]:
        raise Wrong("a recipe has one `toml` block and then one `console` block")
    if not BLOCK.split(text)[0].split("\n", 1)[1].strip():
        raise Wrong("a recipe says why, before the policy")
    toml, console = blocks[0][1], blocks[1][1]
    for rule in tomllib.loads(toml)["rule"]:
        if EFFECTS & rule.keys() and not {"matches", "not_matches"} & rule.keys():
            raise Wrong(f"the rule `{rule.get('id')}` has no examples: add `matches` or `not_matches`")
    path, layer = place(toml)
    path = os.path.join(home, path)
    project = os.path.join(home, "app")
    os.makedirs(project, mode=0o700)
    os.makedirs(os.path.dirname(path), mode=0o700)
    with open(path, "w", encoding="utf-8") as file:
        file.write(toml)
    os.chmod(path, 0o600)
    followed([Command(f"byleave policy check {path} --layer {layer}")], project, 60)
    followed(commands(console), project, 60)


def recipes(page):
    parts = re.split(r"^(?=### )", page, flags=re.MULTILINE)[1:]
    # A heading of a group ends the recipe before it.
    parts = [re.split(r"^## ", part, flags=re.MULTILINE)[0] for part in parts]
    base = os.environ["HOME"]
    for number, part in enumerate(parts, 1):
        heading = part.split("\n", 1)[0]
        home = os.path.join(base, f"recipe-{number}")
        os.mkdir(home, 0o700)
        os.environ["HOME"] = home
        try:
            if not heading.startswith(f"### {number}. "):
                raise Wrong(f"it should be number {number}")
            recipe(part, home)
        except (Wrong, tomllib.TOMLDecodeError) as wrong:
            sys.exit(f"recipe “{heading[4:]}”: {wrong}")
        shutil.rmtree(home)
    if len(parts) < 30:
        sys.exit(f"there are {len(parts)} recipes, and should be 30")
    print(f"{len(parts)} recipes are as they say")


def whole(page, name):
    marked = re.findall(r"^<!-- run -->\n```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if page.count("<!-- run -->") != len(marked):
        sys.exit(f"{name}: `<!-- run -->` stands on the line before a `console` block")
    if not marked:
        sys.exit(f"{name}: nothing in it is marked to be run; put `<!-- run -->` on the line before a `console` block")
    try:
        steps = [step for block in marked for step in commands(block)]
        followed(steps, os.environ["HOME"])
    except Wrong as wrong:
        sys.exit(f"{name}: {wrong}")
    print(f"{name}: {len(steps)} commands do what it says")


def main():
    what, path = sys.argv[1:3]
    with open(path, encoding="utf-8") as file:
        page = file.read()
    if what == "recipes":
        recipes(page)
    else:
        whole(page, os.path.basename(path))


main()
