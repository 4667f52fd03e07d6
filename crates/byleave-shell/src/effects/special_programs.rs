//! Programs whose words are a grammar of their own: shells, `env`, `find`, `xargs`, `test`, `dd`, `tar` and a few more.
//!
//! Each has a small hand-written reader, because its rules do not fit a table of options. Anything that a reader does not know is unknown.

use super::command_analyzer::CommandAnalyzer;
use crate::manual::Manual;
use crate::word::Word;

mod cargo;
mod downloads;
mod extra;
mod files;
mod find;
mod git;
mod launchers;
mod packing;
mod remote;
mod runners;
mod search;
mod shells;
mod stored_content;

pub(super) use cargo::add_cargo_alias;
pub(super) use extra::analyze_extra;
pub(super) use git::add_git_directory;
pub(super) use runners::analyze_script_name;
pub(super) use shells::is_unread_script;
pub(super) use stored_content::add_stored_content;

/// Analyzes a program with the reader of this name.
pub(super) fn analyze_special(
    teller: &mut CommandAnalyzer<'_>,
    name: &str,
    manual: &'static Manual,
    words: &[Word],
) {
    match name {
        "shell" => shells::shell(teller, words),
        "env" => shells::env(teller, manual, words),
        "find" => find::find(teller, manual, words),
        "xargs" => launchers::xargs(teller, manual, words),
        "test" => files::test(teller, words),
        "dd" => files::dd(teller, words),
        "tar" => files::tar(teller, manual, words),
        "source" => shells::source_by_path(teller, words),
        "assign" => shells::assign(teller, manual, words),
        "ssh" => remote::ssh(teller, manual, words),
        "parallel" => launchers::parallel(teller, manual, words),
        "fd" => launchers::fd(teller, manual, words),
        "pager" => files::pager(teller, manual, words),
        "possible" => shells::possible(teller, words),
        "make" => files::make(teller, manual, words),
        "dns" => remote::dns(teller, manual, words),
        "git-config" => git::git_config(teller, manual, words),
        _ => {
            teller.add_unknown(format!("the manual names a special handler `{name}` that does not exist"));
            teller.add_possible_commands(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::manual;

    /// The options that the reader of each program asks for, each with all its synonyms.
    const ASKED: &[(&str, &[&str])] = &[
        (
            "tar",
            &[
                "--extract -x --get",
                "--list -t",
                "--compare -d --diff",
                "--create -c",
                "--append -r",
                "--update -u",
                "--catenate -A --concatenate",
                "--delete",
                "--file -f",
                "--to-stdout -O",
                "--remove-files",
                "--strip-components",
                "--version --help",
            ],
        ),
        (
            "git config",
            &[
                "--get -l --list --get-all --get-regexp --get-urlmatch --get-color --get-colorbool",
                "--unset --unset-all --replace-all --add --rename-section --remove-section",
                "--system --global",
                "--file -f",
            ],
        ),
        ("cp", &["--parents", "--target-directory -t", "--no-target-directory -T"]),
        ("mv", &["--target-directory -t", "--no-target-directory -T", "--exchange"]),
        ("ln", &["--target-directory -t", "--no-target-directory -T"]),
        ("install", &["--target-directory -t", "--no-target-directory -T"]),
        (
            "curl",
            &[
                "--output-dir",
                "--output -o",
                "--remote-name -O --remote-name-all",
                "--url",
                "--write-out -w",
                "--proto-default --proto-redir",
                "--netrc -n --netrc-optional",
                "--upload-file -T",
                "--request -X",
                "--header -H",
                "--data -d --data-ascii --data-binary",
                "--data-urlencode",
                "--url-query",
                "--get -G",
            ],
        ),
        (
            "wget",
            &[
                "--directory-prefix -P",
                "--recursive -r",
                "--mirror -m",
                "--page-requisites -p",
                "--force-directories -x",
            ],
        ),
        ("rsync", &["--relative -R"]),
        ("unzip", &["-l -v -t -Z -z -p -1 -c", "-d", "-j"]),
        (
            "gunzip",
            &[
                "--recursive -r",
                "--stdout -c --to-stdout",
                "--decompress -d --uncompress",
                "--list -l",
                "--test -t",
            ],
        ),
        ("grep", &["-R --dereference-recursive", "--include"]),
        ("rg", &["-L --follow", "-g --glob", "--iglob"]),
        (
            "kill",
            &[
                "-l -L -f -x -9 -15 -0 -1 -2 -KILL -TERM -HUP -INT -STOP -CONT -USR1 -USR2 --list --full --exact",
                "-s -n -u -P --signal",
            ],
        ),
        ("csplit", &["--prefix -f", "--suffix-format -b"]),
        ("python3", &["-m", "--version -V -VV -h --help"]),
        ("node", &["--version -v -h --help --test"]),
        ("git init", &["--separate-git-dir", "--bare"]),
        ("git clone", &["--separate-git-dir", "--bare", "--mirror"]),
        ("git archive", &["--format", "--output -o"]),
        ("kubectl get", &["--output -o", "--template"]),
        ("uv run", &["-m --module"]),
        ("tsx", &["--version -v -h --help --test"]),
        ("ssh", &["-p"]),
        ("env", &["--split-string -S"]),
        ("xargs", &["--replace -i", "-I"]),
    ];

    /// Options on one line are treated as synonyms.
    #[test]
    fn what_a_reader_asks_for_shares_its_line_only_with_its_other_names() {
        for (program, lines) in ASKED {
            let mut words = program.split(' ');
            let mut manual = words.next().and_then(manual::find).unwrap();
            for sub in words {
                manual = manual.subcommand(sub).unwrap();
            }
            for line in *lines {
                let mut wanted: Vec<&str> = line.split(' ').collect();
                let mut names: Vec<&str> =
                    manual.options.get(wanted[0]).unwrap().names.iter().map(String::as_str).collect();
                wanted.sort_unstable();
                names.sort_unstable();
                assert_eq!(names, wanted, "{program}");
            }
        }
    }

    #[test]
    fn every_option_that_a_reader_asks_for_is_in_the_list() {
        let listed: Vec<&str> =
            ASKED.iter().flat_map(|(_, lines)| lines.iter()).flat_map(|line| line.split(' ')).collect();
        for source in [
            include_str!("special_programs/downloads.rs"),
            include_str!("special_programs/extra.rs"),
            include_str!("special_programs/files.rs"),
            include_str!("special_programs/git.rs"),
            include_str!("special_programs/packing.rs"),
            include_str!("special_programs/remote.rs"),
            include_str!("special_programs/shells.rs"),
        ] {
            let calls = source
                .split("has(")
                .chain(source.split("values("))
                .skip(1)
                .map(|rest| rest.split(')').next());
            let compared = source.split("== ").skip(1).map(|rest| rest.split([')', ' ', '\n']).next());
            for text in calls.chain(compared).flatten() {
                for name in text
                    .split('"')
                    .filter(|name| name.starts_with('-') && name.len() > 1 && !name.contains(' '))
                {
                    assert!(listed.contains(&name), "`{name}` is asked for, and not in the list");
                }
            }
        }
    }
}
