//! Problems with a request, as `application/problem+json` (RFC 9457), with a code and its page.
//!
//! The outcome of a call is never a problem, even if the call was refused; it is a result. A problem must not reveal anything
//! that the caller may not know.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use byleave_gate::core::refusal::{Code, Refusal};
use byleave_gate::gate::AnswerError;
use byleave_gate::ledger::LedgerError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::tenant::VerificationError;

/// The address of the pages of codes.
const REFUSALS: &str = "https://github.com/byleave/byleave/blob/main/docs/refusals";
const GUIDE: &str = "https://github.com/byleave/byleave/blob/main/docs/guide/server.md#problems";

/// The media type of a problem.
pub(crate) const MEDIA: &str = "application/problem+json";

/// Returns the page of a refusal's code.
pub(crate) fn page(code: Code) -> String {
    format!("{REFUSALS}/{code}.md")
}

macro_rules! troubles {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal, $status:ident;)*) => {
        /// The kinds of problems with a request, apart from refusals of a gate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProblemKind {
            $($(#[doc = $doc])+ $variant,)*
        }
        impl ProblemKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
            /// Returns the code as text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
            /// Returns the meaning in one line.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+)),* }
            }
            /// Returns the status of the response.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),* }
            }
        }
    };
}

troubles! {
    /// The token is missing or not valid.
    Unauthenticated = "unauthenticated", UNAUTHORIZED;
    /// The token does not allow this.
    Forbidden = "forbidden", FORBIDDEN;
    /// The request comes from a page of another origin.
    ForeignOrigin = "foreign-origin", FORBIDDEN;
    /// The request names a host that is not this server.
    ForeignHost = "foreign-host", MISDIRECTED_REQUEST;
    /// The object does not exist, or you may not see it.
    NotFound = "not-found", NOT_FOUND;
    /// The method is not allowed for this path.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED;
    /// The request cannot be read.
    Malformed = "malformed", BAD_REQUEST;
    /// The request can be read, but is not valid.
    Unusable = "unusable", UNPROCESSABLE_ENTITY;
    /// The body is not JSON, or its content type is not.
    NotJson = "not-json", UNSUPPORTED_MEDIA_TYPE;
    /// The body is too large.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE;
    /// The body did not arrive in time.
    TooSlow = "too-slow", REQUEST_TIMEOUT;
    /// More requests, calls, streams or checks than are allowed.
    TooMany = "too-many", TOO_MANY_REQUESTS;
    /// The question was answered, cancelled or has expired.
    Closed = "closed", CONFLICT;
    /// The call was claimed with another claim.
    Taken = "claimed", CONFLICT;
    /// Nobody can answer a question about their own call.
    OwnQuestion = "own-question", FORBIDDEN;
    /// The server has an internal error.
    Fault = "fault", INTERNAL_SERVER_ERROR;
}

/// A problem with a request (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The page of the code
    #[serde(rename = "type")]
    #[schema(format = "uri")]
    kind: String,
    /// The meaning of the code
    title: String,
    /// The status of the response
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The details of this problem
    detail: String,
    /// A stable code for programs: the code of a refusal, or one of the server
    code: String,
    #[serde(skip)]
    retry_after_s: Option<u64>,
}

impl Problem {
    pub(crate) fn new(trouble: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind: GUIDE.to_owned(),
            title: trouble.meaning().trim().to_owned(),
            status: trouble.status().as_u16(),
            detail: detail.into(),
            code: trouble.as_str().to_owned(),
            retry_after_s: None,
        }
    }

    pub(crate) fn too_many(detail: impl Into<String>, retry_after_s: u64) -> Self {
        Self { retry_after_s: Some(retry_after_s), ..Self::new(ProblemKind::TooMany, detail) }
    }

    /// Creates the problem for a request that a gate refused before there was a call.
    pub(crate) fn refused(status: StatusCode, refusal: &Refusal) -> Self {
        Self {
            kind: page(refusal.code),
            title: refusal.code.meaning().trim().to_owned(),
            status: status.as_u16(),
            detail: refusal.message.clone(),
            code: refusal.code.as_str().to_owned(),
            retry_after_s: None,
        }
    }

    /// Creates the problem for a request without a valid token.
    pub(crate) fn no_token() -> Self {
        let what = "a valid token is required: the token is missing, wrong, expired or removed";
        Self::new(ProblemKind::Unauthenticated, what)
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(ProblemKind::NotFound, format!("there is no such {what}"))
    }

    /// Returns the status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the meaning of the code.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Returns the details of this occurrence.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn internal_error(what: &str, why: &dyn std::fmt::Display) -> Self {
        // The cause is logged for the operator. The caller learns only that something failed.
        tracing::error!(what, %why, "cannot serve a request");
        Self::new(ProblemKind::Fault, what)
    }
}

impl From<LedgerError> for Problem {
    fn from(fault: LedgerError) -> Self {
        tracing::error!(%fault, "the ledger failed");
        let refusal =
            Refusal::new(Code::NotRecorded, "the audit log is not available now; nothing was changed");
        Self::refused(StatusCode::SERVICE_UNAVAILABLE, &refusal)
    }
}

impl From<VerificationError> for Problem {
    fn from(unchecked: VerificationError) -> Self {
        match unchecked {
            VerificationError::Busy => {
                Self::too_many("the audit log is already being verified; try again later", 5)
            }
            VerificationError::Ledger(fault) => fault.into(),
            VerificationError::TaskFailed(why) => {
                Self::internal_error("the audit log could not be verified", &why)
            }
        }
    }
}

impl From<AnswerError> for Problem {
    fn from(fault: AnswerError) -> Self {
        match fault {
            AnswerError::UnknownQuestion(_) => Self::not_found("question"),
            AnswerError::Mismatch => {
                let why = "the digest does not match the current question; read the question again";
                Self::refused(StatusCode::CONFLICT, &Refusal::new(Code::AnswerMismatch, why))
            }
            AnswerError::QuestionClosed => Self::new(ProblemKind::Closed, fault.to_string()),
            AnswerError::InvalidAnswer(why) => Self::new(ProblemKind::Unusable, why),
            AnswerError::NotPerson { .. } => Self::new(ProblemKind::Forbidden, fault.to_string()),
            AnswerError::SelfAnswer => Self::new(ProblemKind::OwnQuestion, fault.to_string()),
            AnswerError::NotRecorded(why) => LedgerError::new("the answer was not recorded", why).into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
