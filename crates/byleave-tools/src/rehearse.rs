//! How `bash` is rehearsed: the run on a copy, and its end, which is a commit or nothing.

use std::sync::Arc;

use byleave::core::effect::{Effect, Plan};
use byleave::core::id::CallId;
use byleave::core::outcome::Output;
use byleave::core::policy::Request;
use byleave::core::rehearsal::Rehearsal;
use byleave::core::ruling::Verdict;
use byleave::pending::Pending;
use byleave::tool::{Rehearse, Run, Tool as _, Unrehearsed};
use byleave_copy::{Fault, State};
use byleave_sandbox::confinement::Confinement;
use serde_json::Value;

use crate::bash::{Bash, committed, discard, undo_of};
use crate::observed;
use crate::run::{self, Ran};
use crate::workplace::{Ready, Unready, Way, Workplace};

impl Rehearse for Bash {
    fn rehearse(&self, arguments: Value, run: Run) -> Pending<'_, Result<Rehearsal, Unrehearsed>> {
        let bash = self.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || bash.on_a_copy(arguments, &run)).await;
            done.unwrap_or_else(|error| Err(Unrehearsed::Not(format!("it broke: {error}"))))
        })
    }

    fn is_kept<'a>(&'a self, call: CallId, seen: &'a Rehearsal) -> Pending<'a, bool> {
        is_kept(&self.workplace, call, seen)
    }

    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: Run) -> Pending<'_, Output> {
        let workplace = Arc::clone(&self.workplace);
        Box::pin(run::apart(move || finish(&workplace, seen, only.as_deref(), &run)))
    }

    fn discard(&self, call: CallId) -> Pending<'_, ()> {
        drop_copy(&self.workplace, call)
    }
}

/// Whether the copy of a call is still there, as it was listed: what has changed underneath since is for the commit to tell.
pub(crate) fn is_kept(workplace: &Arc<Workplace>, call: CallId, seen: &Rehearsal) -> Pending<'static, bool> {
    let (workplace, digest) = (Arc::clone(workplace), seen.changes.digest());
    Box::pin(async move {
        let same = move || {
            let Ok(store) = workplace.store() else { return false };
            store.state(call.uuid()).is_ok_and(|state| state == State::Open)
                && store.changes(call.uuid()).is_ok_and(|listed| listed.digest() == digest)
        };
        tokio::task::spawn_blocking(same).await.unwrap_or(false)
    })
}

/// Drops the copy of a call, if there is one.
pub(crate) fn drop_copy(workplace: &Arc<Workplace>, call: CallId) -> Pending<'static, ()> {
    let workplace = Arc::clone(workplace);
    Box::pin(async move {
        let dropped = tokio::task::spawn_blocking(move || {
            match workplace.store().and_then(|store| store.reopen(call.uuid())) {
                Ok(copy) => discard(copy),
                Err(Fault::Missing(_)) => {}
                Err(fault) => tracing::warn!(%fault, "a copy could not be dropped"),
            }
        });
        if let Err(error) = dropped.await {
            tracing::error!(%error, "dropping a copy broke");
        }
    })
}

impl Bash {
    fn on_a_copy(&self, arguments: Value, run: &Run) -> Result<Rehearsal, Unrehearsed> {
        let workplace = &*self.workplace;
        let arguments = self.read(arguments).map_err(Unrehearsed::Not)?;
        if arguments.background {
            let why =
                "it goes on running in the background, on the real files: what it changes cannot be undone";
            return Err(Unrehearsed::Not(why.into()));
        }
        self.may_be_rehearsed(run).map_err(Unrehearsed::Not)?;
        let mut confinement = workplace.confinement(run, true).map_err(Unrehearsed::Not)?;
        confinement.limits.wall = arguments.timeout();
        let ready =
            workplace.copied(run, &mut confinement, Way::Closed).map_err(|unready| match unready {
                Unready::Elsewhere => Unrehearsed::Elsewhere,
                Unready::Not(why) => Unrehearsed::Not(why),
            })?;
        let seen = self.looked_at(&confinement, &arguments.command, &ready, run);
        drop(ready.stacks);
        if seen.is_err() {
            // Nobody comes back for it, and what it holds may be large.
            discard(ready.copy);
        }
        seen.map_err(Unrehearsed::Not)
    }

