//! `byleave man`: manual pages, one for each command, generated from the definition of the commands.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args as Group, Command, CommandFactory as _};
use clap_mangen::Man as Page;
use serde_json::json;

use crate::call_display::format_count;
use crate::command::Args;
use crate::console::{Console, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;

#[derive(Debug, Group)]
pub(crate) struct ManArgs {
    /// Directory for the pages of all commands: `byleave.1`, `byleave-call.1` and so on
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// A page, and the words of its command.
struct ManPage {
    words: Vec<String>,
    text: String,
}

impl ManPage {
    fn file(&self) -> String {
        let mut name = "byleave".to_owned();
        for word in &self.words {
            name.push('-');
            name.push_str(word);
        }
        name.push_str(".1");
        name
    }
}

pub(crate) fn run(typed: &ManArgs, screen: &mut Console) -> Result<ExitStatus> {
    let mut root = Args::command();
    root.build();
    let mut pages = Vec::new();
    write(&root, &[], &mut pages)?;
    if let Some(dir) = &typed.dir {
        put(dir, &pages)?;
    }
    if screen.json() {
        let page = |page: &ManPage| json!({ "command": page.words, "file": page.file(), "text": page.text });
        screen.value(&pages.iter().map(page).collect());
    } else if let Some(dir) = &typed.dir {
        let many = format_count(pages.len() as u64, "page");
        screen.line(&one_line(&format!("{many} written to `{}`", dir.display())));
    } else if let Some(main) = pages.first() {
        screen.raw_text(&main.text);
    }
    Ok(ExitStatus::Completed)
}

fn write(command: &Command, above: &[String], pages: &mut Vec<ManPage>) -> Result<()> {
    let mut text = Vec::new();
    let page = command.clone().version(env!("CARGO_PKG_VERSION"));
    let whole = concat!("byleave ", env!("CARGO_PKG_VERSION"));
    Page::new(page).source(whole).manual("Byleave").render(&mut text)?;
    pages.push(ManPage { words: above.to_vec(), text: String::from_utf8(text)? });
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let words = above.iter().cloned().chain([inner.get_name().to_owned()]).collect::<Vec<_>>();
        write(inner, &words, pages)?;
    }
    Ok(())
}

fn put(dir: &Path, pages: &[ManPage]) -> Result<()> {
    let wrong = |error: std::io::Error| {
        CliError::new(format!("cannot write the pages to `{}`: {error}", dir.display()))
            .hint("choose a directory that you can write to, as in `--dir ~/.local/share/man/man1`")
    };
    fs::create_dir_all(dir).map_err(wrong)?;
    for page in pages {
        fs::write(dir.join(page.file()), &page.text).map_err(wrong)?;
    }
    Ok(())
}
