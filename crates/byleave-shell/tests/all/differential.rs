//! Compares the parser with the real bash. Everything that bash runs must be in the result, or the result must say that it
//! is incomplete.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use byleave_shell::commands::{ParsedCommands, RedirectionAccess, WorkingDir};
use byleave_shell::parse_commands;
use byleave_shell::word::Word;

use crate::scripts::script;
use crate::stage::RealShellEnv;
use crate::tricky::TRICKY;

/// The shell runs this instead of every program. It logs its arguments and its directory. `p1` fails, all others succeed.
const STUB: &str = r#"
ulimit -t 2 -f 512 -v 400000
exec 19>&1
FUNCNEST=12
command_not_found_handle() {
  builtin cd -P .
  builtin printf '%s\0' "$#" "$PWD" "$@" >> "$STUB_LOG"
  [[ $1 != p1 ]]
}
"#;

/// Scripts that were once parsed wrongly, by error.
const REGRESSIONS: &[&str] = &[
    // A tilde after the second `=` of an assignment is not expanded.
    "v=a=~; p0 \"${v}\"",
    // Nor before a colon that is followed by quoted text.
    "p0 ~:\\  ~:x",
    // An expansion that fails drops the rest of its line, including assignments.
    "v=1; p0 $((1/0)); v=2\np0 $v",
    "v=1; eval 'v=$((1/0)); v=2'; p0 $v",
    "v=1; { v=2; w=${%}; v=3; }; p0\np0 $v",
    "readonly w=1; v=1; eval 'w=2; v=2'; p0 $v",
    // A redirection that fails prevents a group, a builtin or `eval` from running.
    "v=1; { v=2; cd d1; } > nosuch/f; p0 $v",
    "v=1; eval 'v=2; cd d1' > nosuch/f; p0 $v",
    // A dollar sign that begins no expansion prevents word splitting.
    "p0 $FOO$ ${FOO}$/x a$ $FOO",
    // `((` that is not arithmetic is parsed twice, and a here-document in it is split.
    "(( p0 $(p2 <<E\na,b\nE\n); run ) )",
    // Background jobs see files that are made after they began.
    "p2 d*/* & pushd d2 > f0; p0 > f0; wait",
    // Braces are expanded before the dollar.
    "v=1 va=2; p0 $v{a,b} {$v,x}a {p$,q}v",
    // A brace that closes before any comma is an ordinary character (seed 37364).
    "p0 {p}1,z} {a{b}c,d} {a}..b} {1..}x,y} {}a,b} x{}a,b} {a{}b,c} {a,{}b,c}} {a,b}{}c,d}",
    // The replacement of `~` before a colon includes more than the tilde (seed 44691).
    "cd d1; cd ..; p0 ~+: ~-:x ~+:/a ~+/b",
    // Globs are expanded after all words are, including those after the glob (seeds 39562, 61804).
    "p0 * $(p1 > f0)",
    "p0 * ${v:-$(p1 >& f2)}",
    "for v in * $(p1 > f1); do p0 $v; done",
    // The result of brace expansion is not an assignment, so a tilde in it is not expanded (seed 14358).
    "p0 {a,{b,c}}d=b:~ {a,b}=~ x={~,a} x=~/{a,b} {~,x} {~/,x}y x={a,b}:~",
];

/// The directory and the arguments of each run.
type CommandRuns = Vec<(String, Vec<String>)>;

struct DifferentialFixture {
    top: tempfile::TempDir,
    count: AtomicU64,
    scene: RealShellEnv,
}

