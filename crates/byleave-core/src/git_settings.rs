//! Settings of a repository (`.git/config`): a reader of their format, and the list of settings that run nothing and lead nowhere.
//!
//! Git runs programs that its settings name, so rules deny every write of the file. Most changes of it are harmless: the name of the
//! author, a new remote, the branch that a branch follows. This module compares the file before and after a run. A change is plain only if
//! every setting that differs is on the list, and its new value has the form of such a value. Anything that the reader does not know is not
//! plain.

use serde::{Deserialize, Serialize};

/// The maximum size of a file of settings.
pub const SETTINGS_BYTES_MAX: u64 = 1 << 20;
/// The maximum length of a value.
const VALUE_LEN_MAX: usize = 1024;
/// The end of the path of the settings of a repository.
const FILE: &str = "/.git/config";

/// The form of a plain value.
#[derive(Clone, Copy, Debug)]
enum ValueForm {
    /// Text in one line that nothing interprets.
    Text,
    /// A truth value.
    Bool,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The name of a remote.
    Remote,
    /// The name of a branch, as `refs/heads/NAME`.
    Branch,
    /// An address of a repository, with a transport that Git has itself.
    Url,
    /// A refspec that fetches branches into those of the same remote.
    Fetch,
}

/// The settings that run nothing. `*` stands for the name of a branch, a remote or a submodule.
const PLAIN: [(&str, ValueForm); 42] = [
    ("user.name", ValueForm::Text),
    ("user.email", ValueForm::Text),
    ("author.name", ValueForm::Text),
    ("author.email", ValueForm::Text),
    ("committer.name", ValueForm::Text),
    ("committer.email", ValueForm::Text),
    ("init.defaultbranch", ValueForm::Text),
    ("core.autocrlf", ValueForm::OneOf(&["true", "false", "input"])),
    ("core.eol", ValueForm::OneOf(&["lf", "crlf", "native"])),
    ("core.safecrlf", ValueForm::OneOf(&["true", "false", "warn"])),
    ("core.filemode", ValueForm::Bool),
    ("core.ignorecase", ValueForm::Bool),
    ("core.precomposeunicode", ValueForm::Bool),
    ("core.symlinks", ValueForm::Bool),
    ("core.quotepath", ValueForm::Bool),
    ("core.longpaths", ValueForm::Bool),
    // Without logs of references, less can be recovered.
    ("core.logallrefupdates", ValueForm::OneOf(&["true", "always"])),
    ("branch.*.remote", ValueForm::Remote),
    ("branch.*.merge", ValueForm::Branch),
    ("branch.*.rebase", ValueForm::OneOf(&["true", "false", "merges"])),
    ("branch.autosetupmerge", ValueForm::OneOf(&["true", "false", "always", "simple"])),
    ("branch.autosetuprebase", ValueForm::OneOf(&["never", "local", "remote", "always"])),
    ("remote.*.url", ValueForm::Url),
    ("remote.*.fetch", ValueForm::Fetch),
    ("remote.*.tagopt", ValueForm::OneOf(&["--no-tags", "--tags"])),
    ("remote.*.prune", ValueForm::Bool),
    ("submodule.*.url", ValueForm::Url),
    ("submodule.*.active", ValueForm::Bool),
    ("pull.rebase", ValueForm::OneOf(&["true", "false", "merges"])),
    ("pull.ff", ValueForm::OneOf(&["true", "false", "only"])),
    ("merge.ff", ValueForm::OneOf(&["true", "false", "only"])),
    ("merge.conflictstyle", ValueForm::OneOf(&["merge", "diff3", "zdiff3"])),
    // `matching` and `upstream` push branches that the command does not name.
    ("push.default", ValueForm::OneOf(&["nothing", "current", "simple"])),
    ("push.autosetupremote", ValueForm::Bool),
    ("fetch.prune", ValueForm::Bool),
    ("rebase.autosquash", ValueForm::Bool),
    ("rebase.autostash", ValueForm::Bool),
    ("rebase.updaterefs", ValueForm::Bool),
    ("rerere.enabled", ValueForm::Bool),
    ("color.ui", ValueForm::OneOf(&["true", "false", "auto", "always", "never"])),
    ("core.sparsecheckout", ValueForm::Bool),
    ("core.sparsecheckoutcone", ValueForm::Bool),
];

