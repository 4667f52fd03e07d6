//! Ids as people type them.
//!
//! Ids are UUIDv7, and those of one day begin alike. Lists therefore show the last eight characters, which are random. A person
//! may type the whole id, its end or its beginning, as long as only one id matches.

use std::fmt::Display;
use std::str::FromStr;

use anyhow::Result;
use byleave_gate::audit_log::{AuditLog as _, CallFilter, PageRequest, QuestionFilter};
use byleave_gate::core::id::{CallId, QuestionId, StandingApprovalId};

use crate::app_context::AppContext;
use crate::error::CliError;
use crate::resolved_options::ResolvedOptions;
use crate::time::now;

/// The number of characters in a list.
const SHORT_CHARS: usize = 8;
/// The minimum number of typed characters.
const TYPED_CHARS_MIN: usize = 4;
/// The number of newest items among which a shortened id is searched.
const LOOKED_THROUGH_MAX: usize = 10_000;

/// Returns the end of an id, as shown in lists.
pub(crate) fn short(id: &impl Display) -> String {
    let id = id.to_string();
    id.chars().skip(id.chars().count().saturating_sub(SHORT_CHARS)).collect()
}

/// Finds the open question of a typed id. A whole id is taken as it is.
pub(crate) async fn question(house: &AppContext, typed: &str) -> Result<QuestionId> {
    if let Some(id) = whole(typed) {
        return Ok(id);
    }
    let page = PageRequest::with_limit(LOOKED_THROUGH_MAX);
    let open = house.audit_log.questions(QuestionFilter::default(), page).await?;
    let found = pick("open question", typed, open.iter().map(|item| item.question));
    Ok(found.map_err(|complaint| complaint.hint("`byleave inbox` lists the open questions"))?)
}

/// Finds the call of a typed id.
pub(crate) async fn call(house: &AppContext, typed: &str) -> Result<CallId> {
    if let Some(id) = whole(typed) {
        return Ok(id);
    }
    let page = PageRequest::with_limit(LOOKED_THROUGH_MAX);
    let calls = house.audit_log.calls(CallFilter::default(), page).await?;
    let found = pick("call", typed, calls.iter().map(|item| item.call));
    Ok(found.map_err(|complaint| complaint.hint("`byleave log` lists the calls"))?)
}

/// Finds the standing approval of a typed id. It must exist.
pub(crate) async fn standing_approval(
    house: &AppContext,
    options: &ResolvedOptions,
    typed: &str,
) -> Result<StandingApprovalId> {
    let given = house.audit_log.list_standing_approvals(&options.tenant, now()).await?;
    let found = pick("standing approval", typed, given.iter().map(|item| item.standing_approval.id));
    Ok(found
        .map_err(|complaint| complaint.hint("`byleave policy approvals` lists the standing approvals"))?)
}

fn whole<I: FromStr>(typed: &str) -> Option<I> {
    (typed.len() == 36).then(|| typed.parse().ok()).flatten()
}

fn pick<I: Copy + Display>(
    what: &str,
    typed: &str,
    among: impl IntoIterator<Item = I>,
) -> Result<I, CliError> {
    let sought = typed.to_ascii_lowercase();
    let shaped = sought.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !shaped || sought.len() < TYPED_CHARS_MIN {
        return Err(CliError::new(format!(
            "`{typed}` cannot be the id of any {what}: ids are hexadecimal, and at least four characters are needed"
        )));
    }
    let fits = |id: &I| {
        let id = id.to_string();
        id.starts_with(&sought) || id.ends_with(&sought)
    };
    let mut found = among.into_iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(id),
        (Some(_), Some(_)) => {
            Err(CliError::new(format!("`{typed}` matches more than one {what}; type more characters")))
        }
        (None, _) => Err(CliError::new(format!("there is no {what} `{typed}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_or_the_beginning_is_enough_if_only_one_fits() {
        let ids = ["0190a000-0000-7000-8000-0000aaaa1111", "0190a001-0000-7000-8000-0000bbbb1111"];
        let ids: Vec<QuestionId> = ids.iter().map(|id| id.parse().unwrap()).collect();
        let pick = |typed: &str| pick("question", typed, ids.iter().copied()).map_err(|c| c.to_string());
        assert_eq!(pick("aaaa1111"), Ok(ids[0]));
        assert_eq!(pick("BBBB1111"), Ok(ids[1]));
        assert_eq!(pick("0190a001"), Ok(ids[1]));
        assert_eq!(short(&ids[0]), "aaaa1111");
        for wrong in ["1111", "0190", "aaaa", "111", "", "zzzz", "aaaa%"] {
            assert!(pick(wrong).is_err(), "{wrong}");
        }
    }
}
