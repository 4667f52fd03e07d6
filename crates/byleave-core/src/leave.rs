//! Leaves: standing permissions that a person gave. Scope × time × count × session; listed and revocable.

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::effect::Effect;
use crate::id::{LeaveId, SessionId};
use crate::pattern::{BadPattern, Matcher, Pattern};

/// A standing permission, as the answer that gave it stands on the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leave {
    /// Its id.
    pub id: LeaveId,
    /// The tool whose calls it covers.
    pub tool: String,
    /// The effects it covers.
    pub scope: Vec<Pattern>,
    /// Only in this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// So many times. Consumed when a call begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_max: Option<u32>,
}

/// A leave made ready to match.
#[derive(Clone, Debug)]
pub struct LeaveMatcher {
    leave: Leave,
    scope: Vec<Matcher>,
}

impl LeaveMatcher {
    /// Makes a leave ready, or says which pattern is wrong.
    pub fn new(leave: Leave) -> Result<Self, BadPattern> {
        let scope = leave.scope.iter().cloned().map(Matcher::new).collect::<Result<_, _>>()?;
        Ok(Self { leave, scope })
    }

    /// The leave.
    pub fn leave(&self) -> &Leave {
        &self.leave
    }

    /// Whether it is about this tool and session, and has not run out of time.
    pub fn applies(&self, tool: &str, session: &SessionId, now: Millis) -> bool {
        self.leave.tool == tool
            && self.leave.session.as_ref().is_none_or(|only| only == session)
            && self.leave.until.is_none_or(|until| now < until)
    }

    /// Whether it covers the effect.
    pub fn covers(&self, effect: &Effect) -> bool {
        self.scope.iter().any(|matcher| matcher.fits(effect))
    }
}
