//! Books, each against the whole conformance suite.

use std::sync::Arc;

use byleave::book::conformance::{Bench, Opened};
use byleave::book::sqlite::{Options, SqliteBook};
use byleave::ledger::LedgerFault;
use byleave::pending::Pending;

// req: A1
mod sqlite {
    byleave::book_conformance!(super::SqliteBench::new());
}

/// A book in a state directory of its own.
struct SqliteBench(tempfile::TempDir);

impl SqliteBench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Bench for SqliteBench {
    fn open(&self) -> Pending<'_, Result<Opened, LedgerFault>> {
        Box::pin(async {
            let options = Options { seal_every: None, ..Options::default() };
            let book = Arc::new(SqliteBook::open(self.0.path(), &options)?);
            Ok(Opened { ledger: Arc::clone(&book) as Arc<_>, book })
        })
    }

    fn restart(&self) -> Pending<'_, Result<(), LedgerFault>> {
        Box::pin(async { Ok(()) })
    }
}