/// The settings that `git init` and `git clone` write, in a repository that did not exist before.
const NEW: [(&str, ValueForm); 5] = [
    ("core.repositoryformatversion", ValueForm::OneOf(&["0", "1"])),
    ("core.bare", ValueForm::OneOf(&["false"])),
    ("core.logallrefupdates", ValueForm::Bool),
    ("extensions.objectformat", ValueForm::OneOf(&["sha1", "sha256"])),
    ("extensions.refstorage", ValueForm::OneOf(&["files", "reftable"])),
];

/// A change of the settings of a repository that is harmless, apart from what a person should decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitSettingsChange {
    /// The path of the file.
    pub path: String,
    /// The settings that differ, such as `user.name`.
    pub keys: Vec<String>,
    /// What a person should know, in words: where a new remote leads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What a person should decide, in words: a later push or pull would go elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<String>,
}

impl GitSettingsChange {
    /// Returns the paths by which rules know the changed settings. See [`setting_path`].
    pub fn setting_paths(&self) -> Vec<String> {
        match self.keys.as_slice() {
            [] => vec![setting_path(&self.path, "comments")],
            keys => keys.iter().map(|key| setting_path(&self.path, key)).collect(),
        }
    }
}

/// Checks whether a path is that of the settings of a repository.
pub fn is_settings_file(path: &str) -> bool {
    path.ends_with(FILE)
}

/// Returns the settings file of which a path names one setting.
pub fn settings_file_of(path: &str) -> Option<&str> {
    let (before, _) = path.split_once(&format!("{FILE}/"))?;
    path.get(..before.len() + FILE.len())
}

/// Returns the path by which rules know a setting: beneath the path of the file, as if the file were a directory.
pub fn setting_path(file: &str, key: &str) -> String {
    format!("{file}/{key}")
}

/// Returns the file of a setting that is named by [`setting_path`].
pub fn file_of_setting(path: &str) -> Option<&str> {
    let (file, _) = path.split_once("/.git/config/")?;
    path.get(..file.len() + FILE.len())
}

/// Checks whether a setting is on the list of those that run nothing.
pub fn is_plain_key(key: &str) -> bool {
    ParsedKey::new(key).is_some_and(|key| key.form(&PLAIN).is_some())
}

/// Checks whether all settings of a new repository run nothing.
pub fn is_plain_new(text: &str) -> bool {
    let Some(settings) = parse_settings(text) else { return false };
    settings.iter().all(|setting| {
        let Some(key) = ParsedKey::new(&setting.key) else { return false };
        let is_plain = |form| setting.value.as_deref().is_some_and(|value| key.accepts(form, value));
        [key.form(&PLAIN), key.form(&NEW)].into_iter().flatten().any(is_plain)
    })
}

/// Compares settings before and after a run. Returns nothing if the change may make Git run something, or is not understood.
pub fn compare_settings(path: &str, before: &str, after: &str) -> Option<GitSettingsChange> {
    let (before, after) = (parse_settings(before)?, parse_settings(after)?);
    let keys = differing_keys(&before, &after)?;
    // A new address may switch on settings that wait for it.
    if !keys.is_empty() && before.iter().any(|setting| setting.key.starts_with("includeif.")) {
        return None;
    }
    for setting in added(&before, &after) {
        let key = ParsedKey::new(&setting.key)?;
        let value = setting.value.as_deref()?;
        if !key.accepts(key.form(&PLAIN)?, value) {
            return None;
        }
    }
    let mut change = GitSettingsChange { path: path.to_owned(), keys, ..GitSettingsChange::default() };
    change.describe(&before, &after);
    Some(change)
}

/// Compares settings before and after they are restored. What is restored was in force before, so only the names of the settings count.
pub fn compare_restored_settings(path: &str, now: &str, restored: &str) -> Option<GitSettingsChange> {
    let keys = differing_keys(&parse_settings(now)?, &parse_settings(restored)?)?;
    Some(GitSettingsChange { path: path.to_owned(), keys, ..GitSettingsChange::default() })
}

