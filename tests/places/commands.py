"""The ordinary commands of an agent, as data, and the project that they work on.

A command is made through the hook, as Claude Code makes it. `check` is a shell line that must succeed afterwards, outside of every sandbox.
The words {registry} and {server} are ports, and {browser} is the directory of Playwright.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Command:
    name: str
    what: str
    tool: str = "Bash"
    input: dict = field(default_factory=dict)
    # pass: it does its work; ask: a person is asked, and says no; deny: nobody is asked.
    expect: str = "pass"
    # The output contains these texts.
    prints: tuple = ()
    never_prints: tuple = ()
    check: str = "true"
    # A question contains this text.
    question: str = ""
    # Made after a server of this workspace was started in the agent's background.
    background: bool = False
    # `byleave undo` follows, and then this succeeds.
    undone: str = ""


def bash(name, what, command, **more):
    return Command(name, what, "Bash", {"command": command}, **more)


SECRET = "places-secret-value"

COMMANDS = [
    bash("look", "look around", "ls -la && git status --short && git log --oneline -3", prints=("README.md", "the beginning")),
    bash("search", "search", "grep -rn 'def add' --include='*.py' .", prints=("calc.py",)),
    Command("read", "read a file", "Read", {"file_path": "{workspace}/README.md"}),
    Command("edit", "edit a file", "Edit",
            {"file_path": "{workspace}/calc.py", "old_string": "return a + b", "new_string": "return b + a"},
            check="grep -q 'return b + a' calc.py"),
    Command("write", "write a file", "Write", {"file_path": "{workspace}/docs/new.md", "content": "new\n"}, check="grep -q new docs/new.md"),
    bash("build", "build", "make", check="test \"$(./build/app)\" = 42"),
    bash("run", "run what was built", "./build/app", prints=("42",)),
    bash("test", "test", "python3 -m unittest -q 2>&1", prints=("OK",)),
    bash("shell", "change files in the shell", "sed -i s/one/two/ notes.txt && wc -l <notes.txt >count.txt",
         check="grep -q two notes.txt && grep -q 1 count.txt"),
    bash("commit", "commit", "git add -A && git commit -qm second", check="test \"$(git log -1 --format=%s)\" = second && git fsck --no-dangling"),
    bash("branch", "change the branch", "git switch -qc topic && git switch -q -", check="git rev-parse -q --verify topic"),
    bash("worktree", "commit in a worktree",
         "git worktree add -q -b side side && cd side && echo x >side.txt && git add side.txt && git commit -qm side",
         check="test \"$(git log -1 --format=%s side --)\" = side && test -f side/side.txt"),
    bash("npm", "npm install", "npm install --no-audit --no-fund --registry http://localhost:{registry} left-pad",
         check="test \"$(node -p \"require('left-pad')(7)\")\" = 7"),
    bash("pip", "pip install",
         "python3 -m venv .venv && .venv/bin/pip install -q --index-url http://localhost:{registry}/simple --trusted-host localhost six",
         check=".venv/bin/python -c 'import six'"),
    bash("server", "a server, and a request to it", "curl -sSf -m 20 http://localhost:{server}/README.md", prints=("A shop",), background=True),
    bash("browser", "Playwright with Chromium", "node page.test.js", prints=("title: Shop",)),
    bash("undo", "delete, and undo", "rm notes.txt", check="test ! -e notes.txt", undone="test -e notes.txt"),
    bash("secret", "`cat .env`", "cat .env", expect="deny", never_prints=(SECRET,)),
    bash("docker", "`docker ps`", "docker ps", expect="ask", question="grave"),
]
SERVER = "python3 -m http.server {server}"

# What must end by itself, while a second command runs on. Each tries to take eight gibibytes, or all processes.
BOMBS = [
    ("forks", "a fork bomb", "python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'"),
    ("anonymous", "8 GB, anonymous", "python3 -c '\nimport os, mmap, time\nfor n in range(4):\n  if os.fork() == 0:\n    m = mmap.mmap(-1, 2 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n    for at in range(0, 2 << 30, 4096): m[at] = 1\n    print(\"took 2 GB\", flush=True); time.sleep(30); os._exit(0)\nfor n in range(4): os.wait()'"),
    ("shared", "8 GB, shared", "python3 -c '\nimport os, mmap, time\nm = mmap.mmap(-1, 8 << 30)\nfor at in range(0, 8 << 30, 4096): m[at] = 1\nprint(\"took 8 GB\", flush=True); time.sleep(30)'"),
    ("memfd", "8 GB, memfd", "python3 -c '\nimport os, time\nkept = []\nblock = bytes(1 << 24)\nfor n in range(16):\n  fd = os.memfd_create(\"x\"); kept.append(fd)\n  for _ in range(32): os.write(fd, block)\nprint(\"took 8 GB\", flush=True); time.sleep(30)'"),
]
SECOND = "for n in 1 2 3 4 5 6 7 8 9 10; do sleep 0.3; echo $n; done; echo lived"

FILES = {
    "README.md": "A shop.\n",
    "notes.txt": "one\n",
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "import unittest\nfrom calc import add\n\n\nclass Add(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
    "Makefile": "build/app: src/app.c\n\tmkdir -p build\n\tcc -o $@ src/app.c\n",
    "src/app.c": "#include <stdio.h>\n\nint main(void) {\n    puts(\"42\");\n    return 0;\n}\n",
    "package.json": "{\"name\": \"shop\", \"version\": \"0.1.0\", \"private\": true}\n",
    "docs/old.md": "old\n",
    ".gitignore": "build/\nnode_modules/\n.venv/\n__pycache__/\n.env\nside/\n",
    ".env": f"KEY={SECRET}\n",
    "page.test.js": """const http = require("http");
const { chromium } = require("{browser}/node_modules/playwright-core");

(async () => {
  const server = http.createServer((_, answer) => answer.end("<title>Shop</title>")).listen(0, "127.0.0.1");
  await new Promise((ready) => server.on("listening", ready));
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium" });
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  console.log("title: " + (await page.title()));
  await browser.close();
  server.close();
})().catch((error) => { console.error(error); process.exit(1); });
""",
}
