//! The certain state of the shell at one point of the text.

use std::collections::{BTreeMap, BTreeSet};

use crate::commands::WorkingDir;
use crate::shell_env::ShellEnv;
use crate::syntax::is_name;

/// The known value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VariableValue {
    Text(String),
    /// A number in digits.
    Number,
    Unknown,
}

/// The current directory: its logical and its physical path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShellDirectory {
    At { logical: String, physical: String },
    Unknown(String),
}

/// The certain state of the shell at one point of the text.
#[derive(Clone, Debug)]
pub(super) struct ShellState {
    variables: BTreeMap<String, VariableValue>,
    /// Whether environment variables still have the values from the environment.
    inherits_environment: bool,
    /// Variables that were declared or assigned in an unusual way. They are never certain again.
    uncertain: BTreeSet<String>,
    pub(super) working_dir: ShellDirectory,
    /// The directory stack of `popd`, or `None` if it is not certain.
    pub(super) stack: Option<Vec<ShellDirectory>>,
    /// Whether no command so far can have changed files.
    pub(super) files_unchanged: bool,
    /// Whether nothing is ever forgotten, so that the last known facts are assumed to hold. For guesses, which prove nothing.
    guessing: bool,
    /// Functions that are certainly defined.
    pub(super) functions: BTreeSet<String>,
}

/// Checks for variables that bash sets or interprets itself. They are never certain.
fn is_special(name: &str) -> bool {
    name.starts_with("BASH")
        || name.starts_with("COMP")
        || name.starts_with("READLINE")
        || name.starts_with("EPOCH")
        || matches!(
            name,
            "_" | "RANDOM"
                | "SRANDOM"
                | "SECONDS"
                | "LINENO"
                | "FUNCNAME"
                | "GROUPS"
                | "HISTCMD"
                | "PIPESTATUS"
                | "PPID"
                | "DIRSTACK"
                | "OPTARG"
                | "OPTIND"
                | "OPTERR"
                | "REPLY"
                | "SHLVL"
                | "SHELLOPTS"
                | "UID"
                | "EUID"
                | "HOSTNAME"
                | "HOSTTYPE"
                | "MACHTYPE"
                | "OSTYPE"
                | "COLUMNS"
                | "LINES"
                | "OLDPWD"
                | "IFS"
                | "MAPFILE"
                | "COPROC"
                | "SHELL"
                | "TERM"
                | "POSIXLY_CORRECT"
        )
}

impl ShellState {
    pub(super) fn new(scene: &dyn ShellEnv) -> Self {
        let cwd = scene.cwd().to_owned();
        Self {
            variables: BTreeMap::new(),
            inherits_environment: true,
            uncertain: BTreeSet::new(),
            working_dir: ShellDirectory::At { logical: cwd.clone(), physical: cwd },
            stack: Some(Vec::new()),
            files_unchanged: true,
            guessing: false,
            functions: BTreeSet::new(),
        }
    }

    /// Creates the initial state for guesses.
    pub(super) fn new_guessing(scene: &dyn ShellEnv) -> Self {
        Self { guessing: true, ..Self::new(scene) }
    }

    pub(super) fn is_guessing(&self) -> bool {
        self.guessing
    }

    /// Checks whether files are as the environment says.
    pub(super) fn are_files_unchanged(&self) -> bool {
        self.files_unchanged || self.guessing
    }

    pub(super) fn working_dir(&self) -> WorkingDir {
        match &self.working_dir {
            ShellDirectory::At { physical, .. } => WorkingDir::At(physical.clone()),
            ShellDirectory::Unknown(why) => WorkingDir::Unknown(why.clone()),
        }
    }

    pub(super) fn value(&self, name: &str, scene: &dyn ShellEnv) -> VariableValue {
        if self.uncertain.contains(name) || is_special(name) || !is_name(name) {
            return VariableValue::Unknown;
        }
        if name == "PWD" {
            return match (&self.working_dir, self.variables.contains_key("PWD")) {
                (ShellDirectory::At { logical, .. }, false) => VariableValue::Text(logical.clone()),
                _ => VariableValue::Unknown,
            };
        }
        match self.variables.get(name) {
            Some(value) => value.clone(),
            None if !self.inherits_environment => VariableValue::Unknown,
            None => scene
                .variable(name)
                .or_else(|| if name == "HOME" { scene.home().map(str::to_owned) } else { None })
                .map_or(VariableValue::Unknown, VariableValue::Text),
        }
    }

