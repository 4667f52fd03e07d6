//! A reviewer that holds everything until a person has reviewed it.

use byleave_core::outcome::Output;
use serde_json::Value;

use super::{InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewError};
use crate::boxed::BoxFuture;

/// Returns a reviewer that has a person review everything. For arguments, the person is asked before the call. A result is
/// held until the person releases, edits or withholds it.
pub fn hold_reviewer(why: impl Into<String>) -> HoldReviewer {
    HoldReviewer { reason: why.into() }
}

/// A reviewer that has a person review everything; see [`hold_reviewer`].
#[derive(Clone, Debug)]
pub struct HoldReviewer {
    reason: String,
}

const NAME: &str = "hold";

impl InputReviewer for HoldReviewer {
    fn name(&self) -> &str {
        NAME
    }
    fn review<'a>(&'a self, _: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>> {
        Box::pin(async { Ok(Opinion::hold(&self.reason)) })
    }
}

impl OutputReviewer for HoldReviewer {
    fn name(&self) -> &str {
        NAME
    }
    fn review<'a>(&'a self, _: OutputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        Box::pin(async { Ok(Opinion::hold(&self.reason)) })
    }
}
