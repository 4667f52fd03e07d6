//! What was typed means: where the state is, who is here, where they stand.
//!
//! The only place that looks at the environment.

use std::env;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use byleave::core::id::TenantId;
use byleave::core::question::{Approver, Grade};

use crate::args::{Ask, Global};
use crate::complaint::Complaint;

/// What holds for every command.
#[derive(Debug)]
pub(crate) struct Options {
    /// Where the book is kept.
    pub(crate) state: PathBuf,
    /// Where we stand, absolute and resolved.
    pub(crate) cwd: String,
    /// Whose book; one person has one tenant.
    pub(crate) tenant: TenantId,
    /// Who is here.
    pub(crate) person: Approver,
}

impl Options {
    pub(crate) fn new(global: &Global) -> Result<Self> {
        let cwd = env::current_dir().context("cannot find out in which directory we are")?;
        Ok(Self {
            state: cwd.join(state(global.state.as_deref())?),
            cwd: text_of(&cwd)?,
            tenant: TenantId::new("local")?,
            person: person(),
        })
    }
}

fn state(typed: Option<&Path>) -> Result<PathBuf> {
    if let Some(dir) = typed {
        return Ok(dir.to_path_buf());
    }
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let found = set("BYLEAVE_STATE")
        .or_else(|| set("XDG_STATE_HOME").map(|dir| dir.join("byleave")))
        .or_else(|| set("HOME").map(|home| home.join(".local/state/byleave")));
    let missing =
        || Complaint::new("nobody says where the book is kept").hint("name a directory with `--state`");
    Ok(found.ok_or_else(missing)?)
}

/// A name for the book, and how sure we are that it is a person: whoever types has a terminal.
fn person() -> Approver {
    let name =
        ["USER", "LOGNAME"].iter().find_map(|name| env::var(name).ok().filter(|name| !name.is_empty()));
    let name = name.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()));
    let grade = if at_terminal() { Grade::Terminal } else { Grade::Program };
    Approver { name, grade }
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