    pub(super) fn home(&self, scene: &dyn ShellEnv) -> Option<String> {
        let is_set = self.variables.contains_key("HOME")
            || self.uncertain.contains("HOME")
            || !self.inherits_environment;
        if !is_set && let Some(home) = scene.home() {
            return Some(home.to_owned());
        }
        match self.value("HOME", scene) {
            VariableValue::Text(home) => Some(home),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, name: &str, value: VariableValue) {
        if self.guessing && value == VariableValue::Unknown && self.variables.contains_key(name) {
            return;
        }
        self.variables.insert(name.to_owned(), value);
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.variables.contains_key(name) || self.uncertain.contains(name)
    }

    /// Checks whether it may be read-only, or otherwise not accept a value.
    pub(super) fn is_uncertain(&self, name: &str) -> bool {
        self.uncertain.contains(name) || !self.inherits_environment
    }

    pub(super) fn mark_uncertain(&mut self, name: &str) {
        if !self.guessing {
            self.uncertain.insert(name.to_owned());
        }
    }

    /// Records that the directory is not known any more.
    pub(super) fn forget_working_dir(&mut self, why: &str) {
        if !self.guessing {
            self.working_dir = ShellDirectory::Unknown(why.to_owned());
            self.stack = None;
        }
    }

    /// Checks whether words are split at blanks and line ends, which is the default.
    pub(super) fn splits_as_usual(&self) -> bool {
        self.inherits_environment && !self.is_set("IFS")
    }

    pub(super) fn forget_variables(&mut self) {
        if self.guessing {
            return;
        }
        self.variables.clear();
        self.inherits_environment = false;
    }

    /// Resets the state after something that may have changed anything in the shell.
    pub(super) fn forget(&mut self, why: &str) {
        if self.guessing {
            return;
        }
        self.forget_variables();
        self.forget_working_dir(why);
        self.files_unchanged = false;
        self.functions.clear();
    }

    /// Returns the state that is certain on both of two paths.
    pub(super) fn join(mut self, other: &Self) -> Self {
        if self.guessing {
            return self.or_else(other);
        }
        let names: BTreeSet<String> = self.variables.keys().chain(other.variables.keys()).cloned().collect();
        for name in names {
            let (one, two) = (self.variables.get(&name), other.variables.get(&name));
            if one != two {
                let is_number = |value: Option<&VariableValue>| match value {
                    Some(VariableValue::Number) => true,
                    Some(VariableValue::Text(text)) => is_integer(text),
                    _ => false,
                };
                let value = if is_number(one) && is_number(two) {
                    VariableValue::Number
                } else {
                    VariableValue::Unknown
                };
                self.variables.insert(name, value);
            }
        }
        self.inherits_environment &= other.inherits_environment;
        self.uncertain.extend(other.uncertain.iter().cloned());
        if self.working_dir != other.working_dir {
            self.working_dir =
                ShellDirectory::Unknown("the directory depends on earlier commands".to_owned());
        }
        if self.stack != other.stack {
            self.stack = None;
        }
        self.files_unchanged &= other.files_unchanged;
        self.functions.retain(|name| other.functions.contains(name));
        self
    }

    /// Merges two paths for guesses: the first wins, and the other fills in unknown values.
    fn or_else(mut self, other: &Self) -> Self {
        for (name, value) in &other.variables {
            let own = self.variables.entry(name.clone()).or_insert(VariableValue::Unknown);
            if *own == VariableValue::Unknown {
                *own = value.clone();
            }
        }
        if matches!(self.working_dir, ShellDirectory::Unknown(_)) {
            self.working_dir = other.working_dir.clone();
        }
        self.stack = self.stack.or_else(|| other.stack.clone());
        self.functions.extend(other.functions.iter().cloned());
        self
    }
}

/// Checks whether a text is an integer, and so has the same value in arithmetic.
pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.len() < 19 && digits.bytes().all(|b| b.is_ascii_digit())
}
