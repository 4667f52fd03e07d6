//! Turns one word into effects, by its role: the program reads, writes, runs or connects to it.

use byleave_core::effect::Effect;

use super::command_analyzer::{CommandAnalyzer, unknown_reason};
use crate::commands::WorkingDir;
use crate::embedded_languages::{self, ScriptEffect};
use crate::env_var_rules::{self, EnvVarRisk};
use crate::host::{self, NetworkTarget};
use crate::manual::WordRole;
use crate::repository::repository_names;
use crate::word::Word;

/// The limit for files that are listed in a moved directory.
const MOVED_MAX: usize = 500;

impl CommandAnalyzer<'_> {
    /// Adds the effects of one word in one role.
    pub(super) fn apply_role(&mut self, role: WordRole, word: &Word) {
        let Some(text) = word.as_text() else {
            let is_read = role == WordRole::Read && word.is_pipe();
            // Whatever its role is, it may be the content of a file.
            self.has_unknown_text |= !is_read;
            self.reaches_unknown_host |= matches!(
                role,
                WordRole::Url
                    | WordRole::Host
                    | WordRole::RemoteRead
                    | WordRole::RemoteWrite
                    | WordRole::Repository
                    | WordRole::Locator
            );
            if role != WordRole::Text && !is_read {
                self.add_unknown(unknown_reason(word));
            }
            return;
        };
        if self.add_pathspec(role, text) {
            return;
        }
        match role {
            // The suffix is applied to the names that it is added to.
            WordRole::Text | WordRole::Suffix => {}
            WordRole::Word => self.add_possible_targets(text),
            WordRole::Locator => {
                let before = self.facts.targets.len();
                self.add_possible_targets(text.strip_suffix("/...").unwrap_or(text));
                self.add_possible_host(text);
                for path in self.facts.targets.get(before..).unwrap_or_default().to_vec() {
                    self.check_project_path(&path);
                }
            }
            WordRole::Define => self.add_definition(text),
            WordRole::Read | WordRole::Write | WordRole::Edit | WordRole::Delete | WordRole::Move => {
                self.add_path(role, text)
            }
            WordRole::Script => {
                if text == "-" || is_not_a_file(text) || text.starts_with("/proc/") {
                    self.add_unknown(format!("`{}` runs code from its input", self.facts.program));
                }
                let before = self.facts.targets.len();
                self.add_path(WordRole::Read, text);
                if let Some(file) = self.facts.targets.get(before).cloned() {
                    self.check_project_path(&file);
                    self.result.depends_on.push(file);
                }
            }
            WordRole::Project => {
                let before = self.facts.targets.len();
                self.add_path(WordRole::Read, text);
                if let Some(path) = self.facts.targets.get(before).cloned() {
                    self.check_project_path(&path);
                }
            }
            WordRole::Exec => {
                self.add_unknown(format!("`{text}` is run with unknown arguments"));
                if text.contains(char::is_whitespace) {
                    // Most programs pass such a text to a shell.
                    self.add_nested_text(text.to_owned());
                } else {
                    let program = self.env.find_program(text).unwrap_or_else(|| text.to_owned());
                    self.add(Effect::Run { program, argv: vec![text.to_owned()] });
                }
            }
            WordRole::Shell => self.add_shell_text(&[word]),
            WordRole::Argv => self.add_nested_command(vec![word.clone()]),
            WordRole::Code => {
                self.add_unknown(format!("code for `{}`, which is not analyzed", self.facts.program))
            }
            WordRole::Url => self.add_url(text),
            WordRole::Host => match host::parse_host(text, 0) {
                Some(target) => self.add_target(target),
                None => self.add_unknown(format!("`{text}` is not a host")),
            },
            WordRole::RemoteRead | WordRole::RemoteWrite => self.add_remote(role, text),
            WordRole::Repository => self.add_repository(text),
            WordRole::Revision => self.add_revision(text),
            WordRole::Refspec => self.add_refspec(text),
            WordRole::Data => {
                // `--data-urlencode` also accepts `name@file`.
                let file = text.split_once('@').filter(|(name, _)| !name.contains(['=', ':', ' ']));
                if let Some((_, file)) = file {
                    self.add_path(WordRole::Read, file);
                }
            }
            WordRole::Encoded => {
                let file = text.split_once('@').filter(|(name, _)| !name.contains('='));
                if let Some((_, file)) = file {
                    self.add_path(WordRole::Read, file);
                }
            }
            WordRole::GitFormat | WordRole::GitField => self.add_git_format(role, text),
            WordRole::GitStrategy => {
                if let Some(path) = text.strip_prefix("subtree") {
                    self.add_unknown(format!("`{text}` moves the changes to another directory"));
                    self.apply_role_partial(WordRole::Write, &Word::literal(path.trim_start_matches('=')));
                }
            }
            WordRole::GitObject | WordRole::GitMerged | WordRole::GitFixed | WordRole::GitFetched => {
                self.add_git_name(role, text);
            }
            WordRole::LineLength => {
                if !text.bytes().all(|byte| byte.is_ascii_digit()) {
                    self.add_unknown(format!(
                        "`{text}` is not a number, so `-l` may have another meaning here"
                    ));
                }
            }
            WordRole::NameGlob => {
                if !text.starts_with('!') {
                    self.add_named_beneath(WordRole::Read, ".", text);
                    self.add_matching_names(WordRole::Read, ".", &[text.to_owned()]);
                }
            }
            WordRole::Format if text.starts_with('+') => {}
            WordRole::Format => {
                self.add_unknown(format!("`{}`: `{text}` changes a setting", self.command_path.join(" ")))
            }
            WordRole::Form => self.add_form_files(text),
            WordRole::Assign => match text.split_once('=') {
                Some((name, value)) => {
                    self.add_assignment(name.trim_end_matches('+'), &Word::literal(value), true)
                }
                None => self.apply_variable_name(text),
            },
            WordRole::Name => self.apply_variable_name(text),
            WordRole::Sed => self.add_script_effects(embedded_languages::sed(text)),
            WordRole::Awk => self.add_script_effects(embedded_languages::awk(text)),
            WordRole::Jq => self.add_script_effects(embedded_languages::jq(text)),
            WordRole::Any => self.guess_roles(std::slice::from_ref(word)),
            WordRole::Unknown => self.add_unknown(format!(
                "`{}`: the meaning of `{text}` is not known",
                self.command_path.join(" ")
            )),
        }
    }

    /// Checks the name of a variable. Anything more is arithmetic, which can run commands.
    pub(super) fn apply_variable_name(&mut self, text: &str) {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !plain {
            self.add_unknown(format!("`{text}` is more than a variable name and may run commands"));
        } else if let EnvVarRisk::ChangesExecution(why) = env_var_rules::env_var_risk(text) {
            self.add_unknown(format!("`{text}` is set: {why}"));
        }
    }

    pub(super) fn add_script_effects(&mut self, deeds: Vec<ScriptEffect>) {
        for deed in deeds {
            match deed {
                ScriptEffect::Read(path) => self.add_path(WordRole::Read, &path),
                ScriptEffect::Write(path) => self.add_path(WordRole::Write, &path),
                ScriptEffect::Shell(text) => self.add_shell_text(&[&Word::literal(text)]),
                ScriptEffect::Unknown(why) => self.add_unknown(why),
            }
        }
    }

    /// `name=@file,file;type=…;headers=@file`, in which names may be quoted.
    fn add_form_files(&mut self, text: &str) {
        let value = text.split_once('=').map_or(text, |(_, value)| value);
        let is_file = value.trim_start().starts_with(['@', '<']);
        if value.contains('\\') && (is_file || value.contains("headers=")) {
            self.add_unknown(format!("`{text}` has escapes that are not analyzed"));
        }
        if let Some(quoted) = value.split('"').nth(1).filter(|_| is_file) {
            self.add_path(WordRole::Read, quoted);
        }
        for part in value.split([',', ';']).map(str::trim) {
            let names_file = |text: &str| text.starts_with(['@', '<']);
            let file = match part.split_once('=') {
                Some(("headers", file)) if names_file(file) => file,
                Some(("headers" | "type" | "filename" | "encoder", _)) => continue,
                _ if is_file => part,
                _ => continue,
            };
            self.add_path(WordRole::Read, file.trim_start_matches(['@', '<']).trim_matches('"'));
        }
    }

    pub(super) fn add_url(&mut self, text: &str) {
        let authority = text
            .split_once("://")
            .map_or(text, |(_, rest)| rest)
            .split(['/', '?'])
            .next()
            .unwrap_or_default();
        if authority.contains('{') {
            self.add_unknown(format!("`{text}` matches several hosts"));
        }
        if authority.contains('\\') || (authority.contains('#') && authority.contains('@')) {
            self.add_unknown(format!("programs disagree about the host of `{text}`"));
            if let Some(target) = host::parse_host(authority, 80) {
                self.add_target(target);
            }
        }
        match host::parse_url(text) {
            Some(NetworkTarget::File(path)) => self.add_path(WordRole::Read, &path),
            Some(NetworkTarget::Reach(host, port)) if is_web(text) => self.add(Effect::Reach { host, port }),
            Some(target) => self.add_target(target),
            None => self.add_unknown(format!("the host of `{text}` is not known")),
        }
    }

    /// Adds a connection. Only requests of the web can be told from sending, so any other protocol sends.
    pub(super) fn add_target(&mut self, target: NetworkTarget) {
        match target {
            NetworkTarget::Reach(host, port) => {
                self.add(Effect::Reach { host: host.clone(), port });
                self.add(Effect::Send { host, port });
            }
            NetworkTarget::File(path) => self.add_path(WordRole::Read, &path),
        }
    }

    /// Adds that the command sends something to each host that it reaches.
    pub(super) fn add_sends(&mut self) {
        let sends = |effect: &Effect| match effect {
            Effect::Reach { host, port } => Some(Effect::Send { host: host.clone(), port: *port }),
            _ => None,
        };
        let mut sends: Vec<Effect> = self.result.effects.iter().filter_map(sends).collect();
        if sends.is_empty() {
            // The host is in a file of settings, as that of `git push origin`.
            sends.push(Effect::send_to_unknown_host());
        }
        for effect in sends {
            self.add(effect);
        }
    }

    pub(super) fn add_remote(&mut self, role: WordRole, text: &str) {
        if text.contains("://") {
            return self.add_url(text);
        }
        match text.split_once(':') {
            // For both scp and rsync, a slash before the colon makes it a path.
            Some((peer, _)) if !peer.contains('/') && !peer.is_empty() => match host::parse_host(peer, 22) {
                Some(target) => self.add_target(target),
                None => self.add_unknown(format!("`{peer}` is not a host")),
            },
            _ => self
                .add_path(if role == WordRole::RemoteWrite { WordRole::Write } else { WordRole::Read }, text),
        }
    }

    pub(super) fn add_repository(&mut self, text: &str) {
        if text.contains("::") {
            self.add_unknown(format!("`{text}` names its own transport, which is a program"));
        } else if text.contains(':') {
            self.add_remote(WordRole::RemoteRead, text);
        } else if text.contains('/') || text.starts_with('.') {
            self.add_local_repository(text);
        } else if let Some(directory) = self.local_remote(text) {
            self.add_local_repository(&directory);
        } else {
            self.add_unknown(format!("the URL of `{text}` is in the configuration of the repository"));
        }
    }

    pub(super) fn add_revision(&mut self, text: &str) {
        let path = match text.split_once(':') {
            // The path is relative to the top of the repository, unless it begins with a dot.
            Some((_, path)) => {
                self.add_tracked_path(WordRole::Read, path);
                // `-L /a:b/:path`
                if let Some((_, path)) = path.rsplit_once(':') {
                    self.add_tracked_path(WordRole::Read, path);
                }
                return;
            }
            None if text.contains("..") && !text.contains('/') && !text.starts_with("..") => return,
            None => text,
        };
        let looks = path.contains(['/', '.']) || self.exists(path);
        if looks && !path.is_empty() && !text.starts_with('^') {
            self.add_path(WordRole::Read, path);
        }
    }

    pub(super) fn add_refspec(&mut self, text: &str) {
        let option = match text.strip_prefix('+') {
            Some(_) => "--force",
            None if text.starts_with(':') => "--delete",
            None => return,
        };
        for name in if option == "--force" { ["--force", "-f"] } else { ["--delete", "-d"] } {
            self.facts.options.push(name.to_owned());
            let mut argv = self.command_path.clone();
            argv.push(name.to_owned());
            argv.push(text.to_owned());
            self.add(Effect::Run { program: self.program.clone(), argv });
        }
    }

    /// Adds a path in a repository, which may be relative to the working directory or to the top.
    pub(super) fn add_tracked_path(&mut self, role: WordRole, path: &str) {
        self.add_path(role, path);
        if let Some(top) = self.repository_root().filter(|_| !path.is_empty() && !path.starts_with('/')) {
            self.add_path(role, &format!("{top}/{path}"));
        }
    }

    /// Returns the top of the repository that contains the working directory, as far as the environment tells.
    pub(super) fn repository_root(&self) -> Option<String> {
        let WorkingDir::At(start) = &self.working_dir else { return None };
        let mut folder = start.as_str();
        loop {
            if self.env.is_directory(&format!("{folder}/.git")) {
                return Some(folder.to_owned());
            }
            folder = folder.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.is_empty())?;
        }
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        let WorkingDir::At(directory) = &self.working_dir else { return true };
        !name.is_empty()
            && self.env.list_directory(directory).is_none_or(|names| names.iter().any(|own| own == name))
    }

    /// Adds the contents of a moved directory, because no rule would recognize them under their new name.
    fn add_moved_files(&mut self, directory: String) {
        let mut left = vec![directory];
        let mut count = 0_usize;
        while let Some(directory) = left.pop().filter(|_| count <= MOVED_MAX) {
            if !self.env.is_directory(&directory) {
                continue;
            }
            let Some(names) = self.env.list_directory(&directory) else {
                self.add_unknown(format!("the contents of `{directory}`, which is moved, are not known"));
                continue;
            };
            for name in names {
                count = count.saturating_add(1);
                let path = format!("{}/{name}", directory.trim_end_matches('/'));
                self.add_path_effect(Effect::Read { path: path.clone() }, self.all_partial);
                self.add_path_effect(Effect::Delete { path: path.clone() }, self.all_partial);
                left.push(path);
            }
        }
        if count > MOVED_MAX {
            self.add_unknown("a directory is moved that contains too many files to check");
        }
    }

    /// Adds the effects of a path in a role, and those on the files that are made beside it.
    pub(super) fn add_path(&mut self, role: WordRole, text: &str) {
        self.add_single_path(role, text);
        if matches!(role, WordRole::Write | WordRole::Edit) {
            for name in self.suffixed_names(text) {
                self.add_single_path(WordRole::Write, &name);
            }
        }
    }

    pub(super) fn add_single_path(&mut self, role: WordRole, text: &str) {
        if text.is_empty() || text == "-" || is_not_a_file(text) {
            return;
        }
        let resolved = match &self.working_dir {
            WorkingDir::At(directory) => self.env.resolve(directory, text),
            WorkingDir::Unknown(_) if text.starts_with('/') => self.env.resolve("/", text),
            WorkingDir::Unknown(why) => {
                let why = format!("`{text}` is searched for in an unknown directory: {why}");
                self.add_unknown(why);
                None
            }
        };
        let path = match resolved {
            Some(path) => path,
            None => {
                self.add_unknown(format!("the target of `{text}` is not known"));
                self.add_possible_repository_file(role, text);
                // A guess, so that a deny still sees it.
                join_lexically(self.env.cwd(), text)
            }
        };
        self.add_original(role, &path);
        self.add_other_names(role, &path);
        if let Some(rest) = path.strip_prefix("/proc/") {
            self.add_process_file(role, rest);
        }
        self.facts.targets.push(path.clone());
        let is_beneath = self.is_partial(role, text, &path);
        let read = Effect::Read { path: path.clone() };
        let write = Effect::Write { path: path.clone() };
        let delete = Effect::Delete { path: path.clone() };
        match role {
            WordRole::Write => self.add_path_effect(write, is_beneath),
            WordRole::Delete => {
                self.add_path_effect(delete, is_beneath);
                if self.deletes_contents() {
                    self.add_deleted_contents(&path);
                }
            }
            WordRole::Edit => {
                self.add_path_effect(read, self.all_partial);
                self.add_path_effect(write, is_beneath);
            }
            WordRole::Move => {
                self.add_path_effect(read, is_beneath);
                self.add_path_effect(delete, is_beneath);
                self.add_moved_files(path);
            }
            _ => {
                self.add_path_effect(read, is_beneath);
                if self.follows_links {
                    self.add_linked_elsewhere(&path);
                }
            }
        }
    }

    /// Checks whether deleting a directory deletes everything in it. Git deletes only tracked or untracked files, except by these commands.
    fn deletes_contents(&self) -> bool {
        match self.facts.program.as_str() {
            "git" => self.facts.subcommands.iter().any(|sub| matches!(sub.as_str(), "rm" | "worktree")),
            "rmdir" => false,
            _ => !self.all_partial,
        }
    }

    /// Adds the original of a place that an earlier command of the text has copied, moved or linked.
    fn add_original(&mut self, role: WordRole, path: &str) {
        let Some(earlier) = self.earlier else { return };
        for (from, to) in &earlier.copies {
            let Some(rest) = path.strip_prefix(to.as_str()) else { continue };
            if rest.is_empty() || rest.starts_with('/') {
                let original = format!("{from}{rest}");
                if !self.result.effects.contains(&Effect::Read { path: original.clone() }) {
                    self.add(Effect::Read { path: original.clone() });
                    self.add_other_names(role, &original);
                    if matches!(role, WordRole::Write | WordRole::Edit) {
                        self.tentatively(|own| own.add(Effect::Write { path: original }));
                    }
                }
            }
        }
    }

    /// Adds the other names of a file: its hard links, and the name that rules know if it belongs to a repository without `.git`.
    fn add_other_names(&mut self, role: WordRole, path: &str) {
        let changes = matches!(role, WordRole::Write | WordRole::Edit | WordRole::Delete | WordRole::Move);
        for name in self.env.other_names(path) {
            if changes && role != WordRole::Delete {
                self.tentatively(|own| own.add(Effect::Write { path: name.clone() }));
            }
            if role != WordRole::Delete && role != WordRole::Write {
                self.add(Effect::Read { path: name });
            }
        }
        if changes {
            let made = self.earlier.map(|earlier| earlier.repositories.as_slice()).unwrap_or_default();
            for path in repository_names(self.env, path, made) {
                self.tentatively(|own| own.add(Effect::Write { path }));
            }
        }
    }

    /// Adds a file of a repository that an earlier command of the text has made, if the current directory is not known and may be there.
    fn add_possible_repository_file(&mut self, role: WordRole, text: &str) {
        let is_written = matches!(role, WordRole::Write | WordRole::Edit);
        let Some(earlier) = self.earlier.filter(|_| is_written && !text.starts_with('/')) else { return };
        for directory in &earlier.repositories {
            let file = join_lexically(directory, text);
            for path in repository_names(self.env, &file, &earlier.repositories) {
                self.tentatively(|own| own.add(Effect::Write { path }));
            }
        }
    }

    /// Adds what a file beneath `/proc/` stands for: the root and the directory of a process lead to every file, and the other files
    /// of another process show what it does.
    fn add_process_file(&mut self, role: WordRole, path: &str) {
        let (process, file) = path.split_once('/').unwrap_or((path, ""));
        let is_own = matches!(process, "self" | "thread-self");
        if !is_own && !process.bytes().all(|byte| byte.is_ascii_digit() || b"*?[]-".contains(&byte))
            || process.is_empty()
        {
            return;
        }
        let file = match file.strip_prefix("task/").and_then(|rest| rest.split_once('/')) {
            Some((_, file)) => file,
            None => file,
        };
        match file.split_once('/').unwrap_or((file, "")) {
            ("root", rest) => self.add_single_path(role, &format!("/{rest}")),
            ("cwd", rest) if is_own => {
                let cwd = self.env.cwd().to_owned();
                self.add_single_path(role, &format!("{cwd}/{rest}"));
            }
            _ if is_own => {}
            _ => self.add_unknown(format!("`/proc/{path}` belongs to another process")),
        }
    }

    /// Adds an effect on a path, and marks it if it is about something below the path.
    pub(super) fn add_path_effect(&mut self, effect: Effect, is_beneath: bool) {
        if is_beneath && !self.result.partial_effects.contains(&effect) {
            self.result.partial_effects.push(effect.clone());
        }
        self.add(effect);
    }

    /// Checks whether a path in a role means something below it. Writing a directory means writing something in it. Deleting one means
    /// deleting all of it. Git is an exception: it deletes only tracked or only untracked files. A glob of Git's own means any file
    /// that it matches.
    fn is_partial(&self, role: WordRole, text: &str, path: &str) -> bool {
        let is_git = self.facts.program == "git";
        let in_directory = match role {
            WordRole::Write | WordRole::Edit => !self.changes_itself,
            WordRole::Delete => is_git,
            _ => false,
        };
        self.all_partial
            || is_git && text.contains(['*', '?', '['])
            || in_directory && self.env.is_directory(path)
    }
}

/// Checks whether a URL is one of the web. Without a scheme it is.
fn is_web(url: &str) -> bool {
    let scheme = url.trim().split_once("://").map_or("http", |(scheme, _)| scheme);
    // `sparse+https` and the like are protocols on top of it.
    let scheme = scheme.rsplit('+').next().unwrap_or(scheme);
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// Checks for names that open nothing that was not open before.
fn is_not_a_file(text: &str) -> bool {
    matches!(text, "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/zero" | "/dev/urandom")
        || text
            .strip_prefix("/dev/fd/")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Resolves a path by its text alone.
fn join_lexically(cwd: &str, text: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    let start = if text.starts_with('/') { "" } else { cwd };
    for step in start.split('/').chain(text.split('/')) {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}