impl DifferentialFixture {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(top.path()).unwrap();
        // Deep enough that a few `cd ..` stay within.
        let cwd = real.join("1/2/3/4/5/6/7/8/9/ws");
        let home = real.join("home");
        for directory in ["d1", "d2", "d2/sub"] {
            fs::create_dir_all(cwd.join(directory)).unwrap();
        }
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(real.join("empty")).unwrap();
        for file in ["a.txt", "b.txt", ".hid", "sp ace", "d1/x.c", "d1/y.c", "d2/z"] {
            fs::write(cwd.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("d2/sub", cwd.join("link")).unwrap();
        fs::write(real.join("stub.sh"), STUB).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let scene = RealShellEnv { cwd: text(cwd), home: text(home), variables: vec![("FOO", "foo bar")] };
        Self { top, count: AtomicU64::new(0), scene }
    }

    /// Runs a script. Returns the arguments and the directory of everything that it ran, and the files that it made. Returns `None` if
    /// it does not end within this time.
    fn run(&self, text: &str, patience: Duration) -> Option<(CommandRuns, Vec<String>)> {
        let top = fs::canonicalize(self.top.path()).unwrap();
        // A separate log for each run, so that a leftover process of the previous one writes elsewhere.
        let log = top.join(format!("log{}", self.count.fetch_add(1, Ordering::Relaxed)));
        let mut child = Command::new(bash())
            .args(["-c", text])
            .current_dir(&self.scene.cwd)
            .process_group(0)
            .env_clear()
            .env("PATH", top.join("empty"))
            .env("HOME", &self.scene.home)
            .env("FOO", "foo bar")
            .env("LC_ALL", "C.UTF-8")
            .env("BASH_ENV", top.join("stub.sh"))
            .env("STUB_LOG", &log)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // All running processes hold the pipe open, so its end means that all have ended.
        let mut out = child.stdout.take().unwrap();
        let (done, finished) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut sink = Vec::new();
            out.read_to_end(&mut sink).ok();
            done.send(()).ok();
        });
        let in_time = finished.recv_timeout(patience).is_ok();
        if !in_time {
            // Kills the shell and all its children by their process group.
            let kill = format!("kill -9 -- -{}", child.id());
            Command::new(bash()).args(["-c", &kill]).stderr(Stdio::null()).status().unwrap();
        }
        child.wait().unwrap();
        if in_time {
            reader.join().unwrap();
        }
        let mut made = Vec::new();
        sweep(Path::new(&self.scene.cwd), &mut made);
        sweep(&top.join("1/2/3/4/5/6/7"), &mut made);
        sweep(&top.join("home"), &mut made);
        let runs = if in_time { logged(&log).map(|runs| (runs, made)) } else { None };
        fs::remove_file(&log).ok();
        runs
    }
}

/// The path of bash, found before the test's PATH leads nowhere.
fn bash() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|directory| directory.join("bash")).find(|file| file.is_file()).unwrap()
}

/// Removes the files that a script made.
fn sweep(directory: &Path, made: &mut Vec<String>) {
    const OURS: [&str; 12] =
        ["a.txt", "b.txt", ".hid", "sp ace", "d1", "d2", "sub", "x.c", "y.c", "z", "link", "ws"];
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            sweep(&entry.path(), made);
        } else if !OURS.contains(&name.as_str()) && kind.is_file() {
            fs::remove_file(entry.path()).unwrap();
            made.push(name);
        }
    }
}

fn logged(log: &Path) -> Option<CommandRuns> {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut fields = text.split('\0');
    let mut runs = Vec::new();
    while let Some(count) = fields.next().filter(|count| !count.is_empty()) {
        // Truncated by the limit on file sizes.
        let count: usize = count.parse().ok()?;
        let place = fields.next()?.to_owned();
        runs.push((place, fields.by_ref().take(count).map(str::to_owned).collect()));
    }
    Some(runs)
}

/// Tests whether the shell could make these arguments from these words.
fn could_be(words: &[Word], arguments: &[String]) -> bool {
    match words.split_first() {
        None => arguments.is_empty(),
        Some((Word::Literal(text), rest)) => {
            arguments.split_first().is_some_and(|(first, others)| first == text && could_be(rest, others))
        }
        Some((word @ Word::Unknown(_), rest)) => (0..=arguments.len())
            .take_while(|taken| *taken == 0 || word.could_equal(&arguments[taken - 1]))
            .any(|taken| could_be(rest, &arguments[taken..])),
    }
}

/// Everything that bash did and the parser did not report.
fn misses(reading: &ParsedCommands, runs: &[(String, Vec<String>)], made: &[String]) -> Vec<String> {
    let mut misses = Vec::new();
    for (place, arguments) in runs {
        let known = reading.commands.iter().any(|command| {
            !command.is_function
                && could_be(&command.words, arguments)
                && match &command.working_dir {
                    WorkingDir::At(at) => at == place,
                    WorkingDir::Unknown(_) => true,
                }
        });
        // `command X` and `builtin X` run X.
        let wrapped = reading.commands.iter().any(|command| {
            matches!(command.words.split_first(), Some((Word::Literal(name), rest)) if name == "command" && could_be(rest, arguments))
        });
        if !known && !wrapped {
            misses.push(format!("ran {arguments:?} in {place}"));
        }
    }
    for file in made {
        let known = reading.commands.iter().flat_map(|command| &command.redirections).any(|redirection| {
            redirection.access != RedirectionAccess::Read && redirection.target.could_equal(file)
        });
        if !known {
            misses.push(format!("made {file}"));
        }
    }
    misses
}

