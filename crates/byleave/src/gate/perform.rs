//! Performs the tasks of the walk, one arm each. Total: a stage that breaks is a fact saying so.

use std::sync::Arc;

use byleave_core::challenge::ChallengeHead;
use byleave_core::effect::Plan;
use byleave_core::entry::{ChallengeTerms, Fact, Limits, Terms, Valid};
use byleave_core::manifest::NeedsApproval;
use byleave_core::refusal::{Code, Refusal, Step};
use byleave_core::rehearsal::RehearsalTerms;
use byleave_core::review::Review;
use byleave_core::ruling::Ruling;
use byleave_core::walk::Task;

use crate::bound;
use crate::catalog::Entry as CatalogEntry;
use crate::challenge::{ChallengeFault, ChallengeSubject};
use crate::gate::desk::Desk;
use crate::gate::footing::{Performed, just_seen, pinned, unreadable};
use crate::gate::judge::{predicate, rule};
use crate::gate::parts::{Parts, site};
use crate::gate::{ask, begin, execute, rehearse};
use crate::guard::{Broken, guard};
use crate::plan;
use crate::review::{OwnedInput, OwnedOutput};
use crate::schema;
use crate::tool::{Site, ToolFault};

/// Carries out one task and says, as a fact, what came of it.
pub(crate) async fn perform(parts: &Parts, desk: &mut Desk, task: Task) -> Performed {
    let fact = match task {
        Task::Resolve => Fact::Resolved(resolve(parts, desk)),
        Task::Validate => Fact::Validated(validate(parts, desk).await),
        Task::Plan => match planned(parts, desk).await {
            Ok(plan) => {
                if let Some(performed) = held_up(parts, desk, &plan).await {
                    return performed;
                }
                Fact::Planned(desk.hold_plan(&plan))
            }
            Err(refusal) => Fact::Planned(Err(refusal)),
        },
        Task::Permit => Fact::Permitted(permit(parts, desk).await),
        Task::ReviewInput => Fact::Reviewed(review_input(parts, desk).await),
        Task::Challenge => Fact::Challenged(challenge(parts, desk).await),
        Task::OpenRehearsal(binding) => Fact::Rehearsing { binding },
        Task::Rehearse => return rehearse::rehearse(parts, desk).await,
        Task::Ask(asking) => Fact::Asked(ask::open(parts, desk, asking).await),
        Task::Begin(grant) => match begin::begin(parts, desk, &grant).await {
            Ok(fact) => fact,
            Err(refusal) => Fact::Begun(Err(refusal)),
        },
        Task::Execute { attempt, grant: _ } => return execute::execute(parts, desk, attempt).await,
        Task::ReviewOutput => Fact::OutputReviewed(review_output(parts, desk).await),
    };
    Performed::Fact(fact)
}

fn resolve(parts: &Parts, desk: &Desk) -> Step<Terms> {
    let name = desk.record.heading().map(|heading| heading.tool.as_str()).unwrap_or_default();
    let entry =
        parts.catalog.get(name).map_err(|unknown| Refusal::new(Code::ToolUnknown, unknown.to_string()))?;
    Ok(terms(parts, &entry))
}

fn terms(parts: &Parts, entry: &CatalogEntry) -> Terms {
    let settings = &parts.settings;
    let manifest = entry.manifest();
    let timeout_ms = manifest.timeout_ms.unwrap_or(settings.limits.timeout_ms).min(settings.timeout_ms_max);
    Terms {
        tool: manifest.name.clone(),
        manifest: entry.digest(),
        operation: manifest.operation().to_owned(),
        read_only: manifest.read_only,
        destructive: manifest.destructive,
        concurrency_safe: manifest.concurrency_safe && settings.max_concurrent > 1,
        repeatable: manifest.repeatable,
        checkpoint: manifest.requires_checkpoint,
        challenge: manifest.requires_reverse_thinking.then(|| ChallengeTerms {
            when: settings.challenge_when,
            stands_in: settings.challenge_stands_in.contains(&manifest.name),
        }),
        rehearsal: (settings.rehearse && entry.tool().rehearser().is_some())
            .then_some(RehearsalTerms { spares: settings.rehearsal_spares }),
        limits: Limits { timeout_ms, ..settings.limits },
    }
}

fn place(desk: &Desk) -> Step<Site> {
    site(&desk.record)
        .ok_or_else(|| Refusal::new(Code::RecordBroken, "the record does not begin with a call"))
}

async fn validate(parts: &Parts, desk: &mut Desk) -> Step<Valid> {
    let entry = pinned(parts, desk)?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(unreadable)?;
    let (validator, limits) = (entry.validator(), schema::Limits::default());
    if entry.manifest().server.is_some() {
        // Models write null for what they leave out, and servers of others cannot be told to expect it (M1).
        validator.check(&validator.without_nulls((*arguments).clone(), &limits), &limits)?;
    } else {
        validator.check(&arguments, &limits)?;
    }
    Ok(Valid {})
}

