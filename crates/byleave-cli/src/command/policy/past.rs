//! Calls of the book, as far as they can be judged again: with the plan that was recorded then, never with one made anew.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::pin;

use anyhow::Result;
use byleave::book::Book as _;
use byleave::book::export::{self, Contents, Exported};
use byleave::book::{CallFilter, LeaveItem};
use byleave::catalog::Catalog;
use byleave::core::call::Millis;
use byleave::core::digest::Held;
use byleave::core::effect::{Plan, PlanHead};
use byleave::core::entry::{Fact, Heading};
use byleave::core::id::CallId;
use byleave::core::leave::LeaveMatcher;
use byleave::core::manifest::Manifest;
use byleave::core::policy::{Layer, Policy, Request, Rule};
use byleave::core::question::{Answer, QuestionKind};
use byleave::core::record::{Closing, Record};
use byleave::core::ruling::{Cause, Ruling};
use byleave::policy_files::{self, PolicyFile};
use futures::StreamExt as _;

use crate::house::House;
use crate::options::{Options, settled};
use crate::rules::Rules;
use crate::time::now;
use crate::tools;

/// A call that can be judged again.
pub(super) struct Past {
    pub(super) call: CallId,
    pub(super) heading: Heading,
    pub(super) summary: String,
    manifest: Manifest,
    pub(super) plan: Plan,
    pub(super) ruling: Ruling,
    /// When it was ruled.
    at: Millis,
    /// The leave that answered beforehand.
    leave: Option<LeaveMatcher>,
    pub(super) questions: Vec<Asked>,
}

/// A question about a plan, and what was said to it.
pub(super) struct Asked {
    pub(super) plan: Plan,
    pub(super) ruling: Ruling,
    pub(super) said: Said,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Yes,
    /// No, something else instead, or nothing in time.
    NotYes,
    /// It is still open.
    Nothing,
}

/// A call that cannot be judged again, and why.
pub(super) struct Unjudged {
    pub(super) call: CallId,
    pub(super) tool: String,
    pub(super) why: String,
}

/// Every call of the book, the newest first.
pub(super) async fn all(house: &House, options: &Options) -> Result<(Vec<Past>, Vec<Unjudged>)> {
    let catalog = tools::catalog(options, &options.cwd, None)?;
    let leaves = house.book.leaves_given(&options.tenant, now()).await?;
    let (mut past, mut unjudged) = (Vec::new(), Vec::new());
    let mut records = pin!(export::records(&*house.book, CallFilter::default(), Contents::Included));
    while let Some(found) = records.next().await {
        let found = found?;
        match read(&found, &catalog, &leaves) {
            Ok(one) => past.push(one),
            Err(why) => {
                let tool =
                    found.kept.record.heading().map_or_else(String::new, |heading| heading.tool.clone());
                unjudged.push(Unjudged { call: found.call, tool, why });
            }
        }
    }
    Ok((past, unjudged))
}

fn read(found: &Exported, catalog: &Catalog, leaves: &[LeaveItem]) -> Result<Past, String> {
    let record = &found.kept.record;
    if let Some(damage) = record.damage() {
        return Err(format!("its record is damaged: {damage}"));
    }
    if found.kept.forgotten {
        return Err("its contents were forgotten, and its plan with them".to_owned());
    }
    let heading = record.heading().ok_or("its record does not say what it was")?;
    let draft = record.draft().ok_or("its record has no draft")?;
    let (Some(Ok(head)), Some(Ok(ruling))) = (draft.planned(), draft.permitted()) else {
        return Err("it was never ruled on".to_owned());
    };
    let Some(Ok(terms)) = record.resolved() else { return Err("its tool was not found".to_owned()) };
    let entry = catalog.get(&terms.tool);
    let entry = entry.map_err(|_| format!("there is no tool `{}` here any more", terms.tool))?;
    if entry.manifest().digest() != terms.manifest {
        return Err(format!("the tool `{}` says something else of itself by now", terms.tool));
    }
    let leave = ruling.leave.map(|id| {
        let given = leaves.iter().find(|given| given.leave.id == id);
        given.and_then(|given| LeaveMatcher::new(given.leave.clone()).ok())
    });
    if matches!(leave, Some(None)) {
        return Err("the leave that answered it is not in the book".to_owned());
    }
    let at = record.entries().iter().rev().find(|entry| matches!(entry.fact, Fact::Permitted(_)));
    Ok(Past {
        call: found.call,
        heading: heading.clone(),
        summary: found.kept.listing.as_ref().map_or_else(String::new, |listing| listing.summary.clone()),
        manifest: entry.manifest().clone(),
        plan: plan(found, head)?,
        ruling: ruling.clone(),
        at: at.map_or(0, |entry| entry.at),
        leave: leave.flatten(),
        questions: questions(found, record)?,
    })
}