/// Returns the settings on the list that differ, or nothing if another one does.
fn differing_keys(before: &[Setting], after: &[Setting]) -> Option<Vec<String>> {
    let is_plain = |setting: &&Setting| is_plain_key(&setting.key);
    // The order counts: of several values the last one is in force, and a file may be included in between.
    let others = |settings: &[Setting]| -> Vec<Setting> {
        settings.iter().filter(|setting| !is_plain(setting)).cloned().collect()
    };
    if others(before) != others(after) {
        return None;
    }
    let mut keys: Vec<String> = before
        .iter()
        .chain(after)
        .filter(is_plain)
        .map(|setting| &setting.key)
        .filter(|key| values(before, key) != values(after, key))
        .cloned()
        .collect();
    keys.sort_unstable();
    keys.dedup();
    Some(keys)
}

impl GitSettingsChange {
    /// Says where remotes and branches lead.
    fn describe(&mut self, before: &[Setting], after: &[Setting]) {
        for name in &self.keys {
            let Some(key) = ParsedKey::new(name) else { continue };
            let (old, new) = (values(before, name), values(after, name));
            let label = key.name.unwrap_or_default();
            match (key.section, key.key) {
                ("remote" | "submodule", "url") => {
                    let place = format!("{} `{label}`", key.section);
                    let (was, is) = (show_urls(&old), show_urls(&new));
                    match (old.is_empty(), new.is_empty()) {
                        (true, _) => self.notes.push(format!("{place} now leads to {is}")),
                        (false, true) => self.asks.push(format!("{place} no longer leads to {was}")),
                        (false, false) => {
                            self.asks.push(format!("{place} now leads to {is} instead of {was}"))
                        }
                    }
                }
                ("branch", "remote") => {
                    let to = new.last().and_then(|value| value.as_deref());
                    if let Some(to) = to.filter(|to| !["origin", "."].contains(to)) {
                        self.asks.push(format!("branch `{label}` now follows the remote `{to}`"));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the settings that are new, with their number: a second line of the same is new, too.
fn added<'a>(before: &[Setting], after: &'a [Setting]) -> Vec<&'a Setting> {
    let mut left: Vec<&Setting> = before.iter().collect();
    let is_new = |setting: &&Setting| match left.iter().position(|own| own == setting) {
        Some(at) => {
            left.swap_remove(at);
            false
        }
        None => true,
    };
    after.iter().filter(is_new).collect()
}

fn values<'a>(settings: &'a [Setting], key: &str) -> Vec<&'a Option<String>> {
    settings.iter().filter(|setting| setting.key == key).map(|setting| &setting.value).collect()
}

/// Shows addresses without passwords.
fn show_urls(urls: &[&Option<String>]) -> String {
    let show = |url: &&Option<String>| format!("`{}`", without_password(url.as_deref().unwrap_or_default()));
    urls.iter().map(show).collect::<Vec<_>>().join(" and ")
}

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(first, path)| (first, Some(path)));
    let path = path.map(|path| format!("/{path}")).unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}://{user}@{host}{path}")
        }
        None => url.to_owned(),
    }
}

/// The name of a setting in its parts: `remote.origin.url`.
#[derive(Clone, Copy)]
struct ParsedKey<'a> {
    section: &'a str,
    name: Option<&'a str>,
    key: &'a str,
}

impl<'a> ParsedKey<'a> {
    fn new(text: &'a str) -> Option<Self> {
        let (section, rest) = text.split_once('.')?;
        Some(match rest.rsplit_once('.') {
            Some((name, key)) => Self { section, name: Some(name), key },
            None => Self { section, name: None, key: rest },
        })
    }

    /// Returns the form of the values of this setting in a list.
    fn form(&self, list: &[(&str, ValueForm)]) -> Option<ValueForm> {
        let is_known_name = match (self.name, self.section) {
            (None, _) => true,
            // Git looks for a remote by the text that it is given, so this text must not be an address or a path.
            (Some(name), "remote") => is_remote_name(name),
            (Some(name), "branch" | "submodule") => is_branch_name(name),
            (Some(_), _) => false,
        };
        let is_same = |listed: &str| match (listed.split_once(".*."), self.name) {
            (Some((section, key)), Some(_)) => section == self.section && key == self.key,
            (None, None) => listed.split_once('.') == Some((self.section, self.key)),
            _ => false,
        };
        let found = list.iter().find(|(listed, _)| is_known_name && is_same(listed));
        found.map(|(_, form)| *form)
    }