async fn planned(parts: &Parts, desk: &mut Desk) -> Step<Plan> {
    let entry = pinned(parts, desk)?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(unreadable)?;
    let site = place(desk)?;
    let tool = entry.tool().clone();
    let manifest = entry.clone();
    let limit = parts.settings.stranger_timeout;
    let answer = guard(limit, move || async move {
        let mut plan = match tool.plan(&arguments, &site) {
            Some(own) => own.await?,
            None => plan::by_class(manifest.manifest(), &arguments, &site)?,
        };
        bound::bind_directory(&mut plan, &site)?;
        Ok::<_, ToolFault>(plan)
    });
    answer.await.map_err(|broken| {
        let code = match broken {
            Broken::Failed(_) => Code::PlanFailed,
            Broken::Panicked(_) => Code::PlanPanicked,
            Broken::TimedOut(_) => Code::PlanTimedOut,
        };
        Refusal::new(code, format!("the effects could not be worked out: {broken}"))
    })
}

/// Stands back behind a call of the session that waits for a person and conflicts with this plan.
async fn held_up(parts: &Parts, desk: &Desk, plan: &Plan) -> Option<Performed> {
    let heading = desk.record.heading()?;
    // Who has been asked about this call has seen it in its place; it does not go back behind others.
    if heading.dry_run || desk.record.draft()?.number > 1 {
        return None;
    }
    if just_seen(parts, desk).is_some_and(|seen| !seen.is_crowded) {
        return None;
    }
    match parts.ledger.held_up_by(&heading.tenant, &heading.session, desk.call(), plan).await {
        Ok(None) => None,
        Ok(Some(other)) => Some(Performed::HeldUp(other)),
        Err(fault) => {
            Some(Performed::Fact(Fact::Planned(Err(Refusal::new(Code::NotRecorded, fault.to_string())))))
        }
    }
}

async fn permit(parts: &Parts, desk: &mut Desk) -> Step<Ruling> {
    let entry = pinned(parts, desk)?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(unreadable)?;
    let plan = desk.plan(&*parts.ledger).await.map_err(unreadable)?;
    let tool_asks = match entry.manifest().needs_approval {
        NeedsApproval::Never => false,
        NeedsApproval::Always => true,
        NeedsApproval::Depends => predicate(parts, entry.tool().clone(), arguments).await?,
    };
    rule(parts, desk, &entry, &plan, tool_asks).await
}

async fn review_input(parts: &Parts, desk: &mut Desk) -> Step<Review> {
    if parts.reviewers.no_inputs() {
        return Ok(Review::default());
    }
    let entry = pinned(parts, desk)?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(unreadable)?;
    let plan = desk.plan(&*parts.ledger).await.map_err(unreadable)?;
    let input = OwnedInput { call: desk.call(), tool: Arc::from(entry.name()), arguments, plan };
    let reviewed = parts.reviewers.review_input(input, entry.digest()).await?;
    let change = reviewed.change.map(|value| desk.hold_json(&value));
    Ok(Review { notes: reviewed.notes, change })
}

async fn review_output(parts: &Parts, desk: &mut Desk) -> Step<Review> {
    if parts.reviewers.no_outputs() {
        return Ok(Review::default());
    }
    let tool = desk.terms().map(|terms| terms.tool.clone()).unwrap_or_default();
    let arguments = desk.arguments(&*parts.ledger).await.map_err(unreadable)?;
    let output = desk.output(&*parts.ledger).await.map_err(unreadable)?;
    let subject = OwnedOutput { call: desk.call(), tool: Arc::from(tool), arguments, output };
    let reviewed = parts.reviewers.review_output(subject).await?;
    let change = reviewed.change.map(|output| desk.hold(&output));
    Ok(Review { notes: reviewed.notes, change })
}

async fn challenge(parts: &Parts, desk: &mut Desk) -> Step<ChallengeHead> {
    let Some(challenger) = parts.challenger.clone() else {
        return Err(Refusal::new(
            Code::NoChallenger,
            "the tool asks for a challenge and nobody can make one",
        ));
    };
    let tool = desk.terms().map(|terms| terms.tool.clone()).unwrap_or_default();
    let arguments = desk.arguments(&*parts.ledger).await.map_err(unreadable)?;
    let plan = desk.plan(&*parts.ledger).await.map_err(unreadable)?;
    let reason = ask::reason(parts, desk).await.map_err(unreadable)?;
    let call = desk.call();
    let answer = guard(parts.settings.stranger_timeout, move || async move {
        let subject = ChallengeSubject {
            call,
            tool: &tool,
            arguments: &arguments,
            reason: reason.as_deref(),
            plan: &plan,
        };
        challenger.challenge(subject).await
    });
    let case = answer.await.map_err(|broken: Broken<ChallengeFault>| {
        let code = match broken {
            Broken::Failed(_) => Code::ChallengeFailed,
            Broken::Panicked(_) => Code::ChallengePanicked,
            Broken::TimedOut(_) => Code::ChallengeTimedOut,
        };
        Refusal::new(code, format!("the challenge could not be made: {broken}"))
    })?;
    if !case.makes_sense() {
        return Err(Refusal::new(
            Code::ChallengeInvalid,
            "the challenge names no assumption, no scenario or no reason",
        ));
    }
    Ok(ChallengeHead { verdict: case.verdict, challenge: desk.hold(&case) })
}
