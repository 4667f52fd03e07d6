//! What was typed means: where the state is, who is here, where they stand.
//!
//! The only place that looks at the environment.

use std::collections::BTreeSet;
use std::env;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use byleave::core::id::TenantId;
use byleave::core::question::{Approver, Grade};
use byleave_sandbox::guarantee::Guarantee;

use crate::args::{Ask, Global};
use crate::complaint::Complaint;
use crate::screen::colours;

/// What holds for every command.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Where the book is kept.
    pub(crate) state: PathBuf,
    /// Where we stand, absolute and resolved.
    pub(crate) cwd: String,
    /// The rules of this session, if someone named a file.
    pub(crate) policy: Option<PathBuf>,
    /// The home directory, where it is known.
    pub(crate) home: Option<String>,
    /// Where the person's own settings lie, where that is known.
    pub(crate) config: Option<String>,
    /// Whose book; one person has one tenant.
    pub(crate) tenant: TenantId,
    /// Who is here.
    pub(crate) person: Approver,
    /// `delete_file` is among the tools.
    pub(crate) allow_delete: bool,
    /// Colours are used where the person looks.
    pub(crate) is_colourful: bool,
    /// Guarantees that commands run without, as the operator said.
    pub(crate) waived: BTreeSet<Guarantee>,
}

impl Options {
    pub(crate) fn new(global: &Global) -> Result<Self> {
        let cwd = env::current_dir().context("cannot find out in which directory we are")?;
        Ok(Self {
            state: cwd.join(state(global.state.as_deref())?),
            policy: global.policy.as_deref().map(|file| cwd.join(file)),
            home: set("HOME").map(|home| settled(&home)).transpose()?.flatten(),
            config: config().map(|dir| settled(&dir)).transpose()?.flatten(),
            cwd: text_of(&cwd)?,
            tenant: TenantId::new("local")?,
            person: person(),
            allow_delete: env::var("BYLEAVE_ALLOW_DELETE").is_ok_and(|value| value == "1"),
            is_colourful: colours(global.color, io::stderr().is_terminal()),
            waived: waived()?,
        })
    }
}

fn state(typed: Option<&Path>) -> Result<PathBuf> {
    if let Some(dir) = typed {
        return Ok(dir.to_path_buf());
    }
    let found = set("BYLEAVE_STATE")
        .or_else(|| set("XDG_STATE_HOME").map(|dir| dir.join("byleave")))
        .or_else(|| set("HOME").map(|home| home.join(".local/state/byleave")));
    let missing =
        || Complaint::new("nobody says where the book is kept").hint("name a directory with `--state`");
    Ok(found.ok_or_else(missing)?)
}

fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn config() -> Option<PathBuf> {
    let dir = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(dir.join("byleave"))
}

/// The absolute path with links followed as far as it exists: that is how effects name it. A relative one names nothing.
pub(crate) fn settled(path: &Path) -> Result<Option<String>> {
    if !path.is_absolute() {
        return Ok(None);
    }
    let there = path.ancestors().find_map(|above| above.canonicalize().ok().map(|real| (above, real)));
    let Some((above, real)) = there else { return Ok(None) };
    let whole = path.strip_prefix(above).map_or_else(|_| real.clone(), |rest| real.join(rest));
    let plain: PathBuf = whole.components().collect();
    Ok(Some(text_of(&plain)?))
}

/// A name for the book, and how sure we are that it is a person: whoever types has a terminal.
fn person() -> Approver {
    let name =
        ["USER", "LOGNAME"].iter().find_map(|name| env::var(name).ok().filter(|name| !name.is_empty()));
    let name = name.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()));
    let grade = if at_terminal() { Grade::Terminal } else { Grade::Program };
    Approver { name, grade }
}

/// What the operator does without, by the names that `byleave doctor` lists.
fn waived() -> Result<BTreeSet<Guarantee>> {
    let names = env::var("BYLEAVE_WAIVE").unwrap_or_default();
    let names = names.split([',', ' ']).filter(|name| !name.is_empty());
    let wrong = |name: &str| {
        Complaint::new(format!("BYLEAVE_WAIVE names `{name}`, which is no guarantee"))
            .hint("`byleave doctor` lists them")
    };
    Ok(names.map(|name| Guarantee::named(name).ok_or_else(|| wrong(name))).collect::<Result<_, _>>()?)
}

fn at_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Where questions go: as it was said, else to who is here, else as it is careful.
pub(crate) fn asking(typed: Option<Ask>, nobody_here: Ask) -> Ask {
    typed.unwrap_or_else(|| if at_terminal() { Ask::Terminal } else { nobody_here })
}

/// A path as text, as the book has it.
pub(crate) fn text_of(path: &Path) -> Result<String> {
    let said = || Complaint::new(format!("the path `{}` is not readable as text", path.display()));
    Ok(path.to_str().ok_or_else(said)?.to_owned())
}