    fn accepts(&self, form: ValueForm, value: &str) -> bool {
        let is_text = value.len() <= VALUE_LEN_MAX && !value.chars().any(char::is_control);
        is_text
            && match form {
                ValueForm::Text => true,
                ValueForm::Bool => ["true", "false", "yes", "no", "on", "off", "1", "0"].contains(&value),
                ValueForm::OneOf(words) => words.contains(&value),
                ValueForm::Remote => value == "." || is_remote_name(value),
                ValueForm::Branch => value.strip_prefix("refs/heads/").is_some_and(is_branch_name),
                ValueForm::Url => is_plain_url(value),
                ValueForm::Fetch => self.name.is_some_and(|remote| fetches_into(value, remote)),
            }
    }
}

fn is_remote_name(name: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '_' | '-');
    !name.is_empty() && !name.starts_with(['.', '-']) && !name.contains("..") && name.chars().all(is_plain)
}

fn is_branch_name(name: &str) -> bool {
    let is_plain = |one: char| one.is_alphanumeric() || ".+_-/@#=,%".contains(one);
    let is_step = |step: &str| !step.is_empty() && !step.starts_with('.') && !step.ends_with(".lock");
    !name.starts_with('-')
        && !name.contains("..")
        && name.chars().all(is_plain)
        && name.split('/').all(is_step)
}

/// Checks whether a refspec fetches branches of a remote, or one of them, into the names that stand for this remote.
fn fetches_into(refspec: &str, remote: &str) -> bool {
    let Some((from, to)) = refspec.strip_prefix('+').unwrap_or(refspec).split_once(':') else { return false };
    let (Some(from), Some(to)) =
        (from.strip_prefix("refs/heads/"), to.strip_prefix(&format!("refs/remotes/{remote}/")))
    else {
        return false;
    };
    from == to && (from == "*" || is_branch_name(from))
}

/// Checks whether an address has a transport of Git itself, and nothing in it is an option or is read by a shell.
pub fn is_plain_url(url: &str) -> bool {
    let is_plain = |one: char| one.is_alphanumeric() || "-._~:/@%+,=".contains(one);
    let is_word = |text: &str| !text.is_empty() && !text.starts_with('-');
    if !is_word(url) || url.contains("::") || !url.chars().all(is_plain) {
        return false;
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        let (authority, _) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("u", authority));
        return match scheme {
            "file" => authority.is_empty() && is_word(rest),
            "https" | "http" | "ssh" | "git" => is_word(user) && is_word(host) && !host.contains('%'),
            _ => false,
        };
    }
    match url.split_once(':') {
        // `user@host:path`. A path with a colon begins with a slash or a dot.
        Some((host, path)) if !host.contains('/') => {
            let (user, host) = host.rsplit_once('@').unwrap_or(("u", host));
            let is_name = |text: &str| {
                text.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '.' | '_' | '-'))
            };
            is_word(path) && [user, host].into_iter().all(|text| is_word(text) && is_name(text))
        }
        _ => true,
    }
}

/// One setting: its name as Git writes it, and its value. A name without a `=` has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name: `section.key` or `section.name.key`. Only the name between the dots keeps its case.
    pub key: String,
    /// The value.
    pub value: Option<String>,
}

/// Reads settings as Git does. Returns nothing for a text that Git refuses, or that is written in a way that Git never writes.
pub fn parse_settings(text: &str) -> Option<Vec<Setting>> {
    if text.contains('\0') || text.starts_with('\u{feff}') {
        return None;
    }
    let text = text.replace("\r\n", "\n");
    let mut reader = SettingsReader { rest: text.chars(), section: String::new() };
    let mut settings = Vec::new();
    while let Some(one) = reader.rest.next() {
        match one {
            '\n' | ' ' | '\t' | '\r' => {}
            '#' | ';' => reader.skip_line(),
            '[' => reader.section = reader.read_section()?,
            one if one.is_ascii_alphabetic() && !reader.section.is_empty() => {
                settings.push(reader.read_setting(one)?);
            }
            _ => return None,
        }
    }
    Some(settings)
}

struct SettingsReader<'a> {
    rest: std::str::Chars<'a>,
    /// The name of the section with that between its quotes.
    section: String,
}

