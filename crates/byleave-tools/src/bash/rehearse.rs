//! The rehearsal of `bash`: a run on a copy that is then committed or discarded.

use std::sync::Arc;

use byleave::boxed::BoxFuture;
use byleave::core::effect::Effect;
use byleave::core::id::CallId;
use byleave::core::outcome::Output;
use byleave::core::rehearsal::Rehearsal;
use byleave::tool::{Rehearsable, RehearseError, RunContext, Tool as _};
use byleave_sandbox::confinement::Confinement;
use serde_json::Value;

use super::Bash;
use crate::blocking::{apart, rehearsed_apart};
use crate::copy_commit::{discard, drop_copy, finish, is_kept};
use crate::execution_env::{NetworkAccess, PrepareCopyError, PreparedCopy};
use crate::read_permission::may_be_read;
use crate::rehearsal_result;
use crate::run_command::{self, CompletedCommand};

impl Rehearsable for Bash {
    fn rehearse(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Result<Rehearsal, RehearseError>> {
        let bash = self.clone();
        Box::pin(rehearsed_apart(move || bash.on_a_copy(arguments, &run)))
    }

    fn is_kept<'a>(&'a self, call: CallId, seen: &'a Rehearsal) -> BoxFuture<'a, bool> {
        is_kept(&self.workplace, call, seen)
    }

    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: RunContext) -> BoxFuture<'_, Output> {
        let workplace = Arc::clone(&self.workplace);
        Box::pin(apart(move || finish(&workplace, seen, only.as_deref(), &run)))
    }

    fn discard(&self, call: CallId) -> BoxFuture<'_, ()> {
        drop_copy(&self.workplace, call)
    }
}

impl Bash {
    fn on_a_copy(&self, arguments: Value, run: &RunContext) -> Result<Rehearsal, RehearseError> {
        let workplace = &*self.workplace;
        let arguments = self.read(arguments).map_err(RehearseError::Not)?;
        if arguments.background {
            let why =
                "it goes on running in the background, on the real files: what it changes cannot be undone";
            return Err(RehearseError::Not(why.into()));
        }
        self.may_be_rehearsed(run).map_err(RehearseError::Not)?;
        let mut confinement =
            workplace.confinement(run, NetworkAccess::Closed).map_err(RehearseError::Not)?;
        confinement.limits.wall = arguments.timeout();
        let ready =
            workplace.copied(run, &mut confinement, NetworkAccess::Closed).map_err(
                |unready| match unready {
                    PrepareCopyError::Elsewhere => RehearseError::Elsewhere,
                    PrepareCopyError::Not(why) => RehearseError::Not(why),
                },
            )?;
        let seen = self.looked_at(&confinement, &arguments.command, &ready, run);
        drop(ready.stacks);
        if seen.is_err() {
            // Nothing will use this copy any more, and it may be large.
            discard(ready.copy);
        }
        seen.map_err(RehearseError::Not)
    }

    /// Runs a command on its copy, and collects its effects there.
    fn looked_at(
        &self,
        confinement: &Confinement,
        text: &str,
        ready: &PreparedCopy,
        run: &RunContext,
    ) -> Result<Rehearsal, String> {
        let began = rehearsal_result::now(confinement)?;
        let workplace = &*self.workplace;
        let CompletedCommand { outcome, printed } = run_command::run(
            workplace,
            confinement,
            text,
            NetworkAccess::Closed,
            run,
            self.output_bytes_max,
        )?;
        let mut listed = rehearsal_result::changes(&ready.copy).map_err(|fault| fault.to_string())?;
        // Text diffs are for people. Without them the rehearsal can still be judged completely.
        if let Err(fault) = ready.copy.show(&mut listed.0) {
            tracing::warn!(%fault, "the differences of a rehearsal cannot be shown");
        }
        let mut weaker = workplace.weaker();
        weaker.extend(ready.lesser.as_ref().map(|why| format!("on a plain copy: {why}")));
        let output = run_command::output(confinement, &outcome, printed, self.advice());
        let mut seen = rehearsal_result::rehearsal(&outcome, output, listed, weaker);
        // This search is needed only for a quiet rehearsal; all others cause a question anyway.
        if seen.is_quiet() {
            seen.weaker.extend(rehearsal_result::came_into_sight(confinement, began));
        }
        Ok(seen)
    }

    /// Checks whether the call may be rehearsed. A run that reads something that needs a question cannot be rehearsed, because its content
    /// could be anywhere on the copy.
    fn may_be_rehearsed(&self, run: &RunContext) -> Result<(), String> {
        run.rules.as_ref().ok_or("nobody said which rules are in force")?;
        for effect in &run.plan.effects {
            match effect {
                Effect::Read { path } if !may_be_read(path, self.manifest(), run) => {
                    return Err(format!("it reads `{}`, which is asked about", path.escape_debug()));
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
