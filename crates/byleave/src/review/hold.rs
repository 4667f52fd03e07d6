//! A person as reviewer: everything is held until someone has looked.

use byleave_core::outcome::Output;
use serde_json::Value;

use super::{InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewFault};
use crate::pending::Pending;

/// A reviewer that has a person look at everything. For arguments the person is asked before the call; a result is held
/// until the person releases, edits or withholds it.
pub fn hold(why: impl Into<String>) -> Hold {
    Hold { why: why.into() }
}

/// Has a person look at everything; see [`hold`].
#[derive(Clone, Debug)]
pub struct Hold {
    why: String,
}

const NAME: &str = "hold";

impl InputReviewer for Hold {
    fn name(&self) -> &str {
        NAME
    }
    fn review<'a>(&'a self, _: InputSubject<'a>) -> Pending<'a, Result<Opinion<Value>, ReviewFault>> {
        Box::pin(async { Ok(Opinion::hold(&self.why)) })
    }
}

impl OutputReviewer for Hold {
    fn name(&self) -> &str {
        NAME
    }
    fn review<'a>(&'a self, _: OutputSubject<'a>) -> Pending<'a, Result<Opinion<Output>, ReviewFault>> {
        Box::pin(async { Ok(Opinion::hold(&self.why)) })
    }
}
