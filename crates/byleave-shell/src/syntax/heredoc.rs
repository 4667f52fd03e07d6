//! Here-documents whose body has not been read yet.

use std::cell::OnceCell;
use std::rc::Rc;

use super::tree::RawWord;

/// A here-document whose body begins after the current line.
pub(super) struct PendingHereDoc {
    pub(super) delimiter: String,
    pub(super) quoted: bool,
    pub(super) tabs: bool,
    pub(super) body: Rc<OnceCell<RawWord>>,
}
