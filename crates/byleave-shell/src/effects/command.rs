//! Analyzes one command from its first word to its last: redirections, assignments, the program, its manual, its sub-commands.

use byleave_core::effect::Effect;
use byleave_core::pattern::stands_in;

use super::command_analyzer::{CommandAnalyzer, base, why_of};
use super::{CommandEffects, builtins, special_programs};
use crate::commands::RedirectionAccess;
use crate::danger;
use crate::host;
use crate::manual::{self, Manual, WordRole};
use crate::word::Word;

impl CommandAnalyzer<'_> {
    pub(super) fn tell(mut self) -> CommandEffects {
        if let Some(fault) = manual::faults().first() {
            self.unknown(format!("the manuals are broken: {fault}"));
        }
        if let Some(fault) = danger::fault() {
            self.unknown(format!("the list of dangers is broken: {fault}"));
        }
        self.redirections();
        let with_program = !self.command.words.is_empty();
        for (name, value) in &self.command.assignments {
            self.assignment(name, value, with_program);
        }
        let command = self.command;
        if let Some((name, words)) = command.words.split_first()
            && !command.is_function
        {
            self.program(name, words);
            if self.facts.program == "git" {
                special_programs::git_place(&mut self);
            }
        }
        self.facts.home = self.scene.home().map(str::to_owned);
        self.facts.cwd = self.scene.cwd().to_owned();
        self.account.dangers = danger::of(&self.facts, &self.account.effects);
        self.account
    }

    fn redirections(&mut self) {
        for redirection in &self.command.redirections {
            let Some(target) = redirection.target.text() else {
                self.unknown(format!("redirection to {}", why_of(&redirection.target)));
                continue;
            };
            if let Some(peer) = target.strip_prefix("/dev/tcp/").or_else(|| target.strip_prefix("/dev/udp/"))
            {
                match peer.split_once('/').and_then(|(host, port)| host::of_host(host, port.parse().ok()?)) {
                    Some(target) => self.target(target),
                    None => self.unknown(format!("`{target}` is a connection, but not to a host and a port")),
                }
                continue;
            }
            match redirection.access {
                RedirectionAccess::Read => self.path(WordRole::Read, target),
                RedirectionAccess::Write => self.path(WordRole::Write, target),
                RedirectionAccess::ReadWrite => self.path(WordRole::Edit, target),
            }
        }
    }

    fn program(&mut self, name: &Word, words: &[Word]) {
        let Some(text) = name.text() else {
            self.unknown(format!("the program is {}", why_of(name)));
            self.program = name.to_string();
            self.kept = self.command.words.iter().map(Word::to_string).collect();
            self.run();
            self.possible_words(words);
            return;
        };
        let invoked = base(text);
        let found = self.scene.program(text);
        let (manual, same) = match (manual::of(invoked), found.as_deref().map(base)) {
            (Some(manual), Some(real)) => (Some(manual), manual.names.iter().any(|own| own == real)),
            (Some(manual), None) => (Some(manual), true),
            (None, Some(real)) => (manual::of(real), real == invoked),
            (None, None) => (None, true),
        };
        let elsewhere = self.scene.program(invoked);
        let known = manual.is_some_and(|manual| !manual.local) || elsewhere.is_some();
        if text.contains('/') && known && found != elsewhere {
            self.unknown(format!("`{text}` is another file than the `{invoked}` of the path"));
        }
        if text.contains('/') {
            self.account.rests_on.extend(found.clone());
        }
        // `awk` may be mawk, but rules say `awk`. If the file is a different program, both names are reported.
        self.program = match found {
            Some(file) if same && !text.contains('/') => format!("{}/{invoked}", folder(&file)),
            Some(file) => file,
            None if self.is_the_shells_own(text) => format!("{}{text}", builtins::SHELL),
            None => text.to_owned(),
        };
        self.facts.program = invoked.to_owned();
        self.bare.push(text.to_owned());
        self.kept.push(text.to_owned());
        match manual {
            Some(manual) => self.follow(manual, words),
            None => {
                self.kept.extend(words.iter().map(Word::to_string));
                self.facts.scan(words);
                self.run();
                self.guess(words);
            }
        }
        // If the file is a known stand-in for the invoked name, the first effect covers both. Otherwise the invoked name is added.
        if !same && self.program != text && !stands_in(invoked, base(&self.program)) {
            self.add(Effect::Run { program: invoked.to_owned(), argv: self.kept.clone() });
        }
    }

    /// Checks whether the shell itself runs this. A wrapper would run a program of that name.
    fn is_the_shells_own(&self, name: &str) -> bool {
        builtins::is_builtin(name) && !self.command.within.contains(&"wrapper")
    }

    /// Analyzes the words after the program or the sub-command that this manual describes.
    fn follow(&mut self, manual: &'static Manual, words: &[Word]) {
        self.itself = manual.itself;
        self.account.about = Some(manual.why.as_str()).filter(|why| !why.is_empty()).or(self.account.about);
        for deed in &manual.does {
            match deed.role {
                WordRole::Unknown => self.unknown(format!("`{}`: {}", self.bare.join(" "), manual.why)),
                role => self.role_unnamed(role, &Word::literal(deed.target.clone())),
            }
        }
        if manual.responses {
            for file in words.iter().filter_map(Word::text).filter_map(|text| text.strip_prefix('@')) {
                self.unknown(format!("`@{file}` stands for more words, which are in a file"));
                self.path(WordRole::Read, file);
            }
        }
        if manual.free {
            self.kept.extend(words.iter().map(Word::to_string));
            self.facts.scan(words);
            return self.run();
        }
        if !manual.subs.is_empty() {
            let parsed = manual.take_apart(words, true);
            if let Some(first) = parsed.operands.first() {
                let sub = first.word.text().and_then(|name| manual.sub(name));
                if sub.is_none() && (manual.operands.between.is_none() && manual.operands.front.is_empty()) {
                    self.unknown(match first.word.text() {
                        Some(name) => format!("no manual for `{} {name}`", self.bare.join(" ")),
                        None => format!("the sub-command is {}", why_of(&first.word)),
                    });
                    self.kept.extend(words.iter().map(Word::to_string));
                    self.bare.push(first.word.to_string());
                    self.facts.scan(words);
                    self.options(&parsed.given, &parsed.strange);
                    let rest = words.get(first.at.saturating_add(1)..).unwrap_or_default();
                    self.run_with(rest);
                    return self.guess(rest);
                }
                if let Some(sub) = sub {
                    self.options(&parsed.given, &parsed.strange);
                    self.kept.extend(parsed.kept.iter().map(Word::to_string));
                    self.bare.push(first.word.to_string());
                    self.facts.subs.push(first.word.to_string());
                    let rest = words.get(first.at.saturating_add(1)..).unwrap_or_default();
                    return self.follow(sub, rest);
                }
            }
        }
        if let Some(name) = &manual.special {
            self.kept.extend(words.iter().map(Word::to_string));
            self.facts.scan(words);
            self.run();
            return special_programs::tell(self, name, manual, words);
        }
        self.ordinary(manual, words);
        if let Some(name) = &manual.also {
            special_programs::also(self, name, &manual.take_apart(words, false));
        }
    }
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
