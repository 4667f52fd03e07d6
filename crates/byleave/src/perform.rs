//! Performs the tasks of the walk, one arm each. Total: a stage that breaks is a fact saying so.

use std::sync::Arc;

use byleave_core::challenge::ChallengeHead;
use byleave_core::digest::Digest;
use byleave_core::effect::Plan;
use byleave_core::entry::{ChallengeTerms, Fact, Limits, Terms, Valid};
use byleave_core::leave::LeaveMatcher;
use byleave_core::manifest::NeedsApproval;
use byleave_core::policy::Request;
use byleave_core::refusal::{Code, Refusal, Step};
use byleave_core::review::Review;
use byleave_core::ruling::Ruling;
use byleave_core::walk::Task;
use serde_json::Value;

use crate::catalog::Entry as CatalogEntry;
use crate::challenge::{ChallengeFault, ChallengeSubject};
use crate::desk::Desk;
use crate::guard::{Broken, guard};
use crate::ledger::ContentFault;
use crate::parts::{Parts, site};
use crate::plan;
use crate::review::{OwnedInput, OwnedOutput};
use crate::schema;
use crate::tool::{Site, Tool, ToolFault};
use crate::{ask, begin, execute};

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
        Task::Ask(asking) => Fact::Asked(ask::open(parts, desk, asking).await),
        Task::Begin(grant) => Fact::Begun(begin::begin(parts, desk, &grant).await),
        Task::Execute { attempt, grant: _ } => return execute::execute(parts, desk, attempt).await,
        Task::ReviewOutput => Fact::OutputReviewed(review_output(parts, desk).await),
    };
    Performed::Fact(fact)
}

/// What came of a task.
pub(crate) enum Performed {
    /// To be written down.
    Fact(Fact),
    /// Nothing yet: another call of the session comes first.
    HeldUp(byleave_core::id::CallId),
    /// Nothing here: another process is at it.
    Elsewhere,
    /// The record has moved on: look again.
    LookAgain,
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
        limits: Limits { timeout_ms, ..settings.limits },
    }
}

/// The tool that was resolved, if it is still the very same.
pub(crate) fn pinned(parts: &Parts, desk: &Desk) -> Step<Arc<CatalogEntry>> {
    let terms = desk.terms().ok_or_else(|| Refusal::new(Code::RecordBroken, "the call was not resolved"))?;
    match parts.catalog.get(&terms.tool) {
        Ok(entry) if entry.digest() == terms.manifest => Ok(entry),
        Ok(_) => Err(Refusal::new(
            Code::ManifestChanged,
            format!("the tool `{}` is not the one that was judged; make the call again", terms.tool),
        )),
        Err(unknown) => Err(Refusal::new(Code::ManifestChanged, unknown.to_string())),
    }
}

/// A content that cannot be had, as a refusal.
pub(crate) fn unreadable(fault: ContentFault) -> Refusal {
    match fault {
        ContentFault::Forgotten => Refusal::new(Code::Forgotten, "the contents of this call were forgotten"),
        ContentFault::Missing | ContentFault::Changed => Refusal::new(
            Code::ArgumentsChanged,
            format!("the stored contents of this call cannot be used: {fault}"),
        ),
        ContentFault::Fault(fault) => Refusal::new(Code::NotRecorded, fault.to_string()),
    }
}

fn place(desk: &Desk) -> Step<Site> {
    site(&desk.record)
        .ok_or_else(|| Refusal::new(Code::RecordBroken, "the record does not begin with a call"))
}

async fn validate(parts: &Parts, desk: &mut Desk) -> Step<Valid> {
    let entry = pinned(parts, desk)?;
    let arguments = desk.arguments(&*parts.ledger).await.map_err(unreadable)?;
    entry.validator().check(&arguments, &schema::Limits::default())?;
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
        plan::bind_directory(&mut plan, &site)?;
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

async fn predicate(parts: &Parts, tool: Arc<dyn Tool>, arguments: Arc<Value>) -> Step<bool> {
    let limit = parts.settings.stranger_timeout;
    let answer = guard(limit, move || async move { tool.needs_approval(&arguments).await }).await;
    answer.map_err(|broken| {
        let code = match broken {
            Broken::Failed(_) => Code::PredicateFailed,
            Broken::Panicked(_) => Code::PredicatePanicked,
            Broken::TimedOut(_) => Code::PredicateTimedOut,
        };
        Refusal::new(code, format!("whether the call needs an approval could not be found out: {broken}"))
    })
}

/// What the policy in force says of a plan, with the leaves in force.
pub(crate) async fn rule(
    parts: &Parts,
    desk: &Desk,
    entry: &CatalogEntry,
    plan: &Plan,
    tool_asks: bool,
) -> Step<Ruling> {
    let heading = desk.record.heading().ok_or_else(|| Refusal::new(Code::RecordBroken, "no heading"))?;
    let now = parts.now();
    let policy = parts.policy.load_full();
    let given = parts.ledger.leaves(&heading.tenant, &entry.manifest().name, now).await;
    let given = given.map_err(|fault| Refusal::new(Code::JudgeFailed, fault.to_string()))?;
    let leaves: Result<Vec<LeaveMatcher>, _> =
        given.iter().map(|leave| LeaveMatcher::new((**leave).clone())).collect();
    let leaves = leaves.map_err(|bad| Refusal::new(Code::JudgeFailed, bad.to_string()))?;
    let request = Request {
        manifest: entry.manifest(),
        plan,
        mode: heading.mode,
        tool_asks,
        session: &heading.session,
        leaves: &leaves,
        now,
    };
    // A leave runs out of time and of uses; what rests on one is ruled anew each time.
    if !leaves.is_empty() || !parts.rulings.is_on() {
        return Ok(policy.rule(&request));
    }
    let Ok(plan_bytes) = serde_json::to_vec(plan) else { return Ok(policy.rule(&request)) };
    let (version, manifest) = (policy.digest(), entry.digest());
    let flags = [heading.mode as u8, u8::from(tool_asks)];
    let parts_of_key: [&[u8]; 4] = [version.as_bytes(), manifest.as_bytes(), &flags, &plan_bytes];
    let key = Digest::of_parts("byleave.ruling", &parts_of_key);
    if let Some(ruling) = parts.rulings.get(&key) {
        return Ok(ruling);
    }
    let ruling = policy.rule(&request);
    parts.rulings.put(key, &ruling);
    Ok(ruling)
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