// req: P3
#[test]
fn what_bash_runs_is_in_the_reading() {
    let long = std::env::var("BYLEAVE_PROOF").is_ok_and(|proof| proof == "long");
    let count: u64 = if long { 100_000 } else { 1_200 };
    let first: u64 = std::env::var("BYLEAVE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let next = AtomicU64::new(first);
    let (clear, runs_seen, literal, slow, bad) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let started = Instant::now();
    let reasons = std::sync::Mutex::new(std::collections::BTreeMap::<String, (usize, String)>::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |n| n.get().min(8)) {
            scope.spawn(|| {
                let stage = DifferentialFixture::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    let text = script(seed);
                    let reading = parse_commands(&text, &stage.scene);
                    let Some((runs, made)) = stage.run(&text, Duration::from_secs(2)) else {
                        slow.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    if let Some(riddle) = reading.unresolved.first() {
                        let mut reasons = reasons.lock().unwrap();
                        reasons.entry(riddle.reason.clone()).or_insert_with(|| (0, text)).0 += 1;
                        continue;
                    }
                    clear.fetch_add(1, Ordering::Relaxed);
                    runs_seen.fetch_add(runs.len(), Ordering::Relaxed);
                    for (_, arguments) in &runs {
                        let exact = reading.commands.iter().any(|command| {
                            command
                                .words
                                .iter()
                                .map(Word::as_text)
                                .eq(arguments.iter().map(|argument| Some(argument.as_str())))
                        });
                        literal.fetch_add(usize::from(exact), Ordering::Relaxed);
                    }
                    let misses = misses(&reading, &runs, &made);
                    if !misses.is_empty() && bad.fetch_add(1, Ordering::Relaxed) < 12 {
                        eprintln!("--- seed {seed}\n{text}\n--- {misses:#?}\n--- {:#?}", brief(&reading));
                    }
                }
            });
        }
    });
    let slow = slow.into_inner();
    for (why, (count, example)) in reasons.into_inner().unwrap() {
        if long {
            eprintln!("{count:6} {why}: {example:?}");
        }
    }
    let (clear, bad) = (clear.into_inner(), bad.into_inner());
    eprintln!(
        "{count} scripts in {:?}: {clear} read without a puzzle, {} commands run in those ({} read word for word), {} too slow, {bad} missed",
        started.elapsed(),
        runs_seen.into_inner(),
        literal.into_inner(),
        slow,
    );
    // How many end in time depends on the machine, so the short form does not check it.
    assert!(!long || slow * 50 < usize::try_from(count).unwrap(), "too many scripts did not come to an end");
    assert_eq!(bad, 0, "bash ran something that was not in the reading");
    assert!(
        clear * 2 > usize::try_from(count).unwrap() - slow,
        "most scripts must be read without a puzzle, or this proves nothing"
    );
}

fn brief(reading: &ParsedCommands) -> Vec<String> {
    reading
        .commands
        .iter()
        .map(|command| {
            let words: Vec<String> = command.words.iter().map(|word| format!("{word}")).collect();
            format!(
                "{words:?} at {:?} {}",
                command.working_dir,
                if command.is_function { "function" } else { "" }
            )
        })
        .collect()
}

// req: P3
#[test]
fn what_was_once_read_wrongly_is_read_rightly() {
    let mut wrong = Vec::new();
    let stage = DifferentialFixture::new();
    for text in REGRESSIONS.iter().chain(TRICKY) {
        let reading = parse_commands(text, &stage.scene);
        let (runs, made) =
            stage.run(text, Duration::from_secs(60)).unwrap_or_else(|| panic!("{text} took too long"));
        if reading.unresolved.is_empty() {
            let misses = misses(&reading, &runs, &made);
            if !misses.is_empty() {
                wrong.push(format!("{text}\n{misses:#?}\n{:#?}", brief(&reading)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
