//! A reviewer behind HTTP. The subject is sent signed, and the opinion must be signed (see [`crate::signed_http`]).
//!
//! The request body is an object with `digest` and `subject`. The answer repeats `digest` beside `opinion`, so that an
//! opinion on one subject cannot be replayed for another.

use byleave_core::digest::Digest;
use byleave_core::outcome::Output;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::protocol::{WireOpinion, WireSubject, parse_response};
use crate::boxed::BoxFuture;
use crate::review::{InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewError};
use crate::secret::Secret;
use crate::signed_http::{ServiceError, ServiceResponseError, SignedService};

/// A reviewer of arguments or results behind HTTP.
pub struct WebhookReviewer {
    name: String,
    service: SignedService,
}

impl WebhookReviewer {
    /// Creates a reviewer that posts to this URL: https, or http on this machine. The secret is shared with the service.
    pub fn new(name: impl Into<String>, url: &str, secret: Secret) -> Result<Self, ServiceError> {
        Ok(Self { name: name.into(), service: SignedService::new(url, secret)? })
    }

    async fn review_with_service<T: for<'de> Deserialize<'de>>(
        &self,
        subject: WireSubject<'_>,
    ) -> Result<Opinion<T>, ReviewError> {
        let digest = Digest::compute(&subject.to_bytes()?);
        let body = serde_json::to_vec(&ReviewRequest { digest, subject: &subject })
            .map_err(|error| ReviewError::Failed(format!("cannot encode the subject: {error}")))?;
        let answer = self.service.request(body).await.map_err(|error| match error {
            ServiceResponseError::Failed(why) => ReviewError::Failed(why),
            ServiceResponseError::InvalidResponse(why) => ReviewError::InvalidResponse(why),
        })?;
        let answer: ReviewResponse<WireOpinion<T>> = parse_response(&answer)?;
        if answer.digest != digest {
            return Err(ReviewError::InvalidResponse("the answer is for another subject".into()));
        }
        Ok(answer.opinion.into())
    }
}

#[derive(Serialize)]
struct ReviewRequest<'a> {
    digest: Digest,
    subject: &'a WireSubject<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReviewResponse<T> {
    digest: Digest,
    opinion: T,
}

impl InputReviewer for WebhookReviewer {
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>> {
        Box::pin(self.review_with_service(subject.into()))
    }
}

impl OutputReviewer for WebhookReviewer {
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(
        &'a self,
        subject: OutputSubject<'a>,
    ) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        Box::pin(self.review_with_service(subject.into()))
    }
}
