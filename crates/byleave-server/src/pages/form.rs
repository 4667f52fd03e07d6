//! Forms: read completely, within limits, and only with the CSRF token of their session.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header;
use url::form_urlencoded::parse;

use super::error_page::ErrorPage;
use super::signed_in_user::SignedInUser;
use crate::extract::read_body;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;

/// The fields of a form, in order.
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Returns a field that occurs once.
    pub(super) fn single(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        match (found.next(), found.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// Returns a field that must occur once.
    pub(super) fn require(&self, name: &str) -> Result<&str, Problem> {
        self.single(name)
            .ok_or_else(|| Problem::new(ProblemKind::Malformed, format!("the form has no `{name}`")))
    }

    /// Returns a text that may be empty, with the line endings of browsers normalized.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let text = self.single(name)?.replace("\r\n", "\n");
        (!text.trim().is_empty()).then_some(text)
    }

    /// Returns all fields with a name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn parse(text: &[u8]) -> Self {
        Self(parse(text).map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }
}

impl FromRequest<App> for FormFields {
    type Rejection = ErrorPage;

    async fn from_request(request: Request, app: &App) -> Result<Self, ErrorPage> {
        let media = request.headers().get(header::CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
        if media.as_deref() != Some(b"application/x-www-form-urlencoded") {
            return Err(Problem::new(
                ProblemKind::Malformed,
                "the request body is not a form of this server",
            )
            .into());
        }
        let limits = app.limits();
        Ok(Self::parse(&read_body(request.into_body(), limits.max_body_bytes, limits.body_timeout).await?))
    }
}

/// A form of a signed-in user, with a valid CSRF token.
pub(super) struct CsrfForm {
    pub(super) user: SignedInUser,
    pub(super) fields: FormFields,
}

impl FromRequest<App> for CsrfForm {
    type Rejection = ErrorPage;

    async fn from_request(request: Request, app: &App) -> Result<Self, ErrorPage> {
        let (mut parts, body) = request.into_parts();
        let visitor = SignedInUser::from_request_parts(&mut parts, app).await?;
        let fields = FormFields::from_request(Request::from_parts(parts, body), app).await?;
        if fields.single("csrf_token") != Some(visitor.session.csrf_token.as_str()) {
            let what = "the form belongs to another session; open the page again";
            return Err(Problem::new(ProblemKind::ForeignOrigin, what).into());
        }
        Ok(Self { user: visitor, fields })
    }
}
