"""Runs in a place, as its user: makes the project, runs every command without Byleave and then through the hook, and reports each as a line of JSON.

    inside.py SPEC      SPEC is the file that places.py wrote

It uses only what a user has: `byleave init` writes the hook, and the hook is run by /bin/sh with the line that init wrote.
"""

import http.server
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import zipfile

import commands
import escapes

PATIENCE = 120


def tell(**row):
    print("saw " + json.dumps(row), flush=True)


class Place:
    def __init__(self, spec):
        self.spec = spec
        self.base = os.fsencode(spec["base"])
        self.workspace = os.fsencode(spec["workspace"])
        self.registry, self.server = free_port(), free_port()
        self.program = spec["bin"] + "/byleave"
        self.env = {"PATH": spec["path"], "LANG": "C.UTF-8", "USER": spec["user"], "TERM": "dumb"}
        if spec["home"]:
            self.env["HOME"] = spec["home"]

    def fill(self, text):
        for name, value in (("workspace", os.fsdecode(self.workspace)), ("registry", self.registry), ("server", self.server), ("browser", self.spec["browser"])):
            text = text.replace("{" + name + "}", str(value))
        return text

    def run(self, argv, stdin=b"", timeout=PATIENCE):
        """Runs a program in the workspace, and returns its exit code and its output."""
        try:
            ended = subprocess.run(argv, cwd=self.workspace, env=self.env, input=stdin, capture_output=True, timeout=timeout, start_new_session=True)
        except subprocess.TimeoutExpired as error:
            return 124, ((error.stdout or b"") + (error.stderr or b"")).decode(errors="replace") + "\n(it did not end)"
        except OSError as error:
            return 126, str(error)
        return ended.returncode, (ended.stdout + ended.stderr).decode(errors="replace")

    def shell(self, line, timeout=PATIENCE):
        return self.run(["/bin/bash", "-c", line], timeout=timeout)

    def byleave(self, *words):
        return self.run([self.program, *words])

    # The project.

    def clear(self):
        os.makedirs(self.base, exist_ok=True)
        for entry in os.scandir(self.base):
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)

    def lay_out(self):
        """Makes the project anew, with its repository where this place has it."""
        self.clear()
        layout, top = self.spec["layout"], self.workspace
        if layout == "package":
            top = self.base + b"/repo"
        elif layout in ("worktree", "submodule"):
            top = self.base + b"/main"
        os.makedirs(top, exist_ok=True)
        git = "git -c user.name=ann -c user.email=ann@example.org -c init.defaultBranch=main -c protocol.file.allow=always"
        project = self.workspace if layout in ("plain", "package") else top
        os.makedirs(project, exist_ok=True)
        for name, text in commands.FILES.items():
            path = os.path.join(project, name.encode())
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text.replace("{browser}", self.spec["browser"]))
        for name in self.spec.get("names", []):
            path = os.path.join(project, name.encode("latin-1"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write("a name that is not UTF-8\n")
        own = b"" if not self.spec.get("home_is_base") else b" && printf '.*\\n!.gitignore\\n' >>.gitignore"
        steps = [(top, f"{git} init -q .".encode() + own + f" && {git} add -A && {git} commit -qm 'the beginning'".encode())]
        if layout == "worktree":
            steps.append((top, f"{git} worktree add -q -b work ".encode() + self.workspace))
        if layout == "submodule":
            over = self.base + b"/over"
            os.makedirs(over)
            steps.append((over, f"{git} init -q . && {git} submodule --quiet add ".encode() + top + f" app && {git} commit -qm over && cd app && git switch -qC main".encode()))
        for where, line in steps:
            ended = subprocess.run(["/bin/bash", "-ec", line], cwd=where, env=self.env, capture_output=True)
            if ended.returncode:
                raise RuntimeError(f"cannot make the project: {line!r}: {ended.stderr.decode(errors='replace')}")
        for setting, value in (("user.name", "ann"), ("user.email", "ann@example.org")):
            subprocess.run(["git", "config", setting, value], cwd=self.workspace, env=self.env, check=True)
        if layout in ("worktree", "submodule"):
            with open(self.workspace + b"/.env", "w") as file:
                file.write(commands.FILES[".env"])

    # The agent.

    def request(self, event, tool, given, response=None, number=[0]):
        number[0] += 1
        said = {"session_id": "places", "transcript_path": "/t/places.jsonl", "cwd": os.fsdecode(self.workspace), "permission_mode": "default",
                "hook_event_name": event, "tool_name": tool, "tool_input": given, "tool_use_id": f"toolu_{number[0]}"}
        if response is not None:
            said["tool_response"] = response
        return json.dumps(said).encode(errors="surrogateescape")

    def hook_line(self, event):
        """Returns the line that init wrote for this event."""
        for path in self.settings:
            try:
                hooks = json.load(open(path))["hooks"][event]
            except (OSError, KeyError, ValueError):
                continue
            return hooks[0]["hooks"][0]["command"]
        return None

    def hook(self, event, tool, given, response=None, says_no=False):
        line = self.hook_line(event)
        if line is None:
            return 126, "", "no hook was written", []
        return self.attended(["/bin/sh", "-c", line], self.request(event, tool, given, response), says_no)

    def attended(self, argv, stdin=b"", says_no=False, timeout=PATIENCE):
        """Runs a program while a person answers what is asked."""
        process = subprocess.Popen(argv, cwd=self.workspace, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        output = {}
        streams = [threading.Thread(target=lambda name, pipe: output.__setitem__(name, pipe.read()), args=(name, pipe), daemon=True)
                   for name, pipe in (("out", process.stdout), ("err", process.stderr))]
        for stream in streams:
            stream.start()
        try:
            process.stdin.write(stdin)
            process.stdin.close()
        except BrokenPipeError:
            pass
        asked, began, wait = [], time.monotonic(), 4.0
        while True:
            try:
                process.wait(wait)
                break
            except subprocess.TimeoutExpired:
                wait = 2.0
            asked += self.answer("no" if says_no else "yes")
            if time.monotonic() - began > timeout:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                output["late"] = "\n(it did not end)"
                break
        for stream in streams:
            stream.join(5)
        out, err = (output.get(name, b"").decode(errors="replace") for name in ("out", "err"))
        return process.returncode, out, err + output.get("late", ""), asked

    def answer(self, word):
        asked = []
        code, said = self.byleave("inbox", "--json")
        try:
            questions = json.loads(said)
        except ValueError:
            return asked
        for question in questions:
            _, card = self.byleave("inbox", "show", question["question"])
            code, _ = self.byleave("inbox", "answer", question["question"], word)
            # The hook may have gone on in the meantime.
            if code in (0, 3, 4):
                asked.append(card)
        return asked

    def through_hook(self, command):
        """Makes a call as the agent does. Returns exit code, output, the questions, and whether it may run."""
        given = {key: self.fill(value) for key, value in command.input.items()}
        says_no = command.expect == "ask"
        code, out, err, asked = self.hook("PreToolUse", command.tool, given, says_no=says_no)
        if code != 0:
            return code, err or out, asked, False
        if command.tool != "Bash":
            self.perform(command.tool, given)
            self.hook("PostToolUse", command.tool, given, {"output": "done"})
            return 0, "", asked, True
        line = rewritten(out)
        if line is None:
            return 126, "the hook let the command pass without a sandbox: " + out, asked, False
        code, out, err, more = self.attended(["/bin/bash", "-c", line], says_no=says_no)
        self.hook("PostToolUse", command.tool, given, {"output": out})
        return code, out + err, asked + more, True

    def perform(self, tool, given):
        """Performs the agent's own file tools."""
        if tool == "Edit":
            before = open(given["file_path"], errors="surrogateescape").read()
            text = before.replace(given["old_string"], given["new_string"], 1)
        elif tool == "Write":
            os.makedirs(os.path.dirname(given["file_path"]), exist_ok=True)
            text = given["content"]
        else:
            return
        with open(given["file_path"], "w", errors="surrogateescape") as file:
            file.write(text)

    def background(self, command, gated):
        """Starts a server as the agent's background does. Returns how to end it, or why it does not run."""
        line = self.fill(command)
        if gated:
            code, out, err, _ = self.hook("PreToolUse", "Bash", {"command": line, "run_in_background": True})
            if code != 0 or rewritten(out) is None:
                return None, err or out
            line = rewritten(out)
        log = open(os.path.join(os.fsencode(self.spec["scratch"]), b"server.log"), "w+")
        process = subprocess.Popen(["/bin/bash", "-c", line], cwd=self.workspace, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        why = "nobody outside of the sandbox can connect to the server"
        for _ in range(150):
            try:
                socket.create_connection(("127.0.0.1", self.server), 1).close()
                why = None
                break
            except OSError:
                time.sleep(0.1)
            if process.poll() is not None:
                log.seek(0)
                why = f"the server ended with {process.returncode}: {log.read()}"
                break
            if gated and _ % 10 == 9:
                self.answer("yes")

        def stop():
            try:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(20)
            except ProcessLookupError:
                process.wait()
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

        return stop, why

    # The runs.

    def is_left_out(self, command):
        return command.name not in self.spec["commands"]

    def run_bare(self):
        """Runs every command without Byleave, and returns what each does."""
        self.lay_out()
        results = {}
        for command in commands.COMMANDS:
            if self.is_left_out(command) or command.expect != "pass":
                continue
            given = {key: self.fill(value) for key, value in command.input.items()}
            stop, why = self.background(commands.SERVER, False) if command.background else (None, None)
            if command.tool == "Bash":
                code, out = self.shell(given["command"])
            else:
                self.perform(command.tool, given)
                code, out = 0, ""
            if stop:
                stop()
            wrong = [why] if why else []
            results[command.name] = (code, wrong + self.find_wrong(command, code, out), short(out))
        return results

    def find_wrong(self, command, code, out):
        wrong = [f"not printed: {text}" for text in command.prints if text not in out]
        wrong += [f"printed: {text}" for text in command.never_prints if text in out]
        checked, said = self.shell(self.fill(command.check))
        if checked != 0:
            wrong.append(f"`{command.check}` fails: {short(said)}")
        return wrong

    def run_gated(self, bare):
        self.lay_out()
        self.set_up()
        for command in commands.COMMANDS:
            if self.is_left_out(command):
                continue
            began = time.monotonic()
            plain = bare.get(command.name)
            if plain and (plain[0] != 0 or plain[1]):
                tell(kind="command", name=command.name, result="absent", why=f"without Byleave: {plain[0]}, {'; '.join(plain[1])}: {plain[2]}")
                continue
            try:
                result, why, asked = self.judge(command)
            except Exception as error:
                result, why, asked = "wrong", f"{type(error).__name__}: {error}", []
            tell(kind="command", name=command.name, result=result, why=why, asked=[short(card, 600) for card in asked], seconds=round(time.monotonic() - began, 1))

    def judge(self, command):
        stop = None
        if command.background:
            stop, why = self.background(commands.SERVER, True)
            if why:
                if stop:
                    stop()
                return ("refused" if stop is None or "ended with 125" in why else "wrong"), "the server: " + short(why), []
        code, out, asked, may_run = self.through_hook(command)
        if stop:
            stop()
        if code == 126 and not may_run:
            return "refused", short(out), asked
        wrong = [f"printed: {text}" for text in command.never_prints if text in out]
        if command.expect == "deny":
            wrong += ["it ran"] if may_run and code == 0 else []
            wrong += ["a person was asked"] if asked else []
            return ("wrong" if wrong else "denied"), "; ".join(wrong), asked
        if command.expect == "ask":
            wrong += ["it ran after a no"] if may_run and code == 0 else []
            wrong += ["nobody was asked: " + short(out)] if not asked else []
            wrong += [f"the question does not say: {command.question}"] if asked and command.question not in json.dumps(asked).lower() else []
            return ("wrong" if wrong else "asked"), "; ".join(wrong), asked
        if not may_run or code == 125:
            return "refused", short(out), asked
        wrong += [f"ended with {code}: {short(out)}"] if code != 0 else []
        wrong += self.find_wrong(command, code, out)
        if command.undone and not wrong:
            code, said = self.byleave("undo")
            checked, _ = self.shell(command.undone)
            wrong += [f"not undone: {code} {short(said)}"] if code or checked else []
        return ("wrong" if wrong else "ok after a question" if asked else "ok"), "; ".join(wrong), asked

    def set_up(self):
        """What a person does first: `init`, the setting that it names, a profile, a rule for the two local ports, and `doctor`."""
        code, said = self.byleave("init", "claude-code")
        setting = re.search(r'`(container = "trusted"|waive = \[[^\]]*\])`', said)
        if setting:
            self.settle(setting.group(1))
        self.settings = [path for path in self.candidates() if os.path.exists(path)]
        hook = self.hook_line("PreToolUse")
        tell(kind="command", name="init", result="ok" if code == 0 and hook else "wrong", why="" if code == 0 and hook else short(f"{code}: {said}"))
        code, said = self.byleave("policy", "profile", "everyday")
        found = re.search(r"(/\S*policy\.toml)", said)
        policy = found.group(1).rstrip("`:,.") if found else os.path.join(self.real_home(), ".config/byleave/policy.toml")
        try:
            with open(policy, "a") as file:
                file.write(f"\n[[rule]]\nid = \"local-ports\"\nverdict = \"allow\"\nsend = [\"localhost:{self.registry}\", \"localhost:{self.server}\"]\n")
        except OSError as error:
            tell(kind="note", text=f"no rule can be written: {error}; {code}: {short(said)}")
        code, said = self.byleave("doctor", "--json")
        try:
            doctor = json.loads(said[said.index("{"):said.rindex("}") + 1])
        except ValueError:
            doctor = {}
        level, weaker = doctor.get("level"), []
        for backend in doctor.get("backends", []):
            if backend.get("backend") == level:
                weaker = sorted(name for name, one in backend["guarantees"].items() if one["enforcement"] != "full")
        bad = [f"{one['subject']}: {one['message']}" for one in doctor.get("findings", []) if not one["ok"]]
        tell(kind="doctor", code=code, level=level, weaker=weaker, bad=bad, copies=doctor.get("copies"), said=short(said, 300) if not doctor else "")
        tell(kind="command", name="doctor", result="ok" if code == 0 else "wrong", why="" if code == 0 else short("; ".join(bad) or said, 900))

    def settle(self, line):
        """Writes a setting to the person's own file, as `byleave config edit` does."""
        path = os.path.join(self.real_home(), ".config/byleave/config.toml")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(line + "\n")
        tell(kind="note", text=f"the person's settings: {line}")

    def real_home(self):
        import pwd
        return self.env.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir

    def candidates(self):
        workspace, home = os.fsdecode(self.workspace), self.real_home()
        return [f"{at}/.claude/{name}" for at in (home, workspace) for name in ("settings.json", "settings.local.json")]

    def run_full(self):
        """Fills the disk, changes a file, makes space, and changes it again."""
        # The audit log exists when the disk becomes full.
        self.through_hook(commands.bash("look", "", "ls"))
        filler = os.path.join(self.real_home(), "filler")
        change = commands.bash("full", "", "seq 100000 >big.txt && echo more >>notes.txt")
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(bytes(1 << 16)):
                    pass
            except OSError as error:
                tell(kind="note", text=f"the disk is full: {error.strerror}")
        code, out, asked, may_run = self.through_hook(change)
        says = re.search(r"No space left|disk is full|is full|free space", out)
        tell(kind="command", name="full", result="ok" if code != 0 and says else "wrong", why="" if code != 0 and says else short(f"{code}: {out}", 900))
        tell(kind="note", text=f"a full disk: exit code {code}: {short(out)}")
        os.unlink(filler)
        code, out, asked, may_run = self.through_hook(change)
        checked, said = self.shell("grep -q more notes.txt && test -s big.txt")
        tell(kind="command", name="space", result="ok" if (code, checked) == (0, 0) else "wrong", why="" if (code, checked) == (0, 0) else short(f"{code}: {out} {said}", 900))

    def run_bombs(self):
        for name, _, script in commands.BOMBS:
            if name in self.spec["bombs"]:
                self.run_bomb(name, script)

    def run_bomb(self, name, script):
        """Lets a command take everything while a second one runs on."""
        lines = []
        for line in (script, commands.SECOND):
            code, out, err, asked = self.hook("PreToolUse", "Bash", {"command": line})
            if code != 0 or rewritten(out) is None:
                return tell(kind="bomb", name=name, result="refused", why=short(err or out))
            lines.append(rewritten(out))
        ended = {}

        def go(key, line, timeout):
            began = time.monotonic()
            code, out, err, asked = self.attended(["/bin/bash", "-c", line], timeout=timeout)
            ended[key] = (code, out + err, round(time.monotonic() - began, 1), asked)

        both = [threading.Thread(target=go, args=("second", lines[1], 90)), threading.Thread(target=go, args=("bomb", lines[0], 45))]
        both[0].start()
        time.sleep(1.5)
        both[1].start()
        for thread in both:
            thread.join()
        bomb, second = ended["bomb"], ended["second"]
        if bomb[0] == second[0] == 125:
            return tell(kind="bomb", name=name, result="refused", why=short(bomb[1]))
        wrong = []
        if bomb[0] < 0 or "did not end" in bomb[1]:
            wrong.append("it was not ended")
        if "took 8 GB" in bomb[1] or bomb[1].count("took 2 GB") == 4:
            wrong.append("it had all 8 GB")
        if second[0] != 0 or "lived" not in second[1]:
            wrong.append(f"the second command did not run on: {second[0]} {short(second[1])}")
        tell(kind="bomb", name=name, result="wrong" if wrong else "ok", why="; ".join(wrong), seconds=bomb[2], second=second[2], said=short(bomb[1]))


def rewritten(out):
    try:
        return json.loads(out)["hookSpecificOutput"]["updatedInput"]["command"]
    except (ValueError, KeyError, TypeError):
        return None


def short(text, size=400):
    text = " ".join(str(text).split())
    return text if len(text) <= size else text[:size // 2] + " … " + text[-size // 2:]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Registry(http.server.BaseHTTPRequestHandler):
    """A registry of npm and of Python, with one package each."""

    def do_GET(self):
        port = self.server.server_address[1]
        wheel, tarball = "six-1.16.0-py3-none-any.whl", "left-pad-1.3.0.tgz"
        package = {"name": "left-pad", "dist-tags": {"latest": "1.3.0"}, "versions": {"1.3.0": {
            "name": "left-pad", "version": "1.3.0", "dist": {"tarball": f"http://localhost:{port}/left-pad/-/{tarball}"}}}}
        pages = {"/left-pad": ("application/json", json.dumps(package).encode()), f"/left-pad/-/{tarball}": ("application/octet-stream", npm_package()),
                 "/simple/six/": ("text/html", f'<html><body><a href="/simple/six/{wheel}">{wheel}</a></body></html>'.encode()),
                 f"/simple/six/{wheel}": ("application/octet-stream", python_wheel())}
        kind, body = pages.get(self.path, (None, b"not found"))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def npm_package():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in (("package.json", '{"name": "left-pad", "version": "1.3.0", "main": "index.js"}'), ("index.js", "module.exports = String;\n")):
            info = tarfile.TarInfo("package/" + name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def python_wheel():
    out, at = io.BytesIO(), "six-1.16.0.dist-info/"
    with zipfile.ZipFile(out, "w") as wheel:
        wheel.writestr("six.py", "x = 1\n")
        wheel.writestr(at + "METADATA", "Metadata-Version: 2.1\nName: six\nVersion: 1.16.0\n")
        wheel.writestr(at + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(at + "RECORD", "".join(f"{name},,\n" for name in ("six.py", at + "METADATA", at + "WHEEL", at + "RECORD")))
    return out.getvalue()


def main():
    with open(sys.argv[1]) as file:
        spec = json.load(file)
    os.umask(0o022)
    place = Place(spec)
    registry = http.server.ThreadingHTTPServer(("127.0.0.1", place.registry), Registry)
    threading.Thread(target=registry.serve_forever, daemon=True).start()
    bare = place.run_bare()
    place.run_gated(bare)
    if spec["full"]:
        place.run_full()
    place.run_bombs()
    if spec["escapes"]:
        escapes.run(place, tell, short)
    tell(kind="end")


if __name__ == "__main__":
    main()
