//! Analyzes one command from its first word to its last: redirections, assignments, the program, its manual, its sub-commands.

use byleave_core::effect::Effect;
use byleave_core::pattern::is_link_name;

use super::command_analyzer::{CommandAnalyzer, file_name, unknown_reason};
use super::{CommandEffects, builtins, special_programs};
use crate::commands::{RedirectionAccess, WorkingDir};
use crate::danger;
use crate::host;
use crate::manual::{self, Manual, SubcommandFallback, WordRole};
use crate::word::Word;

/// The programs whose purpose is to reach a host that their words name.
const NETWORK_CLIENTS: [&str; 29] = [
    "curl", "wget", "wget2", "http", "https", "httpie", "xh", "aria2c", "axel", "lynx", "w3m", "links", "nc",
    "ncat", "netcat", "socat", "ssh", "scp", "sftp", "rsync", "ftp", "telnet", "dig", "host", "nslookup",
    "drill", "ping", "gh", "glab",
];

impl CommandAnalyzer<'_> {
    pub(super) fn analyze(mut self) -> CommandEffects {
        if let Some(fault) = danger::load_error() {
            self.add_unknown(format!("the list of dangers is invalid: {fault}"));
        }
        self.analyze_redirections();
        let with_program = !self.command.words.is_empty();
        for (name, value) in &self.command.assignments {
            self.add_assignment(name, value, with_program);
        }
        let command = self.command;
        if let Some((name, words)) = command.words.split_first()
            && !command.is_function
        {
            self.analyze_program(name, words);
            if self.facts.program == "git" {
                special_programs::add_git_directory(&mut self);
                special_programs::add_stored_content(&mut self);
            }
        }
        let program = self.facts.program.as_str();
        let is_unknown = |effect: &Effect| matches!(effect, Effect::Unknown { .. });
        let has_unknown = self.has_unknown_text || self.result.effects.iter().any(is_unknown);
        self.result.exports_unknown_text =
            has_unknown && matches!(program, "export" | "declare" | "typeset" | "readonly");
        if NETWORK_CLIENTS.contains(&program) && self.result.effects.iter().any(is_unknown) {
            // What it reads of its options may name the host, and what it sends there.
            self.sends = true;
        }
        self.sends |= matches!(program, "pip" | "pip3" | "uv") && self.asks_for_lines_of_a_file();
        let reaches = self.reaches_unknown_host
            || self.result.effects.iter().any(|effect| matches!(effect, Effect::Reach { .. }));
        // What is pushed to a directory of this machine is sent to nobody.
        let is_local = self.uses_local_repository
            && !reaches
            && !self.has_unknown_text
            && !self.result.effects.iter().any(is_unknown);
        if (self.sends && !is_local) || self.has_unknown_text && reaches {
            // A text that is not known may be the content of a file.
            self.add_sends();
        }
        self.facts.home = self.env.home().map(str::to_owned);
        self.facts.cwd = self.env.cwd().to_owned();
        self.facts.repository = self.repository_root();
        self.facts.working_dir = match &self.command.working_dir {
            WorkingDir::At(directory) => Some(directory.clone()),
            WorkingDir::Unknown(_) => None,
        };
        self.result.dangers = danger::find_dangers(&self.facts, &self.result.effects);
        self.result
    }

    /// Checks whether a package manager takes names from a file that is not called a list of requirements. It asks the registry for each line.
    fn asks_for_lines_of_a_file(&self) -> bool {
        let words: Vec<&str> = self.command.words.iter().filter_map(Word::as_text).collect();
        let next = words.iter().skip(1).map(|word| Some(*word)).chain([None]);
        words.iter().zip(next).any(|(word, next)| {
            let file = match *word {
                "-r" | "--requirement" | "--requirements" | "-c" | "--constraint" => next,
                word => ["--requirement=", "--requirements=", "--constraint=", "-r"]
                    .iter()
                    .find_map(|option| word.strip_prefix(option)),
            };
            let name = file.map(|file| file.rsplit('/').next().unwrap_or(file).to_lowercase());
            name.is_some_and(|name| {
                !["req", "constraint", "dep"].iter().any(|part| name.contains(part))
                    && !name.ends_with(".in")
                    && !name.ends_with(".toml")
            })
        })
    }

    fn analyze_redirections(&mut self) {
        for redirection in &self.command.redirections {
            let Some(target) = redirection.target.as_text() else {
                self.add_unknown(format!("redirection to {}", unknown_reason(&redirection.target)));
                continue;
            };
            if let Some(peer) = target.strip_prefix("/dev/tcp/").or_else(|| target.strip_prefix("/dev/udp/"))
            {
                match peer.split_once('/').and_then(|(host, port)| host::parse_host(host, port.parse().ok()?))
                {
                    Some(target) => self.add_target(target),
                    None => {
                        self.add_unknown(format!("`{target}` is a connection, but not to a host and a port"))
                    }
                }
                continue;
            }
            match redirection.access {
                RedirectionAccess::Read => self.add_path(WordRole::Read, target),
                RedirectionAccess::Write => self.add_path(WordRole::Write, target),
                RedirectionAccess::ReadWrite => self.add_path(WordRole::Edit, target),
            }
        }
    }

    fn analyze_program(&mut self, name: &Word, words: &[Word]) {
        let Some(text) = name.as_text() else {
            self.add_unknown(format!("the program is {}", unknown_reason(name)));
            self.program = name.to_string();
            self.reported_words = self.command.words.iter().map(Word::to_string).collect();
            self.add_run();
            self.add_possible_commands(words);
            return;
        };
        let invoked = file_name(text);
        let found = self.env.find_program(text);
        let (manual, same) = match (manual::find(invoked), found.as_deref().map(file_name)) {
            (Some(manual), Some(real)) => (Some(manual), manual.names.iter().any(|own| own == real)),
            (Some(manual), None) => (Some(manual), true),
            (None, Some(real)) => (manual::find(real), real == invoked),
            (None, None) => (None, true),
        };
        let elsewhere = self.env.find_program(invoked);
        let known = manual.is_some_and(|manual| !manual.local) || elsewhere.is_some();
        if text.contains('/') && known && found != elsewhere {
            self.add_unknown(format!("`{text}` is a different file than `{invoked}` in `PATH`"));
        }
        if text.contains('/') {
            self.result.depends_on.extend(found.clone());
            self.result.runs_project_code = !known;
        }
        // `awk` may be mawk, but rules say `awk`. If the file is a different program, both names are reported.
        self.program = match found {
            Some(file) if same && !text.contains('/') => format!("{}/{invoked}", parent_dir(&file)),
            Some(file) => file,
            None if self.is_shell_builtin(text) => format!("{}{text}", builtins::SHELL),
            None => text.to_owned(),
        };
        self.facts.program = invoked.to_owned();
        self.command_path.push(text.to_owned());
        self.reported_words.push(text.to_owned());
        match manual {
            Some(manual) => {
                self.canonical_path.push(manual.canonical_name(invoked).to_owned());
                self.result.runs_project_code = manual.runs_project_code;
                // The file may be another program than the one that the manual describes.
                self.result.may_reach_others = manual.may_reach_others || !same;
                self.check_project_directory();
                self.follow_manual(manual, words);
            }
            None => {
                self.result.may_reach_others = !self.is_shell_builtin(text);
                self.reported_words.extend(words.iter().map(Word::to_string));
                self.facts.scan(words);
                self.add_run();
                self.add_introduced_command(words);
                self.guess_roles(words);
            }
        }
        // If the file is a known stand-in for the invoked name, the first effect covers both. Otherwise the invoked name is added.
        if !same && self.program != text && !is_link_name(invoked, file_name(&self.program)) {
            self.add(Effect::Run { program: invoked.to_owned(), argv: self.reported_words.clone() });
        }
    }

    /// Checks whether the shell itself runs this. A wrapper would run a program of that name.
    fn is_shell_builtin(&self, name: &str) -> bool {
        builtins::is_builtin(name) && !self.command.enclosing.contains(&"wrapper")
    }

    /// Analyzes the words after the program or the sub-command that this manual describes.
    fn follow_manual(&mut self, manual: &'static Manual, words: &[Word]) {
        self.changes_itself = manual.changes_itself;
        self.sends |= manual.sends;
        self.runs_elsewhere |= manual.runs_elsewhere;
        self.result.manual_summary =
            Some(manual.summary.as_str()).filter(|why| !why.is_empty()).or(self.result.manual_summary);
        for deed in &manual.fixed_effects {
            match deed.role {
                WordRole::Unknown => {
                    self.add_unknown(format!("`{}`: {}", self.command_path.join(" "), manual.summary))
                }
                role => {
                    let target = self.fixed_target(&deed.target);
                    self.apply_role_implicit(role, &Word::literal(target));
                }
            }
        }
        if manual.response_files {
            for file in words.iter().filter_map(Word::as_text).filter_map(|text| text.strip_prefix('@')) {
                self.add_unknown(format!("`@{file}` stands for more arguments, which are in a file"));
                self.add_path(WordRole::Read, file);
            }
        }
        if manual.free {
            self.reported_words.extend(words.iter().map(Word::to_string));
            self.facts.scan(words);
            return self.add_run();
        }
        if (!manual.subcommands.is_empty() || manual.subcommand_of.is_some())
            && self.follow_subcommand(manual, words)
        {
            return;
        }
        if let Some(name) = &manual.special_reader {
            self.reported_words.extend(words.iter().map(Word::to_string));
            self.facts.scan_except(words, |text| manual.options.get(text).is_some());
            self.add_run();
            return special_programs::analyze_special(self, name, manual, words);
        }
        self.analyze_words(manual, words);
        for name in manual.extra_reader.iter().flat_map(|names| names.split(' ')) {
            special_programs::analyze_extra(self, name, &manual.parse_args(words, false));
        }
    }

    /// Returns the target of a fixed effect: `~/` is the home directory, and `.git/` is at the top of the repository.
    fn fixed_target(&self, target: &str) -> String {
        let home = target.strip_prefix("~/").zip(self.env.home());
        let in_home = home.map(|(rest, home)| format!("{home}/{rest}"));
        let top = target.starts_with(".git/").then(|| self.repository_root()).flatten();
        in_home.or_else(|| top.map(|top| format!("{top}/{target}"))).unwrap_or_else(|| target.to_owned())
    }

    /// Analyzes the words from the sub-command on. Returns false if the first operand is an ordinary one.
    fn follow_subcommand(&mut self, manual: &'static Manual, words: &[Word]) -> bool {
        if let Some((program, others)) = &manual.subcommand_of {
            return self.follow_subcommand_of(manual, program, *others, words);
        }
        let parsed = manual.parse_args(words, true);
        let Some(first) = parsed.operands.first() else {
            let prints = parsed.has(&["--version", "--help"]);
            let Some(name) = manual.default_subcommand.as_deref().filter(|_| !prints) else { return false };
            let Some(sub) = manual.subcommand(name) else { return false };
            // Without a word it does the same as this sub-command.
            self.canonical_path.push(name.to_owned());
            self.facts.subcommands.push(name.to_owned());
            self.apply_options(&parsed.options, &[]);
            self.follow_manual(sub, words);
            return true;
        };
        let rest = words.get(first.at.saturating_add(1)..).unwrap_or_default();
        let name = first.word.as_text();
        if manual.extra_reader.as_deref() == Some("cargo") {
            special_programs::add_cargo_alias(self, name.unwrap_or_default(), rest);
        }
        let Some(sub) = name.and_then(|name| manual.subcommand(name)) else {
            if manual.fallback == Some(SubcommandFallback::Operands) && name.is_some() {
                return false;
            }
            self.reported_words.extend(words.iter().map(Word::to_string));
            self.command_path.push(first.word.to_string());
            self.canonical_path.push(first.word.to_string());
            self.facts.scan(words);
            self.apply_options(&parsed.options, &parsed.unknown);
            self.add_run_with(rest);
            if let (Some(SubcommandFallback::Script), Some(name)) = (manual.fallback, name) {
                special_programs::analyze_script_name(self, name, rest);
                return true;
            }
            let path = self.command_path.split_last().map(|(_, path)| path.join(" ")).unwrap_or_default();
            self.add_unknown(match name {
                Some(name) => format!("there is no manual for `{path} {name}`"),
                None => format!("the sub-command is {}", unknown_reason(&first.word)),
            });
            self.guess_roles(words.get(first.at..).unwrap_or_default());
            return true;
        };
        self.apply_options(&parsed.options, &parsed.unknown);
        self.reported_words.extend(parsed.reported_words.iter().map(Word::to_string));
        self.command_path.push(first.word.to_string());
        let canonical = name.map_or("", |name| manual.canonical_subcommand(name)).to_owned();
        self.facts.subcommands.push(canonical.clone());
        self.canonical_path.push(canonical);
        self.follow_manual(sub, rest);
        true
    }

    /// Analyzes a sub-command that stands behind another one: `cargo hack publish` runs `cargo publish`.
    fn follow_subcommand_of(
        &mut self,
        manual: &'static Manual,
        program: &str,
        others: usize,
        words: &[Word],
    ) -> bool {
        let Some(whole) = manual::find(program) else { return false };
        let parsed = manual.parse_args(words, others == 0);
        let Some(first) = parsed.operands.get(others) else { return false };
        self.apply_options(&parsed.options, &parsed.unknown);
        for operand in parsed.operands.iter().take(others) {
            self.apply_role(WordRole::Word, &operand.word);
        }
        let before = words.get(..first.at).unwrap_or_default();
        self.reported_words.extend(before.iter().map(Word::to_string));
        self.canonical_path.truncate(1);
        self.facts.subcommands.clear();
        self.command_path.extend(before.iter().filter_map(Word::as_text).map(str::to_owned));
        let rest = words.get(first.at..).unwrap_or_default();
        self.runs_elsewhere = true;
        self.follow_subcommand(whole, rest)
    }
}

fn parent_dir(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