impl SettingsReader<'_> {
    fn skip_line(&mut self) {
        self.rest.by_ref().find(|one| *one == '\n');
    }

    fn read_section(&mut self) -> Option<String> {
        let mut section = String::new();
        loop {
            match self.rest.next()? {
                ']' => break,
                ' ' | '\t' if !section.is_empty() => {
                    section.push('.');
                    self.read_name(&mut section)?;
                    break;
                }
                one if is_key_char(one) || one == '.' => section.push(one.to_ascii_lowercase()),
                _ => return None,
            }
        }
        (!section.is_empty() && !section.starts_with('.')).then_some(section)
    }

    /// Reads the quoted name in the head of a section, to its closing bracket.
    fn read_name(&mut self, section: &mut String) -> Option<()> {
        let first = self.rest.find(|one| !matches!(one, ' ' | '\t'))?;
        if first != '"' {
            return None;
        }
        loop {
            match self.rest.next()? {
                '\n' => return None,
                '"' => break,
                '\\' => section.push(self.rest.next().filter(|one| *one != '\n')?),
                one => section.push(one),
            }
        }
        (self.rest.next()? == ']').then_some(())
    }

    fn read_setting(&mut self, first: char) -> Option<Setting> {
        let mut key = format!("{}.{}", self.section, first.to_ascii_lowercase());
        let mut next = self.rest.next();
        while let Some(one) = next.filter(|one| is_key_char(*one)) {
            key.push(one.to_ascii_lowercase());
            next = self.rest.next();
        }
        while matches!(next, Some(' ' | '\t')) {
            next = self.rest.next();
        }
        match next {
            None | Some('\n') => Some(Setting { key, value: None }),
            Some('=') => Some(Setting { key, value: Some(self.read_value()?) }),
            Some(_) => None,
        }
    }

    /// Reads a value to the end of its line. Blanks at its ends and comments are no part of it, unless they are quoted.
    fn read_value(&mut self) -> Option<String> {
        let (mut value, mut is_quoted) = (String::new(), false);
        // The length without the blanks at the end.
        let mut kept = 0;
        loop {
            match self.rest.next() {
                None | Some('\n') if is_quoted => return None,
                None | Some('\n') => break,
                Some(' ' | '\t' | '\r') if !is_quoted && value.is_empty() => {}
                Some(blank @ (' ' | '\t' | '\r')) if !is_quoted => value.push(blank),
                Some('#' | ';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some('"') => {
                    is_quoted = !is_quoted;
                    kept = value.len();
                }
                Some('\\') => {
                    match self.rest.next()? {
                        '\n' => {}
                        't' => value.push('\t'),
                        'n' => value.push('\n'),
                        'b' => value.push('\u{8}'),
                        same @ ('\\' | '"') => value.push(same),
                        _ => return None,
                    }
                    kept = value.len();
                }
                Some(one) => {
                    value.push(one);
                    kept = value.len();
                }
            }
        }
        value.truncate(kept);
        Some(value)
    }
}

