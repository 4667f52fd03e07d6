//! The person at this terminal: the prompt in front of the gate, and what it needs to know of the book behind it.

use std::env;
use std::sync::Arc;

use anyhow::Result;
use byleave::approve::{Approver, Terminal};
use byleave::book::sqlite::SqliteBook;
use byleave::core::leave::Leave;
use byleave::core::sheet::Sheet;
use byleave_terminal::colour::Palette;
use byleave_terminal::dialogue::Offered;
use byleave_terminal::{Backing, Manner, Prompt};
use tokio::runtime::Handle;

use crate::complaint::Complaint;
use crate::options::Options;

/// The approver that asks at this terminal: drawn in place, or line by line where nothing can be drawn.
pub(crate) fn at_terminal(options: &Options, book: &Arc<SqliteBook>) -> Result<Arc<dyn Approver>> {
    let wrong = |error: std::io::Error| {
        Complaint::new(format!("cannot ask at the terminal: {error}"))
            .hint("leave the question open with `--ask inbox` and answer it with `byleave inbox`")
    };
    let name = &options.person.name;
    if is_dumb() {
        return Ok(Arc::new(Terminal::open(name).map_err(wrong)?));
    }
    let behind = Behind { options: options.clone(), book: Arc::clone(book), handle: Handle::current() };
    let prompt = Prompt::open(name, "/dev/tty", manner(options), Arc::new(behind));
    Ok(Arc::new(prompt.map_err(wrong)?))
}

/// How this person is asked.
pub(crate) fn manner(options: &Options) -> Manner {
    let editor =
        ["VISUAL", "EDITOR"].iter().find_map(|name| env::var(name).ok().filter(|name| !name.is_empty()));
    Manner {
        palette: if options.is_colourful { Palette::Colours } else { Palette::Plain },
        patience: 1,
        notify: env::var("TERM").is_ok_and(|term| term != "linux"),
        editor,
    }
}

/// A terminal that can only write one line after the other, or whose person wants no other.
fn is_dumb() -> bool {
    env::var("TERM").map_or(true, |term| term.is_empty() || term == "dumb")
}

/// What stands behind the prompt.
struct Behind {
    options: Options,
    book: Arc<SqliteBook>,
    handle: Handle,
}

impl Backing for Behind {
    fn offers(&self, _sheet: &Sheet) -> Result<Vec<Offered>, String> {
        Err("no leave can be given for this".into())
    }

    fn past(&self, _leave: &Leave) -> Vec<String> {
        let _ = (&self.options, &self.book, &self.handle);
        Vec::new()
    }

    fn undo(&self) -> Option<String> {
        None
    }
}
