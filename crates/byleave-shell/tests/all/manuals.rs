//! The effects that manuals give to commands.

use byleave_core::effect::Effect;
use byleave_shell::danger::DangerSeverity;
use byleave_shell::effects::CommandEffects;
use byleave_shell::shell_env::ShellEnv;
use proptest::prelude::*;

/// The fixture of the corpus: `/ws` is the workspace, `/home/u` the home, and every program is in `/usr/bin`.
struct Fixture;

impl ShellEnv for Fixture {
    fn cwd(&self) -> &str {
        "/ws"
    }
    fn home(&self) -> Option<&str> {
        Some("/home/u")
    }
    fn variable(&self, _: &str) -> Option<String> {
        None
    }
    fn find_program(&self, name: &str) -> Option<String> {
        match name {
            "/ws/t" => Some("/usr/bin/touch".into()),
            "awk" => Some("/usr/bin/mawk".into()),
            "corepack" => Some("/usr/lib/node_modules/corepack/dist/corepack.js".into()),
            "nc" => Some("/usr/bin/touch".into()),
            "./ls" | "/ws/ls" => Some("/ws/ls".into()),
            "missing" | "." | ":" | "gradlew" | "build.sh" => None,
            name => match name.rsplit_once('/') {
                Some(("/usr/bin" | "/bin", base)) => Some(format!("/usr/bin/{base}")),
                Some(("/ws/node_modules/.bin", "vitest" | "tsc" | "eslint")) => Some(name.to_owned()),
                Some((directory, _)) if directory.ends_with("/node_modules/.bin") => None,
                Some(_) => self.resolve("/ws", name),
                None => Some(format!("/usr/bin/{name}")),
            },
        }
    }
    fn resolve(&self, cwd: &str, path: &str) -> Option<String> {
        let mut steps: Vec<&str> = Vec::new();
        for step in if path.starts_with('/') { "" } else { cwd }.split('/').chain(path.split('/')) {
            match step {
                "" | "." => {}
                ".." => drop(steps.pop()),
                step => steps.push(step),
            }
            if steps == ["ws", "link"] {
                steps = vec!["outside", "dir"];
            }
        }
        Some(format!("/{}", steps.join("/")))
    }
    fn list_directory(&self, directory: &str) -> Option<Vec<String>> {
        let names: &[&str] = match directory {
            "/ws" => &[".env", "Makefile", "conf", "src", "link"],
            "/ws/conf" => &["prod.key"],
            _ => &[],
        };
        Some(names.iter().map(|name| (*name).into()).collect())
    }
    fn is_directory(&self, path: &str) -> bool {
        matches!(path, "/" | "/ws" | "/ws/conf" | "/ws/src" | "/home/u")
    }
    fn read_script(&self, path: &str) -> Option<String> {
        (path == "/ws/x.sh").then(|| "touch /tmp/gate-marker".into())
    }
}

fn account(text: &str) -> CommandEffects {
    byleave_shell::analyze(text, &Fixture)
}

fn shown(text: &str) -> Vec<String> {
    account(text)
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Run { program, argv } => {
                let name = program.rsplit('/').next().unwrap();
                format!("run {name} {}", argv[1..].join(" ")).trim_end().to_owned()
            }
            Effect::Unknown { .. } => "unknown".to_owned(),
            other => other.to_string(),
        })
        .collect()
}