fn plan(found: &Exported, head: &PlanHead) -> Result<Plan, String> {
    let held: &Held = &head.plan;
    let content = found.contents.iter().find(|content| content.held == *held);
    let content = content.ok_or("its plan is not in the book any more")?;
    serde_json::from_slice(&content.bytes).map_err(|error| format!("its plan cannot be read: {error}"))
}

fn questions(found: &Exported, record: &Record) -> Result<Vec<Asked>, String> {
    let mut asked = Vec::new();
    for entry in record.entries() {
        let Fact::Asked(Ok(question)) = &entry.fact else { continue };
        if question.kind == QuestionKind::Release {
            continue;
        }
        let Some((head, ruling)) = record.shown(question.id) else { continue };
        let said = match record.closing(question.id) {
            // A checkpoint is passed once, whatever was said.
            Some(Closing::Answered { answered, .. }) if question.kind == QuestionKind::Approval => {
                match answered.answer {
                    Answer::Yes { .. } | Answer::Leave(_) => Said::Yes,
                    // A part of it is no yes to the whole.
                    Answer::Part { .. } | Answer::No { .. } | Answer::Edit { .. } | Answer::Abort => {
                        Said::NotYes
                    }
                }
            }
            None if record.settled().is_none() => Said::Nothing,
            _ => Said::NotYes,
        };
        asked.push(Asked { plan: plan(found, head)?, ruling: ruling.clone(), said });
    }
    Ok(asked)
}

impl Past {
    /// What a policy says of it now, all else being as it was then.
    pub(super) fn judge(&self, policy: &Policy) -> Ruling {
        self.judge_plan(&self.plan, &self.ruling, policy)
    }

    /// The same of a plan that was asked about on the way.
    pub(super) fn judge_plan(&self, plan: &Plan, then: &Ruling, policy: &Policy) -> Ruling {
        policy.rule(&Request {
            manifest: &self.manifest,
            plan,
            mode: self.heading.mode,
            // What the tool said of these arguments stands in the ruling of then.
            tool_asks: then.reasons.iter().any(|reason| reason.cause == Some(Cause::ToolAsks)),
            session: &self.heading.session,
            agent: &self.heading.agent,
            leaves: self.leave.as_slice(),
            now: self.at,
        })
    }
}

/// The policies that calls are judged under again: one for each directory that they work in.
pub(super) struct Policies<'a> {
    pub(super) options: &'a Options,
    /// A file in the place of the person's own.
    pub(super) own: Option<&'a Path>,
    /// Rules of the person's beside those that are written.
    pub(super) added: Vec<Rule>,
    known: HashMap<String, Result<Policy, String>>,
}

impl<'a> Policies<'a> {
    pub(super) fn new(options: &'a Options, own: Option<&'a Path>, added: Vec<Rule>) -> Self {
        Self { options, own, added, known: HashMap::new() }
    }

    /// The policy for calls in this directory, or why there is none.
    pub(super) fn of(&mut self, cwd: &str) -> Result<&Policy, String> {
        if !self.known.contains_key(cwd) {
            let policy = self.load(cwd).map_err(|error| error.to_string());
            self.known.insert(cwd.to_owned(), policy);
        }
        match self.known.get(cwd) {
            Some(Ok(policy)) => Ok(policy),
            Some(Err(why)) => Err(format!("the rules for `{cwd}` cannot be used: {why}")),
            None => Err("there are no rules".to_owned()),
        }
    }

    fn load(&self, cwd: &str) -> Result<Policy> {
        let state = settled(&self.options.state)?.unwrap_or_default();
        let rules = Rules { options: self.options, workspace: cwd, state: &state };
        let mut files = rules.files();
        if let Some(own) = self.own {
            files.retain(|file| file.layer != Layer::User);
            files.push(PolicyFile { layer: Layer::User, path: PathBuf::from(own), named: true });
        }
        let loaded = policy_files::load(&files, &rules.places(), &byleave::core::policy::NotRead)?;
        if self.added.is_empty() {
            return Ok(loaded.policy);
        }
        // What a person's rule took the place of is gone already, and stays gone.
        let all = loaded.policy.rules().cloned().chain(self.added.iter().cloned());
        Ok(Policy::new(all.collect())?)
    }
}
