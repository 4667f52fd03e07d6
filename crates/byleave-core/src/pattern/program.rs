//! Programs: checks whether a run is of the program that a pattern names.
//!
//! A name is not an identity. An allow by name matches only the program that the system has under this name. It never matches a file of
//! that name that an agent could have created. A deny by name matches everything with that name.

use super::path::fold;

/// The directories of programs that a bare name may mean in an allow. Anyone who can write there does not need to bypass the gate.
const SYSTEM_DIRS: &[&str] = &[
    "/usr/bin/",
    "/usr/sbin/",
    "/usr/lib/",
    "/usr/lib64/",
    "/usr/libexec/",
    "/usr/share/",
    "/usr/local/bin/",
    "/usr/local/sbin/",
    "/usr/local/lib/",
    "/usr/local/cargo/bin/",
    "/usr/local/rustup/toolchains/",
    "/usr/local/go/bin/",
    "/bin/",
    "/sbin/",
    "/opt/homebrew/",
    "/nix/store/",
    "/run/current-system/sw/bin/",
    "/snap/",
    // Shell builtins. No file can have this path.
    "shell:/",
];

/// The directories beneath a home directory where tool chains put programs. The built-in rules ask before any of them is written.
const HOME_DIRS: &[&str] = &[".cargo/bin/", ".rustup/toolchains/", ".nvm/versions/node/", ".pyenv/versions/"];

/// Programs that are linked under another name.
const LINK_NAMES: &[(&str, &[&str])] = &[
    ("awk", &["mawk", "gawk", "nawk", "original-awk", "busybox"]),
    ("sh", &["dash", "bash"]),
    ("cargo", &["rustup"]),
    ("rustc", &["rustup"]),
    ("rustfmt", &["rustup"]),
    ("npm", &["npm-cli.js"]),
    ("npx", &["npx-cli.js"]),
    ("corepack", &["corepack.js"]),
    ("nc", &["nc.openbsd", "nc.traditional"]),
    ("vi", &["vim.basic", "vim.tiny", "nvi"]),
    ("cc", &["gcc"]),
    ("c++", &["g++"]),
    ("which", &["which.debianutils"]),
];

/// Long forms of short options that mean the same almost everywhere.
const LONG_OPTIONS: &[(char, &str)] = &[('r', "recursive"), ('R', "recursive"), ('f', "force")];

/// Checks whether this is surely a run of that program with these leading words.
pub(super) fn matches(words: &[String], program: &str, argv: &[String]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    let named = if first.contains('/') { first == program } else { is_system_program(first, program, argv) };
    named && argv.len() > rest.len() && rest.iter().zip(argv.iter().skip(1)).all(|(a, b)| a == b)
}

/// Checks whether this is surely a run of that program, under its own name, with exactly these words.
pub(super) fn matches_exactly(words: &[String], program: &str, argv: &[String]) -> bool {
    let (Some((first, rest)), Some((called, given))) = (words.split_first(), argv.split_first()) else {
        return false;
    };
    let named = if first.contains('/') { first == program } else { is_system_program(first, program, argv) };
    // One file may be many programs, and its behaviour depends on the name by which it is called.
    named && file_name(called) == file_name(first) && rest == given
}

/// Checks whether this could be a run of that program with these words. Options may be anywhere, and clusters are split.
pub(super) fn could_match(words: &[String], program: &str, argv: &[String]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    let called = argv.first().map_or("", String::as_str);
    let alike = |a: &str, b: &str| fold(a) == fold(b);
    let named = match first.contains('/') {
        true => alike(first, program) || alike(first, called),
        false => alike(first, file_name(program)) || alike(first, file_name(called)),
    };
    let (options, plain): (Vec<&String>, Vec<&String>) = rest.iter().partition(|word| is_option(word));
    let given: Vec<&str> = argv.iter().skip(1).map(String::as_str).collect();
    named && begins_with(&given, &plain) && options.iter().all(|option| has_option(&given, option))
}

