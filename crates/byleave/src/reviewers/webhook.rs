//! A reviewer behind HTTP: the subject goes out signed, the opinion must come back signed (see [`crate::signed`]).
//!
//! The body sent is an object with `digest` and `subject`; the answer repeats `digest` beside `opinion`, so that an opinion
//! of one thing cannot be played back for another.

use byleave_core::digest::Digest;
use byleave_core::outcome::Output;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wire::{WireOpinion, WireSubject, read};
use crate::pending::Pending;
use crate::review::{InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewFault};
use crate::secret::Secret;
use crate::signed::{BadService, NoAnswer, Service};

/// A reviewer of arguments or results behind HTTP.
pub struct Webhook {
    name: String,
    service: Service,
}

impl Webhook {
    /// A reviewer that posts to this address: https, or http on this machine. The secret is shared with the service.
    pub fn new(name: impl Into<String>, url: &str, secret: Secret) -> Result<Self, BadService> {
        Ok(Self { name: name.into(), service: Service::new(url, secret)? })
    }

    async fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        subject: WireSubject<'_>,
    ) -> Result<Opinion<T>, ReviewFault> {
        let digest = Digest::of(&subject.bytes()?);
        let body = serde_json::to_vec(&Request { digest, subject: &subject })
            .map_err(|error| ReviewFault::Failed(format!("cannot write the subject: {error}")))?;
        let answer = self.service.ask(body).await.map_err(|error| match error {
            NoAnswer::Failed(why) => ReviewFault::Failed(why),
            NoAnswer::Nonsense(why) => ReviewFault::Nonsense(why),
        })?;
        let answer: Answer<WireOpinion<T>> = read(&answer)?;
        if answer.digest != digest {
            return Err(ReviewFault::Nonsense("the answer is about something else".into()));
        }
        Ok(answer.opinion.into())
    }
}

#[derive(Serialize)]
struct Request<'a> {
    digest: Digest,
    subject: &'a WireSubject<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer<T> {
    digest: Digest,
    opinion: T,
}

impl InputReviewer for Webhook {
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: InputSubject<'a>) -> Pending<'a, Result<Opinion<Value>, ReviewFault>> {
        Box::pin(self.ask(subject.into()))
    }
}

impl OutputReviewer for Webhook {
    fn name(&self) -> &str {
        &self.name
    }
    fn review<'a>(&'a self, subject: OutputSubject<'a>) -> Pending<'a, Result<Opinion<Output>, ReviewFault>> {
        Box::pin(self.ask(subject.into()))
    }
}
