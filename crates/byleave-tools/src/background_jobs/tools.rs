//! The tools `bash_output` and `bash_kill`: query and end the jobs of a session.

use std::sync::Arc;
use std::time::Duration;

use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::TypedTool;
use byleave_sandbox::launch::CommandStatus;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Job, Jobs, locked};
use crate::gate_lines::push_gate_line;
use crate::rehearsal_result;
use crate::run_command::output_text;

/// The maximum waiting time of `bash_output`.
const WAIT_MS_MAX: u64 = 60_000;
/// The maximum time that a killed job may take to end.
const GONE: Duration = Duration::from_secs(10);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobOutputArguments {
    /// The id of the job, as returned by `bash`
    job: String,
    /// How many milliseconds to wait for new output or for the end; 0 by default
    #[serde(default)]
    #[schemars(range(max = 60_000))]
    wait_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobKillArguments {
    /// The id of the job, as returned by `bash`
    job: String,
}

/// Creates the tool that returns the output of a background job since the last query, and whether it still runs.
pub fn bash_output(jobs: &Jobs) -> impl Tool {
    let jobs = jobs.clone();
    let tell = move |asked: JobOutputArguments, run: RunContext| {
        let jobs = jobs.clone();
        async move {
            let job = jobs.find(&run.context, &asked.job)?;
            let wait = Duration::from_millis(asked.wait_ms.min(WAIT_MS_MAX));
            tokio::select! {
                biased;
                () = run.cancel.cancelled() => return Err("the call was cancelled while it waited; call again".to_owned()),
                waited = tokio::time::timeout(wait, job.until(Job::has_news)) => drop(waited),
            }
            job.told().await
        }
    };
    TypedTool::new(
        "bash_output",
        "Returns the output of a background job since the last call, and whether the job still runs.",
        tell,
    )
    .permission_class(PermissionClass::Readonly)
    .search_hint("output and status of a background job")
    .audit_operation("read")
    .read_only()
    .concurrency_safe()
    .not_sensitive()
    .timeout(Duration::from_millis(WAIT_MS_MAX + 30_000))
}

/// Creates the tool that ends a background job of the session.
///
/// Its permission class needs no question, because it can only end what the session itself has started.
pub fn bash_kill(jobs: &Jobs) -> impl Tool {
    let jobs = jobs.clone();
    let kill = move |killed: JobKillArguments, run: RunContext| {
        let jobs = jobs.clone();
        async move {
            let job = jobs.find(&run.context, &killed.job)?;
            job.kill();
            match tokio::time::timeout(GONE, job.until(|job| !job.is_running())).await {
                Ok(()) => job.told().await,
                Err(_) => Err(format!(
                    "job `{}` was killed but has not ended yet; use `bash_output` to check whether it still runs",
                    job.id
                )),
            }
        }
    };
    TypedTool::new("bash_kill", "Ends a background job and all processes that it started.", kill)
        .permission_class(PermissionClass::Readonly)
        .search_hint("end stop kill a background job")
        .audit_operation("execute")
        .concurrency_safe()
        .idempotent()
        .not_sensitive()
}

impl Job {
    fn has_news(&self) -> bool {
        let state = locked(&self.state);
        state.end.is_some() || !state.unread.is_empty() || !state.said.is_empty()
    }

    /// Waits until the condition holds.
    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let mut changed = self.changed.subscribe();
        // The sender belongs to the job, so it exists as long as the job.
        while !is_so(self) && changed.changed().await.is_ok() {}
    }

    /// Returns the new output, unless it may come from a hidden file. A file that appears while a job runs is not hidden from it.
    async fn told(self: Arc<Self>) -> Result<Output, String> {
        let tell = move || {
            let news = self.news();
            let (confinement, since) = &self.confined;
            if rehearsal_result::newly_visible_hidden(confinement, *since).is_empty() {
                return Ok(news);
            }
            self.kill();
            Err(format!(
                "the output of job `{}` is not shown, and the job was ended: a file that the job must not read was created or changed while it ran; \
                 start the job again with `bash`, so that it cannot see that file",
                self.id
            ))
        };
        tokio::task::spawn_blocking(tell)
            .await
            .unwrap_or_else(|error| Err(format!("internal error: {error}")))
    }

    /// Returns the new output and the status of the job.
    fn news(&self) -> Output {
        let mut state = locked(&self.state);
        let (end, bytes) = (state.end.clone(), state.bytes);
        let unread = state.unread.take(end.is_some());
        let said = std::mem::take(&mut state.said);
        drop(state);
        let truncated = unread.omitted().bytes > 0;
        let mut text = output_text(unread);
        said.iter().for_each(|line| push_gate_line(&mut text, line));
        let (id, seconds) = (&self.id, self.began.elapsed().as_secs());
        let Some(end) = end else {
            push_gate_line(
                &mut text,
                &format!("job `{id}` has been running for {seconds} s; {bytes} bytes printed in total"),
            );
            let data = json!({ "job": id, "running": true });
            return Output { truncated, ..Output::text(text).with_data(data) };
        };
        end.lines.iter().for_each(|line| push_gate_line(&mut text, line));
        let after = end.after.as_millis();
        push_gate_line(
            &mut text,
            &format!("job `{id}` ended after {after} ms: {}; {bytes} bytes printed in total", end.how),
        );
        let (exit_status, signal) = match end.status {
            Some(CommandStatus::Exited(code)) => (Some(code), None),
            Some(CommandStatus::Signalled(signal)) => (None, Some(signal)),
            Some(CommandStatus::NotStarted(_)) | None => (None, None),
        };
        let data = json!({ "job": id, "running": false, "exit_status": exit_status, "signal": signal });
        Output { truncated, ..Output::text(text).with_data(data) }
    }
}
