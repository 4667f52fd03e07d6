"""One agent in a home directory of its own, with a person who answers in the inbox."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time

# Marks the processes of a trial, so that those that outlive the agent can be ended.
MARK = "BYLEAVE_AGENTS_TRIAL"
# Keeps a broken agent from holding the run up. No check depends on it.
LIMIT_S = 150
# The keys by which a person answers in the agent's window.
YES, NO = b"\r", b"\x1b"
# The only variables of the caller that the agents get.
KEPT = ("LANG", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR")


class Trial:
    def __init__(self, agent, name, setup):
        """`setup` has the directory of the trials, the programs, the agents, the model, and whether memory limits are waived."""
        self.agent = agent
        self.setup = setup
        self.name = f"{agent.name}-{name}"
        self.place = setup.trials / self.name
        self.home = self.place / "home"
        self.work = self.home / "work"
        self.bin = self.place / "bin"
        self.runs = 0
        self.asked = []
        self.more_environment = {}
        self.make()

    def make(self):
        self.work.mkdir(parents=True)
        self.bin.mkdir()
        for program in ("byleave", "byleave-hook"):
            os.link(self.setup.programs / program, self.bin / program)
        (self.work / ".env").write_text("SECRET=hunter2\n")
        (self.work / "README.md").write_text("hello\n")
        (self.work / "notes.txt").write_text("one\ntwo\n")
        (self.home / "private").mkdir()
        (self.home / "private/diary.txt").write_text("dear diary\n")
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        for command in (["init", "-q", "."], [*who, "commit", "-q", "--allow-empty", "-m", "x"]):
            subprocess.run(["git", *command], cwd=self.work, env=self.environment(), check=True)
        config = self.home / ".config/byleave"
        config.mkdir(parents=True, mode=0o700)
        if self.setup.waives_memory:
            (config / "config.toml").write_text('waive = ["memory-limited"]\n')
        for path, text in self.agent.settings.items():
            path = self.home / path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.filled(text))

    def filled(self, text):
        return text.replace("@URL@", self.setup.model.url)

    def environment(self, is_marked=True):
        own = {name: self.filled(value) for name, value in self.agent.environment.items()}
        modules = self.setup.agents / "node_modules"
        path = [self.bin, (modules / self.agent.program).parent, "/usr/local/bin", "/usr/bin", "/bin"]
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        usual = {"HOME": str(self.home), "PATH": ":".join(map(str, path)), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        user = {"USER": self.setup.user, "LOGNAME": self.setup.user, "SHELL": "/bin/bash"}
        return {**kept, **usual, **user, **own, **self.more_environment, **({MARK: self.name} if is_marked else {})}

    def byleave(self, *arguments):
        command = [self.bin / "byleave", *arguments]
        environment = self.environment(is_marked=False)
        return subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, timeout=LIMIT_S)

    def byleave_json(self, *arguments):
        """Returns what `byleave ... --json` prints, or an empty list before there is an audit log."""
        said = self.byleave(*arguments, "--json")
        try:
            return json.loads(said.stdout)
        except ValueError:
            return []

    def state_of_audit_log(self):
        """Returns something that differs after every entry in the audit log."""
        paths = sorted((self.home / ".local/state/byleave").glob("audit.sqlite*"))
        return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths if path.exists()]

    def files(self):
        """Returns the content of every file of the home directory that `byleave init` could change."""
        ours = (self.home / ".local", self.work)
        paths = (path for path in self.home.rglob("*") if path.is_file() and not any(path.is_relative_to(at) for at in ours))
        own = [self.home / path for path in self.agent.own_files]
        directories = {path.parent for path in own}
        paths = (path for path in paths if not any(path.is_relative_to(at) for at in directories) or any(path.is_relative_to(at) for at in own))
        return {str(path): path.read_bytes() for path in paths}

    def version(self):
        said = subprocess.run([self.program(), "--version"], cwd=self.work, env=self.environment(), capture_output=True, text=True, timeout=LIMIT_S)
        lines = (said.stdout.strip() or said.stderr.strip()).splitlines()
        return lines[0].strip() if lines else "?"

    def program(self):
        return str(self.setup.agents / "node_modules" / self.agent.program)

    def play(self, steps, arguments=None, more=(), limit_s=LIMIT_S):
        """Runs one session of the agent with a script. Returns what the model saw."""
        self.runs += 1
        run = f"{self.name}-{self.runs}"
        prompt = f"PLAY {run} {json.dumps(steps)}"
        words = [prompt if word == "PROMPT" else word for word in arguments or self.agent.headless]
        # Options come before the prompt.
        at = words.index(prompt) if prompt in words and not words[words.index(prompt) - 1].startswith("-") else len(words)
        command = [self.program(), *words[:at], *more, *words[at:]]
        output = self.place / f"output-{self.runs}.txt"
        with output.open("w") as file:
            process = subprocess.Popen(
                command, cwd=self.work, env=self.environment(), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
            try:
                process.wait(timeout=limit_s)
            except subprocess.TimeoutExpired:
                pass
            finally:
                end_processes(self.name)
                process.wait()
        said = self.setup.model.run(run)
        said.output = output.read_text(errors="replace")
        return said

    def play_at_terminal(self, steps, arguments, limit_s=60, answer=NO):
        """Runs one interactive session in a terminal.

        Somebody there presses Enter all the time, so says yes to whatever the agent itself asks. If Byleave asks in the agent's window, they
        press `answer` once, and nothing else once the model has begun. A no ends the agent's turn, and then the session.
        """
        self.runs += 1
        run = f"{self.name}-{self.runs}"
        prompt = f"PLAY {run} {json.dumps(steps)}"
        said = self.setup.model.run(run)
        types_prompt = "PROMPT" not in arguments
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.work)
            words = [prompt if word == "PROMPT" else word for word in arguments]
            os.execve(self.program(), [self.program(), *words], self.environment())
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        output, began, is_typed = b"", time.monotonic(), False
        next_key = began + 3
        # When the question of Byleave was seen, and when it was answered.
        earlier = self.reported_questions()
        asked_at = answered_at = None
        try:
            while time.monotonic() - began < limit_s and not said.is_finished:
                if select.select([terminal], [], [], 0.2)[0]:
                    output += os.read(terminal, 65536)
                now = time.monotonic()
                if asked_at is None and self.reported_questions() - earlier:
                    asked_at, next_key = now, now + 1.5
                if answered_at is not None and answer == NO and now - answered_at > 4:
                    break
                if now >= next_key:
                    next_key = now + 1.5
                    if asked_at is not None:
                        if answered_at is None:
                            os.write(terminal, answer)
                            answered_at = now
                    elif types_prompt and not is_typed and now - began > 6:
                        os.write(terminal, prompt.encode())
                        is_typed = True
                    elif not (self.agent.window_arguments and said.tools):
                        os.write(terminal, b"\r")
        except OSError:
            # The agent has ended.
            pass
        finally:
            end_processes(self.name)
            os.waitpid(child, 0)
            os.close(terminal)
        (self.place / f"output-{self.runs}.txt").write_bytes(output)
        said.output = output.decode(errors="replace")
        said.was_asked_in_window = asked_at is not None
        said.screen = squeezed(output)
        return said

    def reported_questions(self):
        """Returns the questions of ours that the agent has reported to ask in its window."""
        return set((self.home / ".local/state/byleave/hooks/window").glob("*.shown"))

    def answering(self, answer="yes", after_s=0):
        return Person(self, answer, after_s)


class Person:
    """Answers every question in the inbox while the block runs. What was asked is in `trial.asked`."""

    def __init__(self, trial, answer, after_s):
        self.trial, self.answer, self.after_s = trial, answer, after_s
        self.answered = set()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.answer_all, daemon=True)

    def __enter__(self):
        self.trial.asked.clear()
        self.thread.start()
        return self.trial.asked

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def answer_all(self):
        seen, before = {}, None
        while not self.is_over.wait(0.25):
            # Every look starts the program, so there is none without a change.
            now = self.trial.state_of_audit_log()
            if now == before and not seen.keys() - self.answered:
                continue
            before = now
            listed = self.trial.byleave_json("inbox", "list")
            for question in listed if isinstance(listed, list) else []:
                name = question["question"]
                if name not in seen:
                    seen[name] = time.monotonic()
                    self.trial.asked.append(question["summary"])
                if self.answer is not None and time.monotonic() - seen[name] >= self.after_s:
                    self.trial.byleave("inbox", "answer", name, self.answer)
                    self.answered.add(name)


def squeezed(output):
    """Returns the text that a terminal shows, without spaces and control sequences."""
    return re.sub(rb"\x1b\[[0-9;?<>=]*[A-Za-z]|\s", b"", output).decode(errors="replace")


def end_processes(name):
    """Ends the processes of a trial that outlived its agent. They are found by the variable that only they have."""
    wanted = f"{MARK}={name}".encode()
    for directory in os.listdir("/proc"):
        if not directory.isdigit() or int(directory) == os.getpid():
            continue
        try:
            with open(f"/proc/{directory}/environ", "rb") as file:
                is_ours = wanted in file.read().split(b"\0")
            if is_ours:
                os.kill(int(directory), signal.SIGKILL)
        except OSError:
            pass


def remove(path):
    """Removes a directory, including those in it that their owner cannot enter."""
    for directory, _, _ in os.walk(path):
        os.chmod(directory, 0o700)
    shutil.rmtree(path, ignore_errors=True)
