//! Programs in offers: exactly as they were called, or with the same first words where those say what is done.
//!
//! Never a program alone. The first words must name what it does, as in `git push`; where they name what it does it *to*, as in
//! `rm tmp`, or the program does whatever it is told, as `sh`, `env` and `python` do, only the whole command is offered.

use crate::effect::Effect;
use crate::escape::{Care, visible};
use crate::pattern::{Pattern, Sense, last_step, run_fits, stands_in};

/// Programs that run others or do whatever their words say, and those whose first word is what they do it to. The list need
/// not be complete: what is not in it is still offered with its first word only, never alone.
const ONLY_EXACTLY: &[&str] = &[
    // Shells, and what has a shell in it.
    "sh bash dash ash zsh fish ksh csh tcsh pwsh busybox toybox expect script screen tmux ssh mosh su at batch crontab",
    "eval exec source . command builtin trap alias",
    // Wrappers.
    "env sudo doas runuser setpriv nice ionice chrt taskset nohup setsid timeout time stdbuf unbuffer xargs parallel find fd",
    "fdfind watch entr flock chroot unshare nsenter bwrap firejail systemd-run strace ltrace gdb lldb valgrind perf direnv",
    "dotenv npx bunx uvx pipx dlx concurrently nodemon mise asdf",
    // Interpreters.
    "python python2 python3 pypy pypy3 ipython node nodejs deno ts-node tsx ruby irb perl php lua luajit R Rscript julia java",
    "jshell groovy scala kotlin guile tclsh wish ghci runghc ocaml erl iex elixir osascript awk gawk mawk nawk sed ed ex vi",
    "vim nvim emacs jq sqlite3 psql mysql mariadb mongosh redis-cli duckdb",
    // The first word is what it is done to.
    "rm rmdir unlink shred mv cp ln dd install truncate tee touch mkdir mktemp chmod chown chgrp chattr setfacl mount umount",
    "mkfs kill pkill killall tar zip unzip gzip gunzip xz zstd cat echo printf scp sftp rsync curl wget http https nc ncat",
    "socat telnet ftp mail sendmail open xdg-open cd export make gmake",
];

/// Words behind which anything may be run or set, whatever the program.
const RUNS_ANYTHING: &[&str] = &[
    "run run-script exec eval x dlx shell sh ssh script repl console foreach config alias bisect filter-branch rebase",
    "submodule difftool mergetool hook hooks env tool debug attach plugin plugins completion with watch do invoke start",
];

/// Programs whose `run NAME` runs what the project has under that name.
const RUNS_BY_NAME: &[&str] = &["npm pnpm yarn bun"];

/// Programs that say what they do in two words.
const TWO_WORDS: &[&str] = &["gh glab aws gcloud az doctl flyctl fly heroku openstack"];

/// This very command: the program that was found, under the name that it was called by, and its words.
pub(super) fn exactly(program: &str, argv: &[String]) -> (Pattern, String) {
    let called = argv.first().map_or("", String::as_str);
    // What a shell has within itself has no path, and one file may be several programs: those go by their names.
    let by_name = program.starts_with("shell:") || last_step(called) != last_step(program);
    let first = if by_name { last_step(called) } else { program };
    let words: Vec<String> = std::iter::once(first.to_owned()).chain(argv.iter().skip(1).cloned()).collect();
    let spelled: Vec<String> = words.iter().map(|word| spelled(word)).collect();
    let shown = visible(&spelled.join(" "), Care::Name);
    (Pattern::Exactly(words), format!("`{shown}` and nothing more"))
}

/// The same program with the same first words, where those say what it does.
pub(super) fn widened(program: &str, argv: &[String], plan: &[Effect]) -> Option<(Pattern, String)> {
    let (called, given) = argv.split_first()?;
    let name = last_step(called);
    let is_listed = |listed: &str| listed == name || stands_in(listed, name) || listed == last_step(program);
    if each(ONLY_EXACTLY).any(is_listed) {
        return None;
    }
    let first = given.first().filter(|word| is_what(word, plan))?.as_str();
    let second = given.get(1).filter(|word| is_what(word, plan)).map(String::as_str);
    let words = match second {
        Some(second) if is_in(RUNS_BY_NAME, name) && first == "run" => vec![first, second],
        _ if is_in(RUNS_ANYTHING, first) => return None,
        Some(second) if is_in(TWO_WORDS, name) => {
            if is_in(RUNS_ANYTHING, second) {
                return None;
            }
            vec![first, second]
        }
        _ if is_in(TWO_WORDS, name) => return None,
        _ => vec![first],
    };
    let called_by = |by: &str| -> Vec<String> {
        std::iter::once(by).chain(words.iter().copied()).map(str::to_owned).collect()
    };
    // By the name that the system has it under; elsewhere by its path, unless the file goes by several names.
    let by_name = called_by(name);
    let is_file = last_step(program) == name && !program.chars().any(|c| c.is_whitespace() || c.is_control());
    let words = match run_fits(Sense::Surely, &by_name, program, argv) {
        true if is_plain(name) => by_name,
        _ if is_file => called_by(program),
        _ => return None,
    };
    let shown = visible(&words.join(" "), Care::Name);
    Some((Pattern::Run(words), format!("`{shown} …`, with whatever words after these")))
}

/// The words of a table.
fn each(table: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    table.iter().flat_map(|line| line.split(' '))
}

fn is_in(table: &'static [&'static str], word: &str) -> bool {
    each(table).any(|listed| listed == word)
}

/// Whether a word says what is done, and not to what: plain, and no path of the plan ends in it.
fn is_what(word: &str, plan: &[Effect]) -> bool {
    let is_target = |effect: &Effect| match effect {
        Effect::Reach { host, .. } => host == word,
        effect => effect.path().is_some_and(|path| last_step(path) == word),
    };
    is_plain(word) && !plan.iter().any(is_target)
}

fn is_plain(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | ':' | '_'))
}

/// A word as a shell would want it, so that it is seen where one ends and the next begins.
fn spelled(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,~^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
