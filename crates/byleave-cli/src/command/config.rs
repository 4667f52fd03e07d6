//! `byleave config`: shows the settings and their origin, and edits the person's own file.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use anyhow::Result;
use byleave_files::own;
use byleave_gate::core::policy::Layer;
use clap::Subcommand;
use serde_json::json;

use crate::call_display::table;
use crate::config::{self, ConfigFile, ConfigValue, ReviewerSetting, SettingSource};
use crate::console::{Console, one_line};
use crate::diagnostics;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show all settings, their values and sources (the default)
    Show,
    /// Edit your own settings file
    ///
    /// The editor is the setting `editor`, $VISUAL, $EDITOR or vi. An invalid file is not saved: the old one stays, and your draft is
    /// kept for the next edit. A new file starts with every setting and its default, commented out.
    Edit,
    /// List the settings files and whether they exist
    Path,
}

pub(crate) fn run(
    command: Option<ConfigCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command.unwrap_or(ConfigCommand::Show) {
        ConfigCommand::Show => show(options, screen),
        ConfigCommand::Edit => return edit(options, screen),
        ConfigCommand::Path => paths(options, screen),
    }
    Ok(ExitStatus::Completed)
}

fn show(options: &ResolvedOptions, screen: &mut Console) {
    if screen.json() {
        let settings = options.settings.all().map(held_json).collect::<Vec<_>>();
        let reviewers = options.settings.reviewers().iter().map(ReviewerSetting::json).collect::<Vec<_>>();
        screen.value(&json!({ "settings": settings, "reviewers": reviewers, "state": options.state }));
        return;
    }
    let row = |held: &ConfigValue| {
        vec![held.key.name.to_owned(), one_line(&held.value.to_string()), one_line(&held.origin.to_string())]
    };
    let rows: Vec<Vec<String>> = options.settings.all().map(row).collect();
    table(screen, &["SETTING", "VALUE", "FROM"], &rows);
    let row = |reviewer: &ReviewerSetting| {
        let (kind, on) = (reviewer.kind.as_str(), reviewer.kind.stages().as_str());
        let (tools, place) = (one_line(&reviewer.tools.join(" ")), one_line(&reviewer.place()));
        vec![reviewer.name.clone(), kind.to_owned(), on.to_owned(), tools, place]
    };
    let rows: Vec<Vec<String>> = options.settings.reviewers().iter().map(row).collect();
    if !rows.is_empty() {
        screen.line("");
        table(screen, &["REVIEWER", "KIND", "ON", "TOOLS", "FROM"], &rows);
    }
}

fn held_json(held: &ConfigValue) -> serde_json::Value {
    let (file, line) = match &held.origin {
        SettingSource::Organisation(path, line)
        | SettingSource::User(path, line)
        | SettingSource::Project(path, line) => (Some(path), Some(line)),
        SettingSource::Default | SettingSource::Variable(_) | SettingSource::Flag(_) => (None, None),
    };
    let name = match &held.origin {
        SettingSource::Variable(name) => Some(name.as_str()),
        SettingSource::Flag(name) => Some(*name),
        _ => None,
    };
    json!({
        "name": held.key.name,
        "value": held.value.json(),
        "origin": { "kind": held.origin.as_str(), "file": file, "line": line, "name": name },
    })
}

/// Searches the files itself, because one of them may not load.
fn paths(options: &ResolvedOptions, screen: &mut Console) {
    let files = options.config_files();
    if screen.json() {
        let one = |file: &ConfigFile| json!({ "layer": file.layer, "path": file.path, "exists": file.path.exists() });
        screen.value(&files.iter().map(one).collect());
        return;
    }
    let row = |file: &ConfigFile| {
        let there = if file.path.exists() { "exists" } else { "missing" };
        vec![file.layer.to_string(), there.to_owned(), one_line(&file.path.to_string_lossy())]
    };
    table(screen, &["LAYER", "STATUS", "FILE"], &files.iter().map(row).collect::<Vec<_>>());
}

fn edit(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let own = options.config_files().into_iter().find(|file| file.layer == Layer::User);
    let nowhere =
        || CliError::new("your settings directory is not known").hint("set HOME or XDG_CONFIG_HOME");
    let path = own.ok_or_else(nowhere)?.path;
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let no = CliError::new("there is no terminal for an editor");
        return Err(no
            .hint(format!("edit `{}` in another way; `byleave config show` checks it", path.display()))
            .into());
    }
    // The file may be a link to settings that are kept elsewhere. The link stays.
    let path = path.canonicalize().unwrap_or(path);
    let draft = begin(&path)?;
    let mut words = options.editor.iter();
    let program = words.next().map_or("vi", String::as_str);
    let ended = Program::new(program).args(words).arg(&draft).status().map_err(|error| {
        CliError::new(format!("cannot start the editor `{program}`: {error}"))
            .hint("choose another with $VISUAL, $EDITOR or the setting `editor`")
    })?;
    if !ended.success() {
        fs::remove_file(&draft)?;
        let left = CliError::new(format!("the editor ended with {ended}: nothing was changed"));
        return Err(left.hint("exit the editor normally to save the file").into());
    }
    take(&path, &draft, options, screen)
}

/// Returns the file to edit: the draft that was rejected last time, a copy of the current file, or the template.
fn begin(path: &Path) -> Result<PathBuf> {
    let draft = path.with_extension("toml.edited");
    if draft.exists() {
        return Ok(draft);
    }
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let text = if path.exists() { own::read_text(path)? } else { config::template() };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    Ok(draft)
}

/// Replaces the old file by the draft, if it loads.
fn take(path: &Path, draft: &Path, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let text = own::read_text(draft)?;
    let organisation = options.settings.reviewers().iter();
    let organisation: Vec<ReviewerSetting> =
        organisation.filter(|reviewer| reviewer.layer == Layer::Organisation).cloned().collect();
    if let Err(fault) = config::check(path, &text, &organisation) {
        diagnostics::print_config_errors(screen, &fault);
        screen.hint(&format!(
            "the old file is unchanged; your draft is in `{}`, and `byleave config edit` opens it again",
            draft.display()
        ));
        if screen.json() {
            screen.value(&json!({ "file": path, "saved": false, "draft": draft }));
        }
        return Ok(ExitStatus::Unusable);
    }
    let is_changed = own::read_text(path).map_or(true, |old| old != text);
    fs::rename(draft, path)?;
    if screen.json() {
        screen.value(&json!({ "file": path, "saved": true, "changed": is_changed }));
    } else {
        let what = if is_changed { "saved" } else { "unchanged" };
        screen.line(&one_line(&format!("`{}` is {what}", path.display())));
    }
    Ok(ExitStatus::Completed)
}