fn is_key_char(one: char) -> bool {
    one.is_ascii_alphanumeric() || one == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/w/.git/config";
    const BEFORE: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
        [remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
        [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";

    fn after(text: &str) -> Option<GitSettingsChange> {
        compare_settings(FILE, BEFORE, &format!("{BEFORE}{text}\n"))
    }

    // req: E5
    #[test]
    fn a_plain_setting_is_known_by_its_name() {
        for (text, keys) in [
            ("[user]\n\tname = Ada Lovelace", vec!["user.name"]),
            ("[user]\n\tname = \"Ada # L\" ; c\n\temail = a@b", vec!["user.email", "user.name"]),
            ("[USER]\n\tEMAIL = a@b", vec!["user.email"]),
            (
                "[branch \"feature/x\"]\n\tremote = origin\n\tmerge = refs/heads/feature/x",
                vec!["branch.feature/x.merge", "branch.feature/x.remote"],
            ),
            ("[pull]\n\trebase = true\n[push]\n\tdefault = current", vec!["pull.rebase", "push.default"]),
            ("[core] autocrlf = input", vec!["core.autocrlf"]),
            ("# nothing", vec![]),
        ] {
            let change = after(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(change.keys, keys, "{text}");
            assert!(change.asks.is_empty() && change.notes.is_empty(), "{change:?}");
        }
    }

    // req: E5
    #[test]
    fn a_setting_that_could_run_something_is_not_plain() {
        for text in [
            "[alias]\n\tst = !touch m",
            "[include]\n\tpath = x",
            "[includeIf \"gitdir:/\"]\n\tpath = x",
            "[core]\n\thooksPath = hooks",
            "[CORE]\n\tHOOKSPATH = hooks",
            "[core] fsmonitor = touch m",
            "[core]\n\tfilemode = \\\n\ttrue\n\tpager = touch m",
            "[core]\n\teditor = vi",
            "[core]\n\tsshCommand = touch m",
            "[core]\n\tbare = true",
            "[core]\n\tworktree = ..",
            "[core]\n\tattributesFile = x",
            "[core]\n\tgitProxy = touch",
            "[core]\n\tlogallrefupdates = false",
            "[core \"x\"]\n\tfilemode = true",
            "[url \"https://evil/\"]\n\tinsteadOf = https://example.org/",
            "[url \"https://evil/\"]\n\tpushInsteadOf = https://example.org/",
            "[remote \"origin\"]\n\tpushurl = https://evil/",
            "[remote \"o\"]\n\turl = ext::sh -c touch",
            "[remote \"o\"]\n\turl = ext::touch",
            "[remote \"o\"]\n\turl = --upload-pack=touch",
            "[remote \"o\"]\n\turl = ssh://-oProxyCommand=touch/x",
            "[remote \"o\"]\n\turl = ssh://a@-oProxyCommand=touch/x",
            "[remote \"o\"]\n\turl = -oProxyCommand=touch:x",
            "[remote \"o\"]\n\turl = ssh://%2doProxyCommand=touch/x",
            "[remote \"o\"]\n\turl = transport://x/y",
            "[remote \"o\"]\n\turl = \"https://a/`touch m`\"",
            "[remote \"o\"]\n\turl = https://a/\\n",
            "[remote \"o\"]\n\turl",
            "[remote \"o\"]\n\turl =",
            "[remote \"o\"]\n\tuploadpack = touch",
            "[remote \"o\"]\n\treceivepack = touch",
            "[remote \"o\"]\n\tvcs = x",
            "[remote \"o\"]\n\tproxy = http://evil",
            "[remote \"o\"]\n\tfetch = +refs/heads/*:refs/heads/*",
            "[remote \"o\"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*",
            "[remote \"o\"]\n\tpush = refs/heads/*",
            "[remote \"o\"]\n\tmirror = true",
            "[remote \"https://github.com/a/b\"]\n\turl = https://evil/",
            "[remote \"../other\"]\n\turl = https://evil/",
            "[remote]\n\tpushDefault = evil",
            "[branch \"main\"]\n\tmergeOptions = -s x",
            "[branch \"main\"]\n\tpushRemote = o",
            "[branch \"main\"]\n\trebase = interactive",
            "[branch \"x\"]\n\tremote = https://evil/",
            "[branch \"x\"]\n\tmerge = --upload-pack=touch",
            "[branch \"../../x\"]\n\tremote = origin",
            "[push]\n\tdefault = matching",
            "[pull]\n\ttwohead = x",
            "[submodule \"x\"]\n\tupdate = !touch m",
            "[submodule \"x\"]\n\turl = ext::touch",
            "[filter \"x\"]\n\tclean = touch m",
            "[diff \"x\"]\n\ttextconv = touch m",
            "[diff]\n\texternal = touch m",
            "[merge \"x\"]\n\tdriver = touch m",
            "[credential]\n\thelper = !touch m",
            "[gpg]\n\tprogram = touch",
            "[http]\n\tproxy = http://evil",
            "[user]\n\tsigningKey = x",
            "[user]\n\tname = a\\\n\temail = b\n[alias]\n\tx = !y",
            "[user]\n\tname = a\0",
            "[user]\n\tname = \"a",
            "[user]\n\tname = a\\nb",
            "[user]\n\tname",
            "[user\n\tname = a",
            "[]\n\tname = a",
            "[extensions]\n\tpartialClone = origin",
            "[extensions]\n\tworktreeConfig = true",
            "[status]\n\tshowUntrackedFiles = no",
            "= x",
            "é = x",
        ] {
            assert_eq!(after(text), None, "{text:?}");
        }
        assert_eq!(compare_settings(FILE, BEFORE, &format!("\u{feff}{BEFORE}")), None);
        // What stays is not judged, but nothing of it may go, and no order may change.
        let alias = "[alias]\n\tst = !touch m\n\tco = checkout\n";
        let own = format!("{BEFORE}{alias}");
        assert!(compare_settings(FILE, &own, &format!("{own}[user]\n\tname = a\n")).is_some());
        assert_eq!(compare_settings(FILE, &own, BEFORE), None);
        let turned = format!("{BEFORE}[alias]\n\tco = checkout\n\tst = !touch m\n");
        assert_eq!(compare_settings(FILE, &own, &turned), None);
        // A new remote could switch on what waits for its address.
        let waits = format!("{BEFORE}[includeIf \"hasconfig:remote.*.url:https://x/**\"]\n\tpath = y\n");
        let remote = "[remote \"o\"]\n\turl = https://x/y\n";
        assert_eq!(compare_settings(FILE, &waits, &format!("{waits}{remote}")), None);
    }

    // req: E5
    #[test]
    fn a_person_is_told_where_a_remote_leads() {
        let change = after("[remote \"fork\"]\n\turl = https://me:secret@example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/fork/*")
            .unwrap();
        assert_eq!(change.notes, ["remote `fork` now leads to `https://me@example.com/a.git`"]);
        assert!(change.asks.is_empty());
        assert_eq!(
            change.setting_paths(),
            ["/w/.git/config/remote.fork.fetch", "/w/.git/config/remote.fork.url"]
        );
        let url = "https://example.org/a.git";
        let changed = |text: &str| compare_settings(FILE, BEFORE, text).unwrap().asks;
        assert_eq!(
            changed(&BEFORE.replace(url, "git@evil.example:a.git")),
            ["remote `origin` now leads to `git@evil.example:a.git` instead of `https://example.org/a.git`"]
        );
        // A second address gets every push, too.
        assert_eq!(changed(&format!("{BEFORE}[remote \"origin\"]\n\turl = https://evil/\n")).len(), 1);
        // Two steps are no way around: who removes a remote is asked.
        let gone = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";
        assert_eq!(changed(gone), ["remote `origin` no longer leads to `https://example.org/a.git`"]);
        assert_eq!(
            changed(&BEFORE.replace("remote = origin", "remote = fork")),
            ["branch `main` now follows the remote `fork`"]
        );
        // What is restored was there before.
        let restored = compare_restored_settings(FILE, BEFORE, gone).unwrap();
        assert!(restored.asks.is_empty() && restored.keys.contains(&"remote.origin.url".to_owned()));
        assert_eq!(compare_restored_settings(FILE, BEFORE, "[alias]\n\tx = !y\n"), None);
    }

    // req: E5
    #[test]
    fn addresses_name_transports_of_git_itself() {
        for url in [
            "https://example.org/a.git",
            "http://localhost:8080/a",
            "ssh://git@example.org:22/~a/b.git",
            "git@example.org:a/b.git",
            "git://example.org/a",
            "file:///srv/a.git",
            "/srv/a.git",
            "../a.git",
            "./a",
            "host:path",
        ] {
            assert!(is_plain_url(url), "{url}");
        }
        for url in [
            "",
            "-x",
            "ext::x",
            "fd::3",
            "foo://x",
            "https://",
            "https:///x",
            "file://host/x",
            "ssh://-x/y",
            "-x@h:y",
            "h:-y",
            "a b",
            "https://a/\u{1}",
            "a'b",
            "x;y",
            "$(x)",
            "a\\b",
            "<x",
            "HTTPS://x/",
        ] {
            assert!(!is_plain_url(url), "{url}");
        }
    }

    // req: E5
    #[test]
    fn settings_of_new_repositories_run_nothing() {
        assert!(is_plain_new(BEFORE) && is_plain_new(""));
        for text in
            ["[core]\n\tbare = true\n", "[core]\n\tfilemode\n", "filemode = true\n", "[alias]\n\tx = !y\n"]
        {
            assert!(!is_plain_new(&format!("{text}{BEFORE}")), "{text}");
        }
    }

    #[test]
    fn a_setting_has_a_path_beneath_the_file() {
        let path = setting_path("/w/.git/config", "branch.a/b.remote");
        assert_eq!(file_of_setting(&path), Some("/w/.git/config"));
        assert_eq!(file_of_setting("/w/.git/config"), None);
        assert!(is_settings_file("/w/.git/config") && !is_settings_file("/w/config"));
    }
}
