//! The return types of a reviewer: an opinion, or a shorter value that converts to one (R2).

use std::fmt::Display;

use byleave_core::outcome::Output;
use serde_json::Value;

use super::{Opinion, ReviewError};

impl<T> Opinion<T> {
    /// Returns a change with a reason.
    pub fn change(value: T, why: impl Into<String>) -> Self {
        Self::Change { value, reason: Some(why.into()) }
    }

    /// Returns a hold with a reason.
    pub fn hold(why: impl Into<String>) -> Self {
        Self::Hold { reason: Some(why.into()) }
    }

    /// Returns a refusal with a reason.
    pub fn deny(why: impl Into<String>) -> Self {
        Self::Deny { reason: Some(why.into()) }
    }
}

impl<T> From<bool> for Opinion<T> {
    fn from(approved: bool) -> Self {
        if approved { Self::Pass } else { Self::Deny { reason: None } }
    }
}

impl From<Value> for Opinion<Value> {
    fn from(value: Value) -> Self {
        Self::Change { value, reason: None }
    }
}

impl From<Output> for Opinion<Output> {
    fn from(value: Output) -> Self {
        Self::Change { value, reason: None }
    }
}

/// The return types of a reviewing closure: an [`Opinion`], a `bool`, a new value, or a `Result` of any of them.
pub trait IntoOpinion<T> {
    /// Converts the value into an opinion. An error is an objection (R3).
    fn into_opinion(self) -> Result<Opinion<T>, ReviewError>;
}

impl<T> IntoOpinion<T> for Opinion<T> {
    fn into_opinion(self) -> Result<Opinion<T>, ReviewError> {
        Ok(self)
    }
}

impl<T> IntoOpinion<T> for bool {
    fn into_opinion(self) -> Result<Opinion<T>, ReviewError> {
        Ok(self.into())
    }
}

impl IntoOpinion<Self> for Value {
    fn into_opinion(self) -> Result<Opinion<Self>, ReviewError> {
        Ok(self.into())
    }
}

impl IntoOpinion<Self> for Output {
    fn into_opinion(self) -> Result<Opinion<Self>, ReviewError> {
        Ok(self.into())
    }
}

impl<T, O: IntoOpinion<T>, E: Display> IntoOpinion<T> for Result<O, E> {
    fn into_opinion(self) -> Result<Opinion<T>, ReviewError> {
        self.map_err(|error| ReviewError::Failed(error.to_string()))?.into_opinion()
    }
}
