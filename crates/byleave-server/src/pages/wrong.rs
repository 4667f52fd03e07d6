//! What went wrong, as a page.

use axum::response::{Html, IntoResponse, Response};
use maud::html;

use super::paper::bare;
use crate::problem::Problem;

/// A problem, told to a person.
pub(super) struct Wrong(pub(super) Problem);

impl<P: Into<Problem>> From<P> for Wrong {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let page = bare(
            "It did not work",
            &html! {
                h1 { (problem.title()) }
                p { (problem.detail()) }
                p { a href="/" { "Back to the inbox" } }
            },
        );
        (problem.status(), Html(page.into_string())).into_response()
    }
}
