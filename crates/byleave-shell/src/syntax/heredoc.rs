//! Here-documents that have been announced and not yet come.

use std::cell::OnceCell;
use std::rc::Rc;

use super::tree::RawWord;

/// A here-document whose lines come after the end of this line.
pub(super) struct PendingHereDoc {
    pub(super) delimiter: String,
    pub(super) quoted: bool,
    pub(super) tabs: bool,
    pub(super) body: Rc<OnceCell<RawWord>>,
}
