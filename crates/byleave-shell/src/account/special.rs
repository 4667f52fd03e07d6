//! Programs whose words are a grammar of their own: shells, `env`, `find`, `xargs`, `test`, `dd`, `tar` and a few more.
//!
//! Small hand-written readers, because each of these has rules that no table of options can say. What they do not know is unknown.

use super::teller::Teller;
use crate::manual::Manual;
use crate::word::Word;

mod files;
mod filled;
mod git;
mod remote;
mod shells;

pub(super) use git::git_place;

/// Tells of a program by the reader of this name.
pub(super) fn tell(teller: &mut Teller<'_>, name: &str, manual: &'static Manual, words: &[Word]) {
    match name {
        "shell" => shells::shell(teller, words),
        "env" => shells::env(teller, manual, words),
        "find" => filled::find(teller, manual, words),
        "xargs" => filled::xargs(teller, manual, words),
        "test" => files::test(teller, words),
        "dd" => files::dd(teller, words),
        "tar" => files::tar(teller, manual, words),
        "source" => shells::source_by_path(teller, words),
        "assign" => shells::assign(teller, manual, words),
        "ssh" => remote::ssh(teller, manual, words),
        "parallel" => filled::parallel(teller, manual, words),
        "fd" => filled::fd(teller, manual, words),
        "pager" => files::pager(teller, manual, words),
        "possible" => shells::possible(teller, words),
        "make" => files::make(teller, manual, words),
        "dns" => remote::dns(teller, manual, words),
        "git-config" => git::git_config(teller, manual, words),
        _ => {
            teller.unknown(format!("the manual names a reader `{name}` that does not exist"));
            teller.possible_words(words);
        }
    }
}
