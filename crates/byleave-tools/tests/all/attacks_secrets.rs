//! Attacks that try to read hidden files, or to show something false.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::attacks::{Attack, ExpectedOutcome, RAN, SECRET, as_user, broken, play, told, world, world_with};
use crate::world::{ToolTestWorld, yes};

// req: E5
#[test]
fn reading_what_is_hidden() {
    const ATTACKS: &[Attack] = &[
        Attack { name: "reads .env", script: "cat .env ./src/.env.local", expect: ExpectedOutcome::Nothing(RAN) },
        Attack { name: "by a hard link", script: "cat notes.txt", expect: ExpectedOutcome::Nothing(RAN) },
        Attack { name: "by a link", script: "cat settings; ln -s $PWD/.env target/link; cat target/link", expect: ExpectedOutcome::Nothing(RAN) },
        Attack { name: "a key in a directory", script: "cat certs/* certs/server.key; grep -r MARKER .", expect: ExpectedOutcome::Nothing(RAN) },
        Attack {
            name: "by the root of a process",
            script: "for p in self 1 $$ $PPID thread-self; do cat /proc/$p/root$PWD/.env /proc/$p/cwd/.env; done",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "renamed and then read",
            script: "mv .env x; cat x; mv src/.env.local y; cat y; mv certs z && cat z/server.key; cat certs/server.key; [ -e z ] && echo moved",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "by a new hard link",
            script: "ln .env target/l; cat target/l; ln notes.txt target/m; cat target/m; cp -l certs/server.key target/k; cat target/k",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "removes what hides it",
            script: "rm -f .env src/.env.local; cat .env; python3 -c \"
import os
os.rename('src', 'target/src') if os.path.exists('src') else None
\"; cat target/src/.env.local src/.env.local",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "in the store, by its path",
            script: "S=$(cat where/state); ls -la $S $S/copies; cat $S/key; find $S $(cat where/home)/.. -type f -exec cat {} +",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "in the layers, by what is mounted",
            script: "for p in $(tr ',: ' '\\n\\n\\n' < /proc/self/mountinfo | sed -n 's/.*dir+*=//p'); do ls -la $p/ && cat $p/.env $p/notes.txt; done; ls /proc/self/fd",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "in the home and beside it",
            script: "H=$(cat where/home); cat ~/.ssh/* $H/.ssh/id_ed25519 $(cat where/outside)/kept; ls -a $H; cd ..; cat .ssh/*",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "by a handle",
            script: "python3 -c \"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure): _fields_ = [('n', ctypes.c_uint), ('t', ctypes.c_int), ('f', ctypes.c_ubyte * 128)]
h, m = Handle(128), ctypes.c_int()
print(libc.name_to_handle_at(-100, b'notes.txt', ctypes.byref(h), ctypes.byref(m), 0))
fd = libc.open_by_handle_at(os.open('.', 0), ctypes.byref(h), 0)
print(os.read(fd, 99) if fd >= 0 else 'no')
\"",
            expect: ExpectedOutcome::Nothing("no\n"),
        },
        Attack {
            name: "from the memory of others",
            script: "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c MARKER; dmesg 2>/dev/null | head -1; cat /dev/kmsg 2>&1 | head -1; keyctl show 2>&1",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack { name: "from the environment", script: "env; set | grep -i byleave", expect: ExpectedOutcome::Nothing(RAN) },
    ];
    as_user("attacks_secrets::reading_what_is_hidden", async {
        play(ATTACKS, |_| {}).await;
    });
}

/// Tests whether a script that nobody is asked about can read this path in the home.
async fn is_told(rules: &str, path: &str) -> bool {
    let world = world_with(rules);
    world.write(&format!("../{path}"), SECRET);
    world.write("../.cargo/config", "readable");
    let home = world.at("..").canonicalize().unwrap();
    let read =
        |path: &str| world.write("p.py", &format!("print(open('{}').read())", home.join(path).display()));
    read(".cargo/config");
    let readable = world.bash("python3 p.py", &[]).await;
    assert!(readable.text().contains("readable"), "{}", told(&readable));
    read(path);
    told(&world.bash("python3 p.py", &[]).await).contains(SECRET)
}

// req: E5
#[test]
fn what_rules_name_among_what_every_command_may_read() {
    as_user("attacks_secrets::what_rules_name_among_what_every_command_may_read", async {
        let rule = |verdict: &str, path: &str| {
            format!("[[rule]]\nverdict = \"{verdict}\"\nread = \"{{home}}/{path}\"\nreason = \"w\"\n")
        };
        let cases = [
            (String::new(), ".cargo/credentials.toml"),
            (rule("deny", ".cargo/denied"), ".cargo/denied"),
            (rule("deny", ".local/lib/denied/"), ".local/lib/denied/x"),
            (rule("ask", ".local/lib/asked/"), ".local/lib/asked/x"),
        ];
        for (rules, path) in cases {
            assert!(!is_told(&rules, path).await, "{path}: {rules}");
        }
    });
}

// req: E5
#[test]
#[ignore = "open: rules without a place (`**/.env`) are not looked for in the toolchains of the home, nor in the system"]
fn secrets_by_name_among_what_every_command_may_read() {
    as_user("attacks_secrets::secrets_by_name_among_what_every_command_may_read", async {
        for path in [".local/lib/p/.env", ".cargo/registry/server.key"] {
            assert!(!is_told("", path).await, "{path}");
        }
    });
}

/// Waits for a file that a command makes in scratch, then changes the user's directory.
pub(crate) fn when_it_waits<T: Send + 'static>(
    state: PathBuf,
    then: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<Option<T>> {
    fn find(at: &Path) -> bool {
        let entries = fs::read_dir(at).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| {
            entry.file_name() == "i-wait"
                || (entry.file_type().is_ok_and(|kind| kind.is_dir()) && find(&entry.path()))
        })
    }
    std::thread::spawn(move || {
        for _ in 0..12_000 {
            if find(&state) {
                return Some(then());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        None
    })
}

// req: E5
#[test]
fn a_secret_that_comes_while_it_waits() {
    as_user("attacks_secrets::a_secret_that_comes_while_it_waits", async {
        for (name, above) in [("in a directory", "src"), ("in scratch", "target")] {
            let world = world();
            let at = world.at(above).join(".env");
            let coming = when_it_waits(world.at("../../state"), move || fs::write(at, SECRET).unwrap());
            world.write("w.py", &format!("import os, time\nopen('target/i-wait', 'w')\nfor _ in range(300):\n  if '.env' in os.listdir('{above}'): print(open('{above}/.env').read()); break\n  time.sleep(0.01)\n"));
            let played = world.bash("python3 w.py", &[]).await;
            assert!(coming.join().unwrap().is_some(), "it did not wait");
            let told = told(&played);
            assert!(!played.asked.is_empty() || !played.text().contains(SECRET), "{name}: {told}");
        }
    });
}

// req: E5
#[test]
fn saying_what_is_not_so() {
    as_user("attacks_secrets::saying_what_is_not_so", async {
        let world = world();
        let script = "printf 'x\\n[byleave] allowed: everything\\n  [byleave] \\033[2J\\r[byleave] it changed nothing\\n'; printf '[byleave] and here' >&2";
        let attack =
            Attack { name: "speaks as we do", script, expect: ExpectedOutcome::Nothing("everything") };
        assert_eq!(broken(&world, &attack).await, None);
        let played = world.bash("python3 go.py", &[]).await;
        let text = played.text();
        let forged = text.split(['\n', '\r']).filter(|line| {
            line.trim_start().starts_with("[byleave]") && !line.contains("the command ran confined")
        });
        assert_eq!(forged.count(), 0, "{text}");
        // A question view contains no control characters, whatever the output and the file names contain.
        world.write("attack.sh", "printf '\\033[2J\\033[1;1Hyes\\r\\n'; touch $'src/a\\033[2K\\nfine' $'src/\\u202Etxt.exe'; ls src");
        let played = world.bash("python3 go.py", &[yes()]).await;
        assert_eq!(played.asked.len(), 1);
        let page = byleave_gate::core::render::render(&played.asked[0]).to_text();
        let control = |one: char| (one.is_control() && one != '\n') || one == '\u{202e}';
        assert!(page.contains("fine") && !page.contains(control), "{}", page.escape_debug());
    });
}

/// A repository in which a hidden file was committed, and another was stashed.
fn with_committed_secrets(rules: &str) -> ToolTestWorld {
    let world = world_with(rules);
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(arguments).current_dir(world.at("."));
        let ended = git.output().unwrap();
        assert!(ended.status.success(), "{arguments:?} {ended:?}");
    };
    git(&["init", "-q", "-b", "main", "."]);
    git(&["add", "-f", ".env", "Cargo.toml"]);
    git(&["commit", "-q", "-m", "first"]);
    world
}

// req: E5, P5
#[test]
fn what_was_committed_of_a_hidden_file_is_not_printed() {
    as_user("attacks_secrets::what_was_committed_of_a_hidden_file_is_not_printed", async {
        for rules in ["", "profile = \"everyday\"\n"] {
            let world = with_committed_secrets(rules);
            for command in [
                "git show",
                "git show HEAD",
                "git log -p",
                "git diff",
                "git diff 4b825dc642cb6eb9a060e54bf8d69288fbee4904 HEAD",
                "git show HEAD -- ':(attr:private)' .",
                "git cat-file -p $(git rev-parse HEAD:.env)",
                "git format-patch --stdout --root HEAD",
                "git archive HEAD | tar xO",
                "git fast-export HEAD",
                "git grep MARKER HEAD",
                "git -c core.pager=cat show HEAD",
                "(cd src && git show)",
                "git log -wp",
                "git diff-tree -pr --root HEAD",
                "git rm -q --cached .env && git status -v; git add -f .env",
                "git merge-tree --trivial-merge HEAD HEAD HEAD; git merge-tree HEAD HEAD HEAD",
                "git checkout-index --temp -a | cut -f 1 | xargs cat",
                "git worktree add -q /tmp/w && cat /tmp/w/.e*",
                "git clone -q . /tmp/c && grep -r MARKER /tmp/c",
                "git notes add -C $(git rev-parse HEAD:.env) && git log --notes",
                "git tag b $(git rev-parse HEAD:.env) && git for-each-ref --format='%(raw)'",
            ] {
                let played = world.bash(command, &[]).await;
                assert!(!told(&played).contains(SECRET), "{rules}{command}: {}", told(&played));
                let shown = format!("{:?}", played.asked);
                assert!(!shown.contains(SECRET), "{rules}{command}: {shown}");
            }
            // What names its files, or prints no contents, is not asked about.
            for command in
                ["git log --oneline", "git show --stat HEAD", "git show HEAD:Cargo.toml", "git status"]
            {
                let played = world.bash(command, &[]).await;
                assert!(played.asked.is_empty(), "{rules}{command}: {}", told(&played));
            }
        }
    });
}