    /// Runs a command on its copy, and looks at what it did there.
    fn looked_at(
        &self,
        confinement: &Confinement,
        text: &str,
        ready: &Ready,
        run: &Run,
    ) -> Result<Rehearsal, String> {
        let began = observed::now(confinement)?;
        let workplace = &*self.workplace;
        let Ran { outcome, printed } =
            run::run(workplace, confinement, text, Way::Closed, run, self.output_bytes_max)?;
        let mut listed = observed::changes(&ready.copy).map_err(|fault| fault.to_string())?;
        // How the texts differ is for people: without it there is still everything to judge.
        if let Err(fault) = ready.copy.show(&mut listed.0) {
            tracing::warn!(%fault, "the differences of a rehearsal cannot be shown");
        }
        let mut weaker = workplace.weaker();
        weaker.extend(ready.lesser.as_ref().map(|why| format!("on a plain copy: {why}")));
        let output = run::output(confinement, &outcome, printed, self.advice());
        let mut seen = observed::rehearsal(&outcome, output, listed, weaker);
        // Looked for only where it counts: everything else is asked about anyway.
        if seen.is_quiet() {
            seen.weaker.extend(observed::came_into_sight(confinement, began));
        }
        Ok(seen)
    }

    /// What must not be seen before somebody said so cannot be rehearsed: what it read could be anywhere on the copy.
    fn may_be_rehearsed(&self, run: &Run) -> Result<(), String> {
        let rules = run.rules.as_ref().ok_or("nobody said which rules are in force")?;
        for effect in &run.plan.effects {
            match effect {
                Effect::Read { path } => {
                    let plan = Plan { effects: vec![effect.clone()], ..Plan::default() };
                    let request = Request::plain(self.manifest(), &plan, &run.site.session, &run.site.agent);
                    if rules.rule(&request).verdict != Verdict::Allow {
                        return Err(format!("it reads `{}`, which is asked about", path.escape_debug()));
                    }
                }
                Effect::Unconfined { guarantee } => {
                    return Err(format!("it leaves the sandbox: `{}`", guarantee.escape_debug()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Commits what was seen, or finishes a commit that was begun.
pub(crate) fn finish(
    workplace: &Workplace,
    seen: Rehearsal,
    only: Option<&[String]>,
    run: &Run,
) -> Result<Output, String> {
    let words = |fault: Fault| fault.to_string();
    let (store, id) = (workplace.store().map_err(words)?, run.call.uuid());
    if store.state(id).map_err(words)? == State::Interrupted {
        store.recover().map_err(words)?;
    }
    let chosen = match only {
        None => seen.changes.clone(),
        Some(paths) => seen.changes.only(paths),
    };
    let mut output = seen.output;
    match store.state(id).map_err(words)? {
        // By an earlier attempt, which did not come to say so.
        State::Committed | State::Undone { .. } | State::Dropped { .. } => {}
        State::Open => {
            if store.changes(id).map_err(words)?.digest() != seen.changes.digest() {
                return Err("nothing was changed: the copy is not as it was seen".into());
            }
            let copy = store.reopen(id).map_err(words)?;
            committed(&copy, &chosen)?;
        }
        State::Interrupted => {
            return Err("the commit was interrupted, and can neither be finished nor taken back: `byleave undo` says why".into());
        }
        // There was nothing to commit, and the copy was let go.
        State::Missing if chosen.is_empty() => {}
        State::Missing => return Err("nothing was changed: the copy is gone".into()),
    }
    if only.is_some() {
        let (kept, all) = (chosen.list.len(), seen.changes.list.len());
        output.text.push_str(&format!(
            "\n[byleave] a person kept {kept} of {all} changes; the others were dropped\n"
        ));
    }
    output.undo = undo_of(run, &chosen);
    Ok(output)
}
