//! Compares the awk scanner with real awks. A program that runs a command or writes a file must not be reported as harmless.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use byleave_core::effect::Effect;
use byleave_shell::analyze;

use crate::stage::FakeShellEnv;

/// The programs that are tried, each with its leading words.
const AWKS: [&[&str]; 4] = [&["mawk"], &["gawk"], &["gawk", "--posix"], &["busybox", "awk"]];

/// Programs that were once read wrongly, or that show a place where awks differ.
const TRICKY: &[&str] = &[
    "BEGIN{$/\"/;system(\"touch m\")#\"/\n}",
    "{ $/\"/; print > \"out\" #\"/\n}",
    "BEGIN{length/\"/;system(\"touch m\")#\"/\n}",
    "BEGIN{1./1.///;system(\"touch m\")//}",
    "BEGIN{x = 1 \\ \n/ system(\"touch m\") / 2}",
    "{print \"x\",\n\n\"y\" > \"out\"}",
    "{print 1 ||\n# note\n2 > \"out\"}",
    "{print /;/ > \"out\"; x=1/2}",
    "{print /x{/ >> \"out\"; n=1/2}",
    "BEGIN{x=0xfsystem(\"touch m\")}",
    "BEGIN{x=/[/]\"/;system(\"touch m\")}#\"",
    "/[]/]\"/{system(\"touch m\")}#\"",
    "BEGIN{if(1)/\"/;system(\"touch m\")#\"/\n}",
    "BEGIN{x=\"a\"/\"/;system(\"touch m\")#\"/\n}",
];

/// The pieces that random programs consist of.
const PIECES: &[&str] = &[
    "/",
    "/",
    "/",
    "/",
    "\"",
    "\"",
    "\"",
    "system(\"touch m\")",
    "system(\"touch m\")",
    "print",
    "print 1",
    "printf \"x\"",
    ">",
    ">",
    ">>",
    " > \"out\"",
    "|",
    "||",
    "&&",
    "\"touch m\"",
    " | \"sh\"",
    "getline",
    "x",
    "y",
    "$1",
    "$",
    "NF",
    "1",
    "1.",
    ".5",
    "0xf",
    "1e5",
    "(",
    ")",
    "[",
    "]",
    "a[1]",
    "{",
    "}",
    ";",
    "\n",
    "\n",
    ",",
    "~",
    "!",
    "=",
    "==",
    "/=",
    "++",
    "--",
    "+",
    "-",
    "*",
    "%",
    "^",
    "?",
    ":",
    "in",
    "if (1)",
    "while (0)",
    "do",
    "else",
    "for (;0;)",
    "return",
    "length",
    "BEGIN",
    "END",
    "#",
    "#\"",
    "\\",
    "\\\n",
    "\\ \n",
    " ",
    " ",
    " ",
    "function f(a) {",
    "f(1)",
    "delete a",
    "next",
    "exit",
    "/x/",
    "/[/]/",
    "/a;b/",
    "/\"/",
    "/[\"]/",
    "\"a/b\"",
    "print > \"out\"",
];

/// The number of random programs in the short form and in the long form.
const PROGRAMS: u64 = 400;
const PROGRAMS_LONG: u64 = 100_000;

struct AwkFixture {
    top: tempfile::TempDir,
    timeout: PathBuf,
    awks: Vec<Vec<PathBuf>>,
}

impl AwkFixture {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let programs = top.path().join("bin");
        fs::create_dir_all(&programs).unwrap();
        fs::create_dir_all(top.path().join("ws")).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let find = |name: &str| {
            std::env::split_paths(&path).map(|place| place.join(name)).find(|file| file.is_file())
        };
        // A shell that an awk starts finds only these. Each leaves a mark.
        for name in ["touch", "sh", "x", "y", "z", "0", "1", "2", "3"] {
            fs::write(programs.join(name), "#!/bin/sh\n: > m\n").unwrap();
            fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let awks = AWKS.iter().filter_map(|words| {
            let mut command = vec![find(words[0])?];
            command.extend(words[1..].iter().map(PathBuf::from));
            Some(command)
        });
        let awks: Vec<_> = awks.collect();
        assert!(!awks.is_empty(), "no awk is here; install mawk, gawk or busybox");
        Self { awks, timeout: find("timeout").unwrap(), top }
    }

    /// Runs a program with each awk, and returns the first that did more than print.
    fn first_that_acts(&self, program: &str) -> Option<String> {
        self.awks.iter().find_map(|awk| self.acts(awk, program).then(|| format!("{awk:?}")))
    }

    /// Runs a program, and returns whether it made a file. Every command that it can start makes one.
    fn acts(&self, awk: &[PathBuf], program: &str) -> bool {
        let place = self.top.path().join("ws");
        fs::write(place.join("a.txt"), "x y z\n1 2 3\n").unwrap();
        let mut command = Command::new(&self.timeout);
        command.args(["-k1", "2"]).args(awk).arg(program).arg("a.txt");
        command.current_dir(&place).env_clear().env("PATH", self.top.path().join("bin"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        let made = fs::read_dir(&place).unwrap().flatten().filter(|entry| entry.file_name() != "a.txt");
        let made: Vec<PathBuf> = made.map(|entry| entry.path()).collect();
        for file in &made {
            fs::remove_file(file).unwrap();
        }
        !made.is_empty()
    }
}

fn is_harmless(program: &str) -> bool {
    let quoted = program.replace('\'', "'\\''");
    let account = analyze(&format!("awk '{quoted}' a.txt"), &FakeShellEnv::default());
    account.nested.is_empty()
        && account.effects.iter().all(|effect| matches!(effect, Effect::Run { .. } | Effect::Read { .. }))
}

/// A random number generator whose seed is shown with a failure.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn random_program(seed: u64) -> String {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let count = 2 + dice.below(12);
    let body: String = (0..count).map(|_| PIECES[dice.below(PIECES.len())]).collect();
    if dice.below(4) == 0 { body } else { format!("BEGIN{{{body}}}") }
}

fn check(count: u64) -> (usize, usize) {
    let fixture = AwkFixture::new();
    for program in TRICKY {
        assert!(!is_harmless(program) || fixture.first_that_acts(program).is_none(), "{program:?}");
    }
    let mut harmless = 0;
    for seed in 0..count {
        let program = random_program(seed);
        // Only what is taken for harmless is run.
        if is_harmless(&program) {
            harmless += 1;
            let acts = fixture.first_that_acts(&program);
            assert_eq!(acts, None, "seed {seed}: {program:?}");
        }
    }
    (harmless, fixture.awks.len())
}

// req: P5
#[test]
fn an_awk_program_that_is_taken_for_harmless_only_prints() {
    check(PROGRAMS);
}

// req: P5
#[test]
#[ignore = "takes minutes: scripts/prove awk"]
fn differential_many_awk_programs_that_are_taken_for_harmless_only_print() {
    let (harmless, awks) = check(PROGRAMS_LONG);
    println!("figure: programs {PROGRAMS_LONG}");
    println!("figure: harmless_and_run {harmless}");
    println!("figure: awks {awks}");
}
