//! The page for errors.

use axum::response::{Html, IntoResponse, Response};
use maud::html;

use super::html_document::render_signed_out;
use crate::problem::Problem;

/// A problem, rendered as a page.
pub(super) struct ErrorPage(pub(super) Problem);

impl<P: Into<Problem>> From<P> for ErrorPage {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let page = render_signed_out(
            "Error",
            &html! {
                h1 { (problem.title()) }
                p { (problem.detail()) }
                p { a href="/" { "Back to the inbox" } }
            },
        );
        (problem.status(), Html(page.into_string())).into_response()
    }
}
