//! `bash`: runs a shell command, confined, on a copy of what it may write.

mod rehearse;

use std::sync::Arc;
use std::time::Duration;

use byleave::core::effect::Plan;
use byleave::core::manifest::{Class, Manifest, Role};
use byleave::core::outcome::Output;
use byleave::pending::Pending;
use byleave::tool::{Rehearse, Run, Site, Tool, ToolFault};
use byleave::typed::Typed;
use byleave_copy::Copy;
use byleave_sandbox::confinement::Confinement;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::apart::apart;
use crate::commit::{committed, discard, undo_of};
use crate::jobs::Jobs;
use crate::lines::say;
use crate::observed;
use crate::run::{self, Advice, Ran};
use crate::run_by_git::run_by_git;
use crate::workplace::{Unready, Way, Workplace};

/// The longest that a command may run before its call is over, in milliseconds.
const TIMEOUT_MS_MAX: u64 = 600_000;
/// How long it runs where nobody said.
const TIMEOUT_MS: u64 = 120_000;
/// Bytes that are kept of what a command prints, where nobody said; somewhat less than a gate keeps of an output.
const OUTPUT_BYTES_MAX: usize = 4_000_000;

/// Runs shell commands.
#[derive(Clone, Debug)]
pub struct Bash {
    manifest: Arc<Manifest>,
    workplace: Arc<Workplace>,
    jobs: Jobs,
    output_bytes_max: usize,
}

// Without a line of its own: the model would read it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command, as bash reads it. Its output and errors come back together, in order; of a lot, the beginning and the end
    command: String,
    /// Directories outside the workspace that it writes to
    #[serde(default)]
    #[expect(dead_code, reason = "what was judged of it is in the plan")]
    write: Vec<String>,
    /// Files outside the workspace that it reads
    #[serde(default)]
    #[expect(dead_code, reason = "what was judged of it is in the plan")]
    read: Vec<String>,
    /// Stop it after so many milliseconds: 120000 if not given, or for a background job 8 hours
    #[serde(default)]
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: Option<u64>,
    /// Return at once and leave it running, to be asked about with `bash_output` and ended with `bash_kill`. It works on the real files: what it changes cannot be undone
    #[serde(default)]
    background: bool,
}

impl Bash {
    /// The tool for a workplace, without background jobs.
    pub fn new(workplace: Workplace) -> Self {
        let described =
            Typed::new("bash", "Runs a shell command in the workspace.", |_: Arguments, _| async {});
        let described = described
            .class(Class::Bash)
            .role("/command", Role::Command)
            .role("/write", Role::WritePath)
            .role("/read", Role::ReadPath)
            .hint("run a shell command or program")
            .audit_operation("execute")
            .not_sensitive()
            .reversible()
            .timeout(Duration::from_millis(TIMEOUT_MS_MAX));
        Self {
            manifest: Arc::new(described.manifest().clone()),
            workplace: Arc::new(workplace),
            jobs: Jobs::none(),
            output_bytes_max: OUTPUT_BYTES_MAX,
        }
    }

    /// The same with background jobs, which are held in this table.
    #[must_use]
    pub fn with_jobs(self, jobs: Jobs) -> Self {
        Self { jobs, ..self }
    }

    /// The same keeping so many bytes of what a command prints, half of them from its beginning and half from its end.
    #[must_use]
    pub fn with_output_bytes_max(self, output_bytes_max: usize) -> Self {
        Self { output_bytes_max, ..self }
    }

    /// The arguments of a call, if something can come of it.
    fn read(&self, arguments: Value) -> Result<Arguments, String> {
        let arguments: Arguments = serde_json::from_value(arguments)
            .map_err(|error| format!("cannot read the arguments of `bash`: {error}"))?;
        if arguments.command.trim().is_empty() {
            return Err("there is nothing to run; give a command".into());
        }
        if arguments.command.contains('\0') {
            return Err("no command can have a zero byte in it; write it as `\\0` for `printf`".into());
        }
        if arguments.background {
            self.jobs.can_be_had()?;
        }
        Ok(arguments)
    }

    fn advice(&self) -> Advice {
        Advice { background: self.jobs.can_be_had().is_ok() }
    }
}

impl Arguments {
    /// How long the command may run before its call is over.
    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(TIMEOUT_MS).clamp(1, TIMEOUT_MS_MAX))
    }
}

