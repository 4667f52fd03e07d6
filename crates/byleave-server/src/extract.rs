//! Strict parsing of JSON bodies, queries and ids. Unknown parts are rejected, never ignored.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use byleave_gate::core::id::{CallId, QuestionId, StandingApprovalId};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::problem::{Problem, ProblemKind};
use crate::state::App;

/// A JSON body.
pub(crate) struct StrictJson<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for StrictJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(ProblemKind::NotJson, "the content type must be `application/json`"));
        }
        let limits = app.limits();
        let bytes = read_body(request.into_body(), limits.max_body_bytes, limits.body_timeout).await?;
        let malformed = |error: serde_json::Error| {
            Problem::new(ProblemKind::Malformed, format!("the body cannot be read: {error}"))
        };
        Ok(Self(serde_json::from_slice(&bytes).map_err(malformed)?))
    }
}

pub(crate) async fn read_body(body: Body, bytes_max: usize, limit: Duration) -> Result<Vec<u8>, Problem> {
    let collected = tokio::time::timeout(limit, Limited::new(body, bytes_max).collect()).await;
    let slow = |_| Problem::new(ProblemKind::TooSlow, "the body did not arrive in time");
    match collected.map_err(slow)? {
        Ok(whole) => Ok(whole.to_bytes().to_vec()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Problem::new(ProblemKind::TooLarge, format!("the body is larger than {bytes_max} bytes")))
        }
        Err(_) => Err(Problem::new(ProblemKind::Malformed, "the body ended early")),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = given.and_then(|given| given.split(';').next()).unwrap_or_default();
    media.trim().eq_ignore_ascii_case("application/json")
}

/// A query without unknown parameters.
pub(crate) struct StrictQuery<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for StrictQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        let malformed =
            |why| Problem::new(ProblemKind::Malformed, format!("the query cannot be read: {why}"));
        Ok(Self(query.map_err(|error| malformed(error.body_text()))?.0))
    }
}

/// An id in the path. An invalid id gives "not found".
pub(crate) struct PathId<T>(pub(crate) T);

macro_rules! ids {
    ($($id:ident, $what:literal;)*) => {$(
        impl FromRequestParts<App> for PathId<$id> {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
                Ok(Self($id::new(id(parts, app, $what).await?)))
            }
        }
    )*};
}

ids! {
    CallId, "call";
    QuestionId, "question";
    StandingApprovalId, "standing approval";
}

async fn id(parts: &mut Parts, app: &App, what: &str) -> Result<Uuid, Problem> {
    let missing = || Problem::not_found(what);
    let Path(text) = Path::<String>::from_request_parts(parts, app).await.map_err(|_| missing())?;
    let id: Uuid = text.parse().map_err(|_| missing())?;
    // Only one notation is valid, because another would be a second name for the same object.
    if id.to_string() == text.to_ascii_lowercase() { Ok(id) } else { Err(missing()) }
}

/// A JSON response.
pub(crate) struct JsonResponse<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for JsonResponse<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => Problem::internal_error("the response cannot be encoded", &error).into_response(),
        }
    }
}
