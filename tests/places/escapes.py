"""Attempts of the corpus (tests/corpus/escapes.jsonl) to escape from the sandbox, made in a place with `byleave sandbox exec`.

Where nothing can be mounted, they are made with `byleave call bash`, as commands of an agent: a workspace cannot be confined in its place there, so a
command always works on a full copy. Nobody answers questions, so an attempt that the profile `everyday` asks about is refused before it runs.

Left out are those that need a fixture of root (other owners' programs, mounts, terminals, leaked descriptors), those that end every process of
the user where they succeed, and those about resources, which are the bombs of the place. `scripts/prove escapes` runs all of them.
"""

import json
import os
import shutil
import socket
import subprocess
import threading

CLASSES = {"fs-read", "fs-write", "env", "persistence", "confused-deputy", "proc", "ipc", "net", "priv", "kernel"}
LEFT_OUT = {"proc-kill-host", "fs-read-othermount", "priv-setuid", "priv-filecaps", "kern-int80", "ipc-sysv", "ipc-keyring", "env-bash-env", "ipc-dbus", "ipc-tmux", "proc-attack-init",
            "git-create-missing-root"}
# Attempts that succeed without a sandbox, so the fixture is complete.
CONTROLS = ("fs-read-ssh", "fs-read-dotenv", "git-hook", "fs-write-home-rc", "ipc-home-socket", "net-loopback", "ipc-abstract")
HOME_FILES = {".ssh/id_rsa": "SECRET-KEY\n", ".aws/credentials": "SECRET-AWS\n", ".netrc": "SECRET-NETRC\n", ".git-credentials": "SECRET-NETRC\n", ".bash_history": "SECRET-HIST\n",
              ".bashrc": "# rc\n", ".profile": "# rc\n"}


def corpus(path):
    with open(path) as file:
        cases = [json.loads(line) for line in file]
    return [case for case in cases if case["class"] in CLASSES and not case["as_root"] and not case["pty"] and case["id"] not in LEFT_OUT]


class Fixture:
    """A home with secrets, a workspace, a process and sockets that belong to the user."""

    def __init__(self, place):
        self.place, self.home = place, place.real_home()
        self.work = self.home + "/escapes"
        self.out = place.spec["scratch"] + "/escapes-out"
        os.makedirs(self.home + "/.gnupg", exist_ok=True)
        for path in (self.home + "/.agent.sock", self.home + "/.gnupg/S.gpg-agent", "\0sbx-victim"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            serve(listener)
        serve(socket.create_server(("127.0.0.1", 8099)), listens=True)
        self.refused_before = []
        self.is_on_copies = False
        self.victim = subprocess.Popen(["sleep", "99999"], env={"VICTIM": "VICTIM-ENV", "PATH": "/usr/bin:/bin"})

    def prepare(self):
        for left in ("planted", "raced", ".config/fish", ".config/systemd", ".config/autostart", ".local/bin", "bin", ".ssh/authorized_keys", "escapes"):
            path = f"{self.home}/{left}"
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)
        for path in ("/dev/shm/sbx-pwn", "/tmp/sbx-pwn", "/var/tmp/sbx-pwn"):
            if os.path.lexists(path):
                os.unlink(path)
        os.makedirs(self.home + "/.cargo/bin", exist_ok=True)
        for name, text in HOME_FILES.items():
            path = f"{self.home}/{name}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        subprocess.run(["git", "-c", "init.defaultBranch=m", "init", "-q", self.work], env=self.place.env, check=True)
        shutil.rmtree(self.work + "/.git/hooks")
        os.mkdir(self.work + "/.git/hooks")
        for name, text in ((".env", "SECRET-ENVFILE\n"), ("README.md", "hi\n")):
            with open(f"{self.work}/{name}", "w") as file:
                file.write(text)

    def through_the_gate(self, command):
        return [self.place.program, "call", "bash", "--args", json.dumps({"command": command})]

    def holds(self, case, confined):
        self.prepare()
        command = case["command"].replace("%VICTIM%", str(self.victim.pid))
        env = {**self.place.env, "AWS_SECRET_ACCESS_KEY": "SECRET-ENVVAR", "SSH_AUTH_SOCK": self.home + "/.agent.sock"}
        argv = ["/bin/bash", "-c", command]
        if confined:
            argv = self.through_the_gate(command) if self.is_on_copies else [self.place.program, "sandbox", "exec", "--", *argv]
        with open(self.out, "w") as out:
            try:
                ended = subprocess.run(argv, cwd=self.work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=120, start_new_session=True).returncode
            except subprocess.TimeoutExpired:
                ended = 124
        said = open(self.out, errors="replace").read()
        if confined and ended == 125 and not self.is_on_copies:
            return None, said
        if confined and ended == 3:
            self.refused_before.append(case["id"])
        verify = {"PATH": "/usr/bin:/bin:/usr/sbin", "OUT": self.out, "HOME": self.home, "WS": self.work, "RUID": str(os.getuid()), "ELAPSED": "0"}
        checked = subprocess.run(["/bin/bash", "-c", case["verify"].replace("%VICTIM%", str(self.victim.pid))], env=verify, cwd=self.place.spec["scratch"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return checked.returncode == 0, said


def serve(listener, listens=False):
    def answer():
        while True:
            connection, _ = listener.accept()
            # It reads first, because a connection that is closed with unread bytes is reset, and a client may come and go.
            try:
                connection.settimeout(2)
                connection.recv(16)
                connection.sendall(b"victim")
            except OSError:
                pass
            connection.close()

    if not listens:
        listener.listen()
    threading.Thread(target=answer, daemon=True).start()


def run(place, tell, short):
    fixture, cases = Fixture(place), corpus("/opt/places/escapes.jsonl")
    controls = [case["id"] for case in cases if case["id"] in CONTROLS and fixture.holds(case, False)[0]]
    held, escaped, refused, not_shown = [], [], [], []
    fixture.prepare()
    ended = subprocess.run([place.program, "sandbox", "exec", "--", "true"], cwd=fixture.work, env=place.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if ended.returncode == 125:
        fixture.is_on_copies = True
        # A command that touches nothing must run. Otherwise nothing is shown.
        ended = subprocess.run(fixture.through_the_gate("true"), cwd=fixture.work, env=place.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ended.returncode:
            refused.append(short(ended.stdout.decode(errors="replace")))
            cases = []
    for case in cases:
        holds, said = fixture.holds(case, True)
        if holds is None:
            # What confines nothing is the same for every attempt.
            refused.append(short(said))
            break
        # What did not run left nothing that shows that it was confined.
        shows_nothing = not holds and case["id"] in fixture.refused_before
        (held if holds else not_shown if shows_nothing else escaped).append(case["id"])
    fixture.victim.kill()
    why = [f"escaped: {', '.join(escaped)}"] if escaped else []
    why += [f"without a sandbox these did not succeed, so nothing is shown: {', '.join(controls)}"] if controls else []
    result = "refused" if refused else "wrong" if why else "ok"
    if not_shown:
        tell(kind="note", text=f"these attempts were refused, so they are not counted: {', '.join(not_shown)}")
    tell(kind="escapes", name="escapes", result=result, why="; ".join(refused + why), held=len(held), of=len(held) + len(escaped))
