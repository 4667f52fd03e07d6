//! Calls of the book, as far as they can be judged again: with the plan that was recorded then, never with one made anew.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::pin::pin;

use anyhow::Result;
use byleave::book::Book as _;
use byleave::book::export::{self, Contents, Exported};
use byleave::book::{CallFilter, LeaveItem};
use byleave::catalog::Catalog;
use byleave::core::effect::Plan;
use byleave::core::id::CallId;
use byleave::core::leave::LeaveMatcher;
use byleave::core::manifest::Manifest;
use byleave::core::policy::{Layer, Policy, Request, Rule};
use byleave::core::ruling::{Cause, Ruling};
use byleave::past::{self, PastCall};
use byleave::policy_files::{self, PolicyFile};
use futures::StreamExt as _;

use crate::house::House;
use crate::options::{Options, settled};
use crate::rules::Rules;
use crate::time::now;
use crate::tools;

/// A call that can be judged again.
pub(super) struct Past {
    pub(super) seen: PastCall,
    manifest: Manifest,
    /// The leave that answered beforehand.
    leave: Option<LeaveMatcher>,
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
    let seen = past::read(found)?;
    let entry = catalog.get(&seen.terms.tool);
    let entry = entry.map_err(|_| format!("there is no tool `{}` here any more", seen.terms.tool))?;
    if entry.manifest().digest() != seen.terms.manifest {
        return Err(format!("the tool `{}` says something else of itself by now", seen.terms.tool));
    }
    let leave = seen.ruling.leave.map(|id| {
        let given = leaves.iter().find(|given| given.leave.id == id);
        given.and_then(|given| LeaveMatcher::new(given.leave.clone()).ok())
    });
    if matches!(leave, Some(None)) {
        return Err("the leave that answered it is not in the book".to_owned());
    }
    Ok(Past { manifest: entry.manifest().clone(), leave: leave.flatten(), seen })
}

impl Deref for Past {
    type Target = PastCall;

    fn deref(&self) -> &PastCall {
        &self.seen
    }
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