impl Tool for Bash {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn can_run(&self, run: Run) -> Pending<'_, Result<(), ToolFault>> {
        let workplace = Arc::clone(&self.workplace);
        Box::pin(async move {
            let looked = tokio::task::spawn_blocking(move || workplace.can_run(&run)).await;
            looked.map_err(|broken| ToolFault(broken.to_string()))?.map_err(ToolFault)
        })
    }

    fn plan<'a>(&'a self, arguments: &'a Value, _: &'a Site) -> Option<Pending<'a, Result<Plan, ToolFault>>> {
        // Nobody is to be asked about what cannot come to anything; everything else is for the class to say.
        let why = self.read(arguments.clone()).err()?;
        Some(Box::pin(async { Err(ToolFault(why)) }))
    }

    fn rehearser(&self) -> Option<&dyn Rehearse> {
        Some(self)
    }

    fn execute(&self, arguments: Value, run: Run) -> Pending<'_, Output> {
        let bash = self.clone();
        Box::pin(apart(move || {
            let arguments = bash.read(arguments)?;
            if arguments.background { bash.start(&arguments, &run) } else { bash.execute(&arguments, &run) }
        }))
    }
}

impl Bash {
    /// Starts a command that was granted, and leaves it running.
    fn start(&self, arguments: &Arguments, run: &Run) -> Result<Output, String> {
        let confinement = self.workplace.confinement(run, Way::Granted)?;
        let time = arguments.timeout_ms.map(|_| arguments.timeout());
        let job = self.jobs.start(&self.workplace, confinement, &arguments.command, time, run)?;
        let mut text = String::new();
        say(
            &mut text,
            &format!(
                "job `{job}` runs in the background: `bash_output` tells what it prints, `bash_kill` ends it"
            ),
        );
        say(&mut text, "it works on the real files: what it changes cannot be undone");
        Ok(Output::text(text).with_data(json!({ "job": job, "running": true })))
    }

    /// Runs a command that was granted, and commits what it changed at once.
    fn execute(&self, arguments: &Arguments, run: &Run) -> Result<Output, String> {
        let workplace = &*self.workplace;
        let mut confinement = workplace.confinement(run, Way::Granted)?;
        confinement.limits.wall = arguments.timeout();
        let ready = match workplace.copied(run, &mut confinement, Way::Granted) {
            Ok(ready) => Some(ready),
            Err(Unready::Elsewhere) => return Err("another process runs this call".into()),
            Err(Unready::Not(why)) => {
                tracing::warn!(%why, "a command runs without a copy, and cannot be undone");
                None
            }
        };
        let text = &arguments.command;
        let ran = run::run(workplace, &confinement, text, Way::Granted, run, self.output_bytes_max);
        let Some(ready) = ready else {
            let Ran { outcome, printed } = ran?;
            let mut output = run::output(&confinement, &outcome, printed, self.advice());
            say(&mut output.text, "it ran without a copy: what it changed cannot be undone");
            return Ok(output);
        };
        drop(ready.stacks);
        let done = ran.and_then(|Ran { outcome, printed }| {
            let output = run::output(&confinement, &outcome, printed, self.advice());
            kept(&ready.copy, &confinement, output, run)
        });
        if done.is_err() || run.cancel.is_cancelled() {
            // Nobody comes back for it, and what it holds may be large.
            discard(ready.copy);
        }
        done
    }
}

/// Commits what a command changed, but for what no rule lets anybody change.
fn kept(copy: &Copy, confinement: &Confinement, mut output: Output, run: &Run) -> Result<Output, String> {
    if run.cancel.is_cancelled() {
        let why = "it was stopped; nothing that it changed was kept";
        say(&mut output.text, why);
        return Ok(Output { is_error: true, error: Some(why.into()), ..output });
    }
    let changes = copy.changes().map_err(|fault| format!("nothing that it changed was kept: {fault}"))?;
    let mut forbidden = observed::forbidden(&changes, confinement);
    let later =
        run_by_git(copy, &changes).map_err(|fault| format!("nothing that it changed was kept: {fault}"))?;
    forbidden.extend(later.into_iter().filter(|path| !forbidden.contains(path)).collect::<Vec<_>>());
    for path in &forbidden {
        let path = path.escape_debug();
        say(&mut output.text, &format!("blocked by policy: `{path}` was not kept; ask for `write {path}`"));
    }
    for change in &changes.list {
        let Some(what) = change.foreign_to_git() else { continue };
        let path = change.path.escape_debug();
        say(&mut output.text, &format!("`{path}` became a {what}, which git never makes; it was not kept"));
        forbidden.push(change.path.clone());
    }
    let chosen = changes.except(&forbidden);
    committed(copy, &chosen)?;
    output.undo = undo_of(run, &chosen);
    Ok(output)
}
