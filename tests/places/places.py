#!/usr/bin/env python3
"""Runs ordinary commands of an agent through the real hook in many places: users, containers, homes, repositories, file systems.

    places.py list                 list the places
    places.py run [PLACE…]         run these, or all
    places.py short                run three places: the form of `.ci/run`
    places.py write [PLACE…]       run these, or all, keep the results, and write docs/guide/places.md
    places.py page                 write the page from the results that are kept

Needs root. Every place is in namespaces of its own, within a limit on memory and processes, and is removed afterwards.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import commands
import containers
import page

HERE = Path(__file__).resolve().parent
USER, UID = "ann", 61020
# What a place may take as a whole, so that a limit of ours that does not hold cannot end the machine.
MEMORY, PROCESSES = 6 << 30, 4000
PLACE_SECONDS = 900
ALL = tuple(command.name for command in commands.COMMANDS)
ALL_BOMBS = tuple(name for name, _, _ in commands.BOMBS)
FEW = ("look", "edit", "shell", "build", "run", "commit", "branch", "worktree", "undo", "secret", "docker")


@dataclass(frozen=True)
class Place:
    name: str
    what: str
    user: str = USER
    home: str = "/home/ann"
    base: str = "/home/ann/work"
    workspace: str = "/home/ann/work/shop"
    layout: str = "plain"
    files: str = "plain"
    commands: tuple = ALL
    bombs: tuple = ()
    escapes: bool = False
    has_home: bool = True
    user_namespaces: bool = True
    names: tuple = ()
    # In a container of podman, which is told this besides. None: not in a container.
    container: tuple | None = None


LONG = dict(bombs=ALL_BOMBS, escapes=True)
ROOT = dict(user="root", home="/root", base="/root/work", workspace="/root/work/shop")
PLACES = [
    Place("user", "an ordinary user, no cgroup delegated", **LONG),
    Place("root", "root on the machine", **LONG, **ROOT),
    Place("no-namespaces", "a user, user namespaces forbidden", user_namespaces=False, **LONG),
    Place("root-no-namespaces", "root, user namespaces forbidden", user_namespaces=False, **ROOT),
    Place("container-user", "a user in a container, default filter", container=(), **LONG),
    Place("container-root", "root in a container, default filter", container=(), **LONG, **ROOT),
    Place("privileged-user", "a user in a privileged container", container=("--privileged",), **LONG),
    Place("privileged-root", "root in a privileged container", container=("--privileged",), **LONG, **ROOT),
    Place("worktree", "the workspace is a worktree, its repository beside it", layout="worktree", commands=FEW),
    Place("submodule", "the workspace is a submodule, its repository above it", layout="submodule", workspace="/home/ann/work/over/app", commands=FEW),
    Place("package", "the workspace is a package of a monorepo", layout="package", workspace="/home/ann/work/repo/packages/shop", commands=FEW),
    Place("home-var-tmp", "a home below /var/tmp", home="/var/tmp/ann", base="/var/tmp/ann/work", workspace="/var/tmp/ann/work/shop"),
    Place("home-deep", "a home two levels below /home", home="/home/example/ann", base="/home/example/ann/work", workspace="/home/example/ann/work/shop"),
    Place("home-workspace", "the workspace is the home", base="/home/ann", workspace="/home/ann"),
    Place("no-home", "no $HOME", has_home=False),
    Place("names", "file names that are not UTF-8, in a directory with spaces", base="/home/ann/Größe & Maß", workspace="/home/ann/Größe & Maß/shop",
          names=("caf\xe9.txt", "dir\xff/in.txt")),
    Place("overlay", "the workspace is on an overlay", files="overlay"),
    Place("root-overlay", "root, the workspace is on an overlay", files="overlay", **ROOT),
    Place("full-disk", "the disk is full", files="small", commands=()),
]
SHORT = ("user", "root", "worktree")


def main():
    match sys.argv[1:]:
        case ["list"]:
            for place in PLACES:
                print(f"{place.name}\t{place.what}")
        case ["run", *names]:
            sys.exit(finish(run(chosen(names))))
        case ["short"]:
            sys.exit(finish(run([place for place in PLACES if place.name in SHORT], long=False)))
        case ["write", *names]:
            rows = run(chosen(names))
            page.keep(rows, [place.name for place in PLACES])
            page.write()
            sys.exit(finish(rows))
        case ["page"]:
            page.write()
        case _:
            sys.exit(__doc__)


def chosen(names):
    unknown = set(names) - {place.name for place in PLACES}
    if unknown:
        sys.exit(f"places: there is no place {', '.join(sorted(unknown))}; `scripts/places list` names them")
    return [place for place in PLACES if not names or place.name in names]


def finish(rows):
    """Prints what is not as it should be, and returns the exit code."""
    kept = Path(os.environ.get("BYLEAVE_PLACES_RESULT", "/dev/null"))
    kept.write_text(json.dumps(rows, indent=1))
    cases = [cell for row in rows for cell in row["cells"] if cell["result"] != "absent"]
    done = [cell for cell in cases if is_good(cell)]
    print(f"figure: {len(done)} of {len(cases)} commands and bombs do what they should, in {len(rows)} places")
    known = page.known()
    new = [f"{row['name']}: {cell['name']}" for row in rows for cell in row["cells"] if not is_good(cell) and (row["name"], cell["name"]) not in known]
    if new:
        print(f"places: docs/guide/places.md does not say that these do not work: {', '.join(new)}")
    early = [row["name"] for row in rows if not row["ended"]]
    if early:
        print(f"places: the runner ended early in {', '.join(early)}")
    return 1 if new or early else 0


def is_good(cell):
    return cell["result"] in ("ok", "ok after a question", "asked", "denied", "absent")


def run(places, long=True):
    if os.geteuid() != 0:
        sys.exit("places: needs root, to make machines that are thrown away")

    def one(place):
        began = time.monotonic()
        row = run_place(place, long)
        row["seconds"] = round(time.monotonic() - began)
        show(row)
        return row

    # What takes everything runs alone, because its times are told.
    alone = [place for place in places if long and place.bombs]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        rows = list(workers.map(one, [place for place in places if place not in alone]))
    rows += [one(place) for place in alone]
    order = [place.name for place in places]
    return sorted(rows, key=lambda row: order.index(row["name"]))


def show(row):
    doctor = row["doctor"] or {}
    lines = [f"== {row['name']}: {row['what']} ({row['seconds']} s); {doctor.get('level')}, doctor {doctor.get('code')}"]
    for cell in row["cells"]:
        took = f" {cell['seconds']} s" if "seconds" in cell else ""
        lines.append(f"   {cell['name']:10} {cell['result']}{took}  {cell.get('why', '')}")
        if cell["result"] == "ok after a question":
            lines.append(f"              {cell['asked'][:1]}")
    # One write, because places run beside each other.
    print("\n".join(lines + [f"   note: {note}" for note in row["notes"]]), flush=True)


def run_place(place, long):
    row = {"name": place.name, "what": place.what, "doctor": None, "cells": [], "notes": [], "ended": False}
    with tempfile.TemporaryDirectory(prefix="byleave-places-", dir="/var/tmp") as directory:
        directory = Path(directory)
        directory.chmod(0o755)
        argv, environment = start(place, long, directory)
        with Limits(place.name) as limits:
            process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       errors="replace", preexec_fn=limits.enter, start_new_session=True)
            late = threading.Timer(PLACE_SECONDS, process.kill)
            late.start()
            other = []
            for line in process.stdout:
                if not line.startswith("saw "):
                    other.append(line.rstrip())
                    continue
                saw = json.loads(line[4:])
                match saw.pop("kind"):
                    case "doctor":
                        row["doctor"] = saw
                    case "note":
                        row["notes"].append(saw["text"])
                    case "end":
                        row["ended"] = True
                    case kind:
                        row["cells"].append({"kind": kind, **saw})
            process.wait()
            late.cancel()
            if limits.were_needed():
                row["notes"].append("the limit around the place ended something: a limit of ours did not hold")
        if not row["ended"]:
            row["notes"].append(f"the runner ended early: {' '.join(other[-8:])}")
    return row


def start(place, long, directory):
    """Returns the command that runs a place, and its environment."""
    opt = directory / "opt"
    for name in ("byleave", "browser", "places"):
        (opt / name).mkdir(parents=True)
    (opt / "byleave/bin").mkdir()
    for name in ("byleave", "byleave-hook"):
        put(Path(os.environ["BYLEAVE_BUILT"]) / name, opt / "byleave/bin" / name)
    if place.container is not None:
        # Debian's node is too old for Playwright.
        put(Path(shutil.which("node")).resolve(), opt / "byleave/bin/node")
    for name in ("inside.py", "commands.py", "enter.py", "escapes.py"):
        shutil.copy(HERE / name, opt / "places" / name)
    shutil.copytree(Path(os.environ["BYLEAVE_BROWSER"]) / "node_modules/playwright-core", opt / "browser/node_modules/playwright-core")
    shutil.copy(HERE.parent / "corpus/escapes.jsonl", opt / "places/escapes.jsonl")
    spec = {"escapes": place.escapes and long, "base": place.base, "workspace": place.workspace, "home": place.home if place.has_home else None, "user": place.user, "layout": place.layout,
            "commands": place.commands, "bombs": place.bombs if long else (), "names": place.names, "bin": "/opt/byleave/bin", "browser": "/opt/browser", "scratch": "/tmp",
            "path": "/opt/byleave/bin:/usr/local/bin:/usr/bin:/bin", "home_is_base": place.home == place.base, "full": place.files == "small"}
    (opt / "places/spec.json").write_text(json.dumps(spec))
    uid = 0 if place.user == "root" else UID
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root", "OPT": str(opt), "PYTHONDONTWRITEBYTECODE": "1"}
    if place.container is not None:
        run = ["/usr/bin/python3", "/opt/places/inside.py", "/opt/places/spec.json"]
        return containers.start(place, uid, directory, opt, containers.image(USER, UID), run, MEMORY, PROCESSES), environment
    root = directory / "root"
    root.mkdir(mode=0o755)
    inside = ["/usr/bin/python3", "/opt/places/enter.py", str(uid), "yes" if place.user_namespaces else "no", "/usr/bin/python3", "/opt/places/inside.py", "/opt/places/spec.json"]
    argv = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "--kill-child", "--propagation", "private", "bash", str(HERE / "machine.sh"),
            str(root), place.user, str(uid), place.home, place.base, place.files, *inside]
    return argv, environment


def put(program, place):
    try:
        os.link(program, place)
    except OSError:
        shutil.copy(program, place)


class Limits:
    """A group of processes with a limit on memory and on processes, with cgroups of either version."""

    def __init__(self, name):
        name = f"byleave-places-{os.getpid()}-{name}"
        self.groups = [Path("/sys/fs/cgroup") / kind / name for kind in ("memory", "pids")]
        self.old = self.groups[0].parent.is_dir()
        if not self.old:
            self.groups = [Path("/sys/fs/cgroup") / name]

    def __enter__(self):
        for group in self.groups:
            group.mkdir()
        if self.old:
            (self.groups[0] / "memory.limit_in_bytes").write_text(str(MEMORY))
            (self.groups[1] / "pids.max").write_text(str(PROCESSES))
        else:
            (self.groups[0] / "memory.max").write_text(str(MEMORY))
            (self.groups[0] / "pids.max").write_text(str(PROCESSES))
        return self

    def enter(self):
        for group in self.groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    def were_needed(self):
        events = "memory.oom_control" if self.old else "memory.events"
        killed = [line.split()[1] for line in (self.groups[0] / events).read_text().splitlines() if line.startswith("oom_kill ")]
        return killed not in ([], ["0"])

    def __exit__(self, *_):
        for group in self.groups:
            for _ in range(100):
                try:
                    group.rmdir()
                    break
                except OSError:
                    for pid in (group / "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                    time.sleep(0.1)


if __name__ == "__main__":
    main()
