//! A person as reviewer: everything is held until someone has looked.

use byleave_core::outcome::Output;
use serde_json::Value;

use super::{InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewError};
use crate::boxed::BoxFuture;

/// A reviewer that has a person look at everything. For arguments the person is asked before the call; a result is held
/// until the person releases, edits or withholds it.
pub fn hold(why: impl Into<String>) -> HoldReviewer {
    HoldReviewer { why: why.into() }
}

/// Has a person look at everything; see [`hold`].
#[derive(Clone, Debug)]
pub struct HoldReviewer {
    why: String,
}

const NAME: &str = "hold";

impl InputReviewer for HoldReviewer {
    fn name(&self) -> &str {
        NAME
    }
    fn review<'a>(&'a self, _: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>> {
        Box::pin(async { Ok(Opinion::hold(&self.why)) })
    }
}

impl OutputReviewer for HoldReviewer {
    fn name(&self) -> &str {
        NAME
    }
    fn review<'a>(&'a self, _: OutputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        Box::pin(async { Ok(Opinion::hold(&self.why)) })
    }
}
