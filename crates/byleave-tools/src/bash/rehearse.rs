//! How `bash` is rehearsed: the run on a copy, and its end, which is a commit or nothing.

use std::sync::Arc;

use byleave::core::effect::Effect;
use byleave::core::id::CallId;
use byleave::core::outcome::Output;
use byleave::core::rehearsal::Rehearsal;
use byleave::pending::Pending;
use byleave::tool::{Rehearse, Run, Tool as _, Unrehearsed};
use byleave_sandbox::confinement::Confinement;
use serde_json::Value;

use super::Bash;
use crate::apart::{apart, rehearsed_apart};
use crate::commit::{discard, drop_copy, finish, is_kept};
use crate::observed;
use crate::run::{self, Ran};
use crate::unasked::may_be_read;
use crate::workplace::{Ready, Unready, Way};

impl Rehearse for Bash {
    fn rehearse(&self, arguments: Value, run: Run) -> Pending<'_, Result<Rehearsal, Unrehearsed>> {
        let bash = self.clone();
        Box::pin(rehearsed_apart(move || bash.on_a_copy(arguments, &run)))
    }

    fn is_kept<'a>(&'a self, call: CallId, seen: &'a Rehearsal) -> Pending<'a, bool> {
        is_kept(&self.workplace, call, seen)
    }

    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: Run) -> Pending<'_, Output> {
        let workplace = Arc::clone(&self.workplace);
        Box::pin(apart(move || finish(&workplace, seen, only.as_deref(), &run)))
    }

    fn discard(&self, call: CallId) -> Pending<'_, ()> {
        drop_copy(&self.workplace, call)
    }
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
        let mut confinement = workplace.confinement(run, Way::Closed).map_err(Unrehearsed::Not)?;
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