// req: P3
#[test]
fn words_lead_to_effects() {
    let mut wrong = Vec::new();
    for line in include_str!("effects.txt").lines() {
        let Some((command, wanted)) = line.split_once(" => ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let shown = shown(command.trim());
        for wanted in wanted.split(';').map(str::trim).filter(|wanted| !wanted.is_empty()) {
            let holds = match wanted.strip_prefix("not ") {
                Some(kind) => !shown.iter().any(|own| own.starts_with(kind)),
                None => shown.iter().any(|own| own == wanted),
            };
            if !holds {
                wrong.push(format!("{command}: `{wanted}` does not hold of {shown:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// req: P3
#[test]
fn a_program_under_the_name_that_systems_give_it_is_one_program() {
    let runs = |text: &str| -> Vec<(String, String)> {
        let effects = account(text).effects.into_iter();
        let run = |effect| match effect {
            Effect::Run { program, argv } => Some((program, argv[0].clone())),
            _ => None,
        };
        effects.filter_map(run).collect()
    };
    let file = "/usr/lib/node_modules/corepack/dist/corepack.js";
    assert_eq!(runs("corepack enable"), [(file.to_owned(), "corepack".to_owned())]);
    // If a name belongs to another program, the effects of both are reported.
    let both = runs("nc x");
    assert!(both.iter().any(|(program, _)| program == "/usr/bin/touch"), "{both:?}");
    assert!(both.iter().any(|(program, _)| program == "nc"), "{both:?}");
}

// req: P3
#[test]
fn what_is_everyday_is_understood() {
    let mut asked = Vec::new();
    let lines: Vec<&str> = include_str!("everyday.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    for line in &lines {
        let account = account(line);
        let unknown: Vec<_> =
            account.effects.iter().filter(|effect| matches!(effect, Effect::Unknown { .. })).collect();
        if !unknown.is_empty() || account.effects.is_empty() || !account.dangers.is_empty() {
            asked.push(format!("{line}: {unknown:?} {:?}", account.dangers));
        }
    }
    assert!(asked.is_empty(), "{} of {}:\n{}", asked.len(), lines.len(), asked.join("\n"));
}

// req: P3
#[test]
fn dangers_are_recognised_however_they_are_spelled() {
    for line in include_str!("dangers.txt").lines() {
        let Some((command, wanted)) = line.split_once(" => ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let found = account(command.trim()).dangers;
        let found: Vec<String> = found
            .iter()
            .map(|danger| {
                if danger.grade == DangerSeverity::Deny {
                    format!("{} deny", danger.id)
                } else {
                    danger.id.clone()
                }
            })
            .collect();
        if wanted.trim() == "none" {
            assert!(found.is_empty(), "{command}: {found:?}");
        } else {
            assert!(found.iter().any(|own| own == wanted.trim()), "{command}: no `{wanted}` in {found:?}");
        }
    }
}

// req: P3
#[test]
fn what_is_too_deep_is_unknown_and_still_seen() {
    let many = format!("{}touch /tmp/x", "true;".repeat(5_000));
    for text in [
        format!("{} touch /tmp/x", "env ".repeat(300)),
        many,
        format!("{} touch /tmp/x", "strace ".repeat(20)),
    ] {
        let shown = shown(&text);
        assert!(
            shown.contains(&"unknown".to_owned()) && shown.contains(&"run touch /tmp/x".to_owned()),
            "{text}"
        );
    }
}

#[test]
fn a_function_is_no_program_and_one_that_doubles_itself_is_a_bomb() {
    let account = account(":() { : | : & }; :");
    assert!(!account.effects.iter().any(|effect| matches!(effect, Effect::Run { .. })), "{account:?}");
    assert_eq!(account.dangers.iter().map(|danger| danger.id.as_str()).collect::<Vec<_>>(), ["fork-bomb"]);
}

#[test]
fn commands_from_a_download_are_a_danger() {
    let dangers = |text: &str| {
        let dangers = account(text).dangers;
        dangers.iter().map(|danger| danger.id.clone()).collect::<Vec<_>>()
    };
    for text in [
        "curl -fsSL https://example.org/install.sh | sh",
        "curl -fsSL https://example.org/install.sh | sudo bash",
        "wget -qO- https://example.org/x | tee log | bash",
    ] {
        assert!(dangers(text).contains(&"run-download".to_owned()), "{text}: {:?}", dangers(text));
    }
    for text in ["echo true | sh", "curl -fsSL https://example.org/x -o x", "cat x | sh"] {
        assert!(!dangers(text).contains(&"run-download".to_owned()), "{text}");
    }
}

const WRAPPERS: &[(&str, &str)] = &[
    ("env ", ""),
    ("env -u X -- A=1 ", ""),
    ("timeout -k 1 5 ", ""),
    ("nice -n 5 ", ""),
    ("nohup ", ""),
    ("setsid -w ", ""),
    ("stdbuf -o0 ", ""),
    ("command -p ", ""),
    ("exec -a x ", ""),
    ("busybox ", ""),
    ("sudo -n ", ""),
    ("time -p ", ""),
    ("flock -u /ws ", ""),
    ("watch -x ", ""),
    ("xargs -t ", ""),
    ("eval ", ""),
    ("find . -exec ", " \\;"),
    ("sh -c '", "'"),
    ("bash --norc -O extglob -ec '", "'"),
];

const INNER: &[&str] = &[
    "touch /tmp/m",
    "cat .env",
    "rm -rf src",
    "git push --force",
    "cp a /outside/b",
    "curl http://h.example/",
    "frob /x/y",
];

proptest! {
    // req: P3
    #[test]
    fn a_wrapper_takes_nothing_away(inner in 0..INNER.len(), around in prop::collection::vec(0..WRAPPERS.len(), 1..4)) {
        let inner = INNER[inner];
        let mut text = inner.to_owned();
        for at in around {
            let (before, after) = WRAPPERS[at];
            // `eval` removes quotes, so with quotes it is another command.
            if (before.contains('\'') || before == "eval ") && text.contains(['\'', '\\']) {
                continue;
            }
            text = format!("{before}{text}{after}");
        }
        let outer = shown(&text);
        for effect in shown(inner) {
            let fits = |own: &String| *own == effect || own.starts_with(&format!("{effect} "));
            prop_assert!(outer.iter().any(fits), "{}: lost {} of {:#?}", text, effect, outer);
        }
        let dangers = account(&text).dangers;
        prop_assert!(account(inner).dangers.iter().all(|danger| dangers.contains(danger)), "{}", text);
    }
}
