//! A session of an agent: a handle that makes calls with the same defaults.

use std::path::Path;

use byleave_core::call::{Call, Mode};
use byleave_core::id::{AgentId, CallId, InvalidNameError, SessionId, TenantId};
use byleave_core::refusal::{Code, Refusal};
use serde_json::Value;

use super::{Gate, build_result};
use crate::clock::fresh_id;
use crate::result::{CallOutcome, CallResult};

/// A session of an agent. Calls of one session run in order, unless their tools are concurrency-safe.
///
/// Made by [`Gate::session`]. It is cheap to clone.
#[derive(Clone)]
pub struct Session {
    gate: Gate,
    session: String,
    agent: Option<String>,
    tenant: String,
    cwd: Option<String>,
    mode: Mode,
}

impl Session {
    pub(super) fn new(gate: Gate, session: String) -> Self {
        Self { gate, session, agent: None, tenant: "local".to_owned(), cwd: None, mode: Mode::default() }
    }

    /// Sets the agent that makes the calls. The default is the name of the session.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>) -> Self {
        self.agent = Some(name.into());
        self
    }

    /// Sets the tenant. The default is `local`.
    #[must_use]
    pub fn tenant(mut self, name: impl Into<String>) -> Self {
        self.tenant = name.into();
        self
    }

    /// Sets the directory that the calls work in. The default is the current directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.cwd = Some(dir.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Sets how much is asked. The default is [`Mode::ConfirmSensitive`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Makes a call and drives it until it is settled, however long a person takes.
    ///
    /// A call whose session, agent or tenant has an invalid name is refused with [`Code::NotRecorded`].
    pub async fn call(&self, tool: impl Into<String>, arguments: Value) -> CallResult {
        match self.new_call(tool, arguments) {
            Ok(call) => self.gate.settle(call).await,
            Err(error) => refused(&error),
        }
    }

    /// Makes the calls of one turn. Concurrency-safe calls run concurrently, all others alone and in order.
    ///
    /// Results are in the order of the calls.
    pub async fn call_all<T: Into<String>>(
        &self,
        calls: impl IntoIterator<Item = (T, Value)>,
    ) -> Vec<CallResult> {
        let calls: Vec<_> =
            calls.into_iter().map(|(tool, arguments)| self.new_call(tool, arguments)).collect();
        if let Some(error) = calls.iter().find_map(|call| call.as_ref().err()) {
            return calls.iter().map(|_| refused(error)).collect();
        }
        self.gate.settle_all(calls.into_iter().flatten().collect()).await
    }

    /// Predicts the effects of a call and evaluates them. Runs nothing.
    pub async fn dry_run(&self, tool: impl Into<String>, arguments: Value) -> CallResult {
        match self.new_call(tool, arguments) {
            Ok(call) => self.gate.settle(Call { dry_run: true, ..call }).await,
            Err(error) => refused(&error),
        }
    }

    /// Creates a call with a new id, to change it or to drive it yourself with [`Gate::advance`].
    pub fn new_call(&self, tool: impl Into<String>, arguments: Value) -> Result<Call, InvalidNameError> {
        let cwd = self.cwd.clone().or_else(|| {
            let dir = std::env::current_dir().ok()?;
            Some(dir.to_string_lossy().into_owned())
        });
        Ok(Call {
            id: CallId::new(fresh_id()),
            tenant: TenantId::new(&self.tenant)?,
            session: SessionId::new(&self.session)?,
            agent: AgentId::new(self.agent.as_deref().unwrap_or(&self.session))?,
            tool: tool.into(),
            arguments,
            reason: None,
            // If the current directory was removed, no path in it can be resolved, and the plan fails.
            cwd: cwd.unwrap_or_default(),
            mode: self.mode,
            dry_run: false,
        })
    }
}

/// A call that cannot be recorded under its names does not run.
fn refused(error: &InvalidNameError) -> CallResult {
    let refusal = Refusal::new(Code::NotRecorded, error.to_string());
    build_result::bare_result(CallId::new(fresh_id()), None, CallOutcome::Refused(refusal))
}