/// Returns the last step of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_system_program(name: &str, program: &str, argv: &[String]) -> bool {
    let file = file_name(program);
    let called = argv.first().is_some_and(|called| called == name || called == program);
    let named = file == name || called && is_link_name(name, file);
    named && is_system_path(program)
}

/// Checks whether systems use a file of this name for another program name: `python3` is `python3.12`, `gcc` is `x86_64-linux-gnu-gcc-12`,
/// `cargo` is `rustup`.
pub fn is_link_name(name: &str, file: &str) -> bool {
    let version = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let native = file.split_once("-linux-gnu-").map(|(_, native)| native);
    native == Some(name)
        || native.unwrap_or(file).strip_prefix(name).is_some_and(version)
        || LINK_NAMES.iter().any(|(asked, files)| *asked == name && files.contains(&file))
}

fn is_system_path(program: &str) -> bool {
    SYSTEM_DIRS.iter().any(|directory| program.starts_with(directory))
        || beneath_home(program)
            .is_some_and(|rest| HOME_DIRS.iter().any(|directory| rest.starts_with(directory)))
}

fn beneath_home(path: &str) -> Option<&str> {
    if let Some(rest) = path.strip_prefix("/root/") {
        return Some(rest);
    }
    let users = ["/home/", "/Users/", "/var/home/"].iter().find_map(|homes| path.strip_prefix(homes))?;
    users.split_once('/').map(|(_, rest)| rest)
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// Checks whether the words come first and in order, with only options and their possible values between them.
fn begins_with(given: &[&str], plain: &[&String]) -> bool {
    let mut wanted = plain.iter();
    let Some(mut next) = wanted.next() else { return true };
    let mut after_option = false;
    for word in given {
        if *word == next.as_str() {
            match wanted.next() {
                Some(another) => next = another,
                None => return true,
            }
            after_option = false;
        } else if is_option(word) {
            after_option = !word.contains('=');
        } else if after_option {
            after_option = false;
        } else {
            return false;
        }
    }
    false
}

fn has_option(given: &[&str], option: &str) -> bool {
    let given = || given.iter().take_while(|word| **word != "--");
    let is_same = |word: &&str| {
        let name = word.split('=').next().unwrap_or(word);
        name == option || option.starts_with("--") && name.len() > 3 && option.starts_with(name)
    };
    if given().any(is_same) {
        return true;
    }
    if let Some(long) = option.strip_prefix("--") {
        let short = LONG_OPTIONS.iter().filter(|(_, name)| *name == long);
        return short.into_iter().any(|(letter, _)| given().any(|word| has_letter(word, *letter)));
    }
    let letters = option.trim_start_matches('-');
    // More than three letters are a word with one dash (`-exec`), not a cluster.
    letters.chars().count() <= 3
        && letters.chars().all(|letter| {
            let long = LONG_OPTIONS.iter().find(|(short, _)| *short == letter).map(|(_, name)| *name);
            given().any(|word| has_letter(word, letter) || long.is_some_and(|long| abbreviates(word, long)))
        })
}

fn has_letter(word: &str, letter: char) -> bool {
    let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let same = |c: char| c == letter || matches!((c, letter), ('r', 'R') | ('R', 'r'));
    cluster.is_some_and(|letters| letters.chars().any(same))
}

fn abbreviates(word: &str, long: &str) -> bool {
    word.strip_prefix("--").is_some_and(|name| !name.is_empty() && long.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    // req: P3
    #[test]
    fn an_allow_by_name_is_about_the_systems_program() {
        let check = |pattern: &str, program: &str, argv: &str, wanted: bool| {
            assert_eq!(
                matches(&words(pattern), program, &words(argv)),
                wanted,
                "{pattern} / {program} / {argv}"
            );
        };
        check("git status", "/usr/bin/git", "git status -s", true);
        check("git status", "/w/git", "git status", false);
        check("git status", "git", "git status", false);
        check("git status", "/usr/src/app/git", "git status", false);
        check("cargo", "/home/u/.cargo/bin/rustup", "cargo test", true);
        check("gcc", "/usr/bin/x86_64-linux-gnu-gcc-12", "gcc --version", true);
        check("gcc", "/usr/bin/aarch64-linux-gnu-gcc", "gcc --version", true);
        check("gcc", "/usr/bin/x86_64-linux-gnu-gcov-12", "gcc --version", false);
        check("gcc", "/w/x86_64-linux-gnu-gcc-12", "gcc --version", false);
        check("cargo", "/home/u/w/.cargo/bin/cargo", "cargo test", false);
        check("awk", "/usr/bin/mawk", "awk 1", true);
        check("awk", "/usr/bin/mawk", "/w/awk 1", false);
        check("ls", "/usr/bin/rm", "ls -rf", false);
        check("python3", "/usr/bin/python3.12", "python3 -V", true);
        check("rm", "/usr/bin/rmdir", "rm x", false);
        check("/w/run.sh", "/w/run.sh", "./run.sh a", true);
        check("/usr/bin/git", "/w/git", "git", false);
        check("git status", "/usr/bin/git", "git -c x status", false);
        check("git status", "/usr/bin/git", "git", false);
    }

    // req: R5
    #[test]
    fn exactly_is_not_a_word_more() {
        let check = |pattern: &str, program: &str, argv: &str, wanted: bool| {
            let found = matches_exactly(&words(pattern), program, &words(argv));
            assert_eq!(found, wanted, "{pattern} / {program} / {argv}");
        };
        check("/usr/bin/git push", "/usr/bin/git", "git push", true);
        check("git push", "/usr/bin/git", "git push", true);
        check("/usr/bin/git push", "/usr/bin/git", "git push --force", false);
        check("/usr/bin/git push", "/usr/bin/git", "git", false);
        check("/usr/bin/git push", "/w/git", "git push", false);
        check("/bin/busybox x", "/bin/busybox", "busybox x", true);
        check("/bin/busybox x", "/bin/busybox", "rm x", false);
        check("busybox x", "/bin/busybox", "rm x", false);
        check("cargo build", "/home/u/.cargo/bin/rustup", "cargo build", true);
        check("cargo build", "/home/u/.cargo/bin/rustup", "rustc build", false);
    }

    #[test]
    fn a_deny_by_name_is_about_all_that_goes_by_it() {
        let check = |pattern: &str, program: &str, argv: &str, wanted: bool| {
            assert_eq!(
                could_match(&words(pattern), program, &words(argv)),
                wanted,
                "{pattern} / {program} / {argv}"
            );
        };
        check("git push", "/w/git", "git push", true);
        check("git push", "git", "./GIT push", true);
        check("git push", "/usr/bin/git", "git -C /x push origin", true);
        check("git push", "/usr/bin/git", "git --git-dir=/x -p push", true);
        check("git push", "/usr/bin/git", "git commit -m push", false);
        check("git push", "/usr/bin/git", "git", false);
        check("git push --force", "/usr/bin/git", "git push origin main --force", true);
        check("git push --force", "/usr/bin/git", "git push -uf origin", true);
        check("git push --force", "/usr/bin/git", "git push --forc", true);
        check("git push --force", "/usr/bin/git", "git push origin main", false);
        check("git push --force", "/usr/bin/git", "git push origin -- --force", false);
        check("rm -r", "/usr/bin/rm", "rm --recursive --force /w/x", true);
        check("rm -rf", "/usr/bin/rm", "rm /w/x -f -R", true);
        check("rm -rf", "/usr/bin/rm", "rm -f x", false);
        check("find -delete", "/usr/bin/find", "find . -type l -ls -depth", false);
        check("find -delete", "/usr/bin/find", "find . -delete", true);
        check("touch", "/usr/bin/busybox", "touch x", true);
    }
}
