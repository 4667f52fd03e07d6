//! Client tools: functions in a client's own process, behind the gate.
//!
//! A call of such a tool is evaluated by the policy, asked about and recorded like any other. It begins when its client claims it, with a
//! claim of the client's choosing; another claim gets nothing. The client runs the call and reports once. If the client
//! claims a call and does not report, the call ends as unknown. No call is handed out twice. The gate relies on the client's
//! description of the function; the function is not confined.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::catalog::{ManifestError, RegisterError};
use byleave_gate::core::id::{AgentId, CallId};
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::outcome::Output;
use byleave_gate::gate::{Gate, GateBuilder};
use byleave_gate::result::CallStatus;
use byleave_gate::review::{
    InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewError, ReviewScope,
};
use byleave_gate::tool::{EarlierData, RunContext, Tool};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{oneshot, watch};

/// The prefix of the names of client tools.
const FAMILY: &str = "client.";
/// The name of the client's own reviewers in the audit log.
const REVIEWER: &str = "client";
/// The maximum number of client tools of one principal.
const EACH_MAX: usize = 256;

/// The client tools of a tenant, and their calls in progress. Clones are cheap and share their state.
#[derive(Clone, Default)]
pub struct ClientTools(Arc<Mutex<ClientToolsInner>>);

#[derive(Default)]
struct ClientToolsInner {
    inputs: HashMap<CallId, ArgumentsReview>,
    outputs: HashMap<CallId, Opinion<Output>>,
    hands: HashMap<CallId, ClaimedCall>,
}

/// The opinion of a client's reviewer about the arguments.
enum ArgumentsReview {
    Said(Opinion<Value>),
    /// It is on the record. Another draft comes from a person, and the client sees it when it claims the call.
    Recorded,
}

struct ClaimedCall {
    claim: String,
    handed: watch::Sender<Option<Arc<HandedCall>>>,
    report: Option<oneshot::Sender<ClientToolReport>>,
}

/// A call as its client gets it.
pub(crate) struct HandedCall {
    pub(crate) arguments: Value,
    /// The data of earlier calls that the tool wants, by tool.
    pub(crate) data: Arc<BTreeMap<String, EarlierData>>,
}

/// The client's report of a call, with its reviewer's opinion of the output.
#[derive(Debug)]
pub(crate) struct ClientToolReport {
    pub(crate) output: Output,
    pub(crate) review: Opinion<Output>,
}

/// The state of the claim on a call.
pub(crate) enum ClaimState {
    /// The caller's claim is valid, on this call.
    Mine(Arc<HandedCall>),
    /// Another claim is valid.
    Others,
    /// There is no claim, or none yet.
    Unclaimed,
}

/// The reason why there is no such client tool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientToolError {
    #[error(transparent)]
    Invalid(#[from] RegisterError),
    #[error("a principal can register at most {EACH_MAX} client tools")]
    TooMany,
}

/// A claim on a call. It is released if the call was not handed over.
pub(crate) struct ClaimGuard {
    own: ClientTools,
    call: CallId,
    handed: watch::Receiver<Option<Arc<HandedCall>>>,
}

/// Checks whether a tool is a client tool.
pub(crate) fn is_client_tool(tool: &str) -> bool {
    tool.starts_with(FAMILY)
}

/// Returns the full name of a principal's client tool. The tool's part has no dot, so that no two names are equal.
pub(crate) fn client_tool_name(principal: &str, tool: &str) -> String {
    format!("{FAMILY}{principal}.{tool}")
}

/// Checks whether a principal may use a tool. For tools that are not client tools, the gate decides.
pub(crate) fn may_use(principal: &str, tool: &str) -> bool {
    !is_client_tool(tool)
        || tool.strip_prefix(&client_tool_name(principal, "")).is_some_and(|rest| !rest.contains('.'))
}

/// Refuses a tool that wants data of another principal's client tool, as if there were no such tool.
fn check_wanted(owner: &AgentId, manifest: &Manifest) -> Result<(), RegisterError> {
    match manifest.wants_data.iter().find(|name| !may_use(owner.as_str(), name)) {
        None => Ok(()),
        Some(name) => Err(RegisterError::InvalidManifest {
            tool: manifest.name.clone(),
            error: ManifestError::UnknownWanted { name: name.clone(), nearest: None },
        }),
    }
}

/// Removes the suggestion of another principal's client tool from an error.
fn hide_names(owner: &AgentId, error: RegisterError) -> RegisterError {
    match error {
        RegisterError::InvalidManifest { tool, error: ManifestError::UnknownWanted { name, nearest } } => {
            let nearest = nearest.filter(|nearest| may_use(owner.as_str(), nearest));
            RegisterError::InvalidManifest { tool, error: ManifestError::UnknownWanted { name, nearest } }
        }
        other => other,
    }
}

impl ClientTools {
    /// Adds the clients' own reviewers to a gate builder, so that the record contains their opinions.
    pub fn attach_reviewers(&self, builder: GateBuilder) -> GateBuilder {
        builder
            .review_input(ReviewScope::Prefix(FAMILY.into()), self.clone())
            .review_output(ReviewScope::Prefix(FAMILY.into()), self.clone())
    }

    /// Registers a client tool or changes its definition. An approval of the old definition is not valid for the new one.
    pub(crate) fn register(
        &self,
        gate: &Gate,
        owner: AgentId,
        manifest: Manifest,
    ) -> Result<(), ClientToolError> {
        let catalog = gate.catalog();
        check_wanted(&owner, &manifest)?;
        match catalog.get(&manifest.name) {
            Ok(known) if *known.manifest() == manifest => return Ok(()),
            Ok(_) => {}
            Err(_) => {
                let is_theirs = |name: &str| is_client_tool(name) && may_use(owner.as_str(), name);
                if catalog.list().iter().filter(|entry| is_theirs(entry.name())).count() >= EACH_MAX {
                    return Err(ClientToolError::TooMany);
                }
            }
        }
        let visible_to = owner.clone();
        match catalog.replace(ClientTool { manifest, owner, own: self.clone() }) {
            Ok(_) => Ok(()),
            Err(error) => Err(hide_names(&visible_to, error).into()),
        }
    }

    /// Stores the opinion of a client's reviewer until it is on the record. The first opinion is used.
    pub(crate) fn store_review(&self, call: CallId, said: Opinion<Value>) {
        self.desk().inputs.entry(call).or_insert(ArgumentsReview::Said(said));
    }

    /// Drops the opinion that is on the record.
    pub(crate) fn discard_recorded(&self, standing: CallStatus) -> CallStatus {
        let call = standing.call();
        let mut desk = self.desk();
        match &standing {
            CallStatus::Settled(_) => {
                desk.inputs.remove(&call);
                desk.outputs.remove(&call);
                desk.hands.remove(&call);
            }
            CallStatus::Waiting { .. } | CallStatus::Ready { .. } => {
                if let Entry::Occupied(mut heard) = desk.inputs.entry(call) {
                    heard.insert(ArgumentsReview::Recorded);
                }
            }
            CallStatus::Blocked { .. } | CallStatus::RunningElsewhere { .. } => {}
        }
        drop(desk);
        standing
    }

    pub(crate) fn is_claimed(&self, call: CallId) -> bool {
        self.desk().hands.contains_key(&call)
    }

    pub(crate) fn claim_state(&self, call: CallId, claim: &str) -> ClaimState {
        match self.desk().hands.get(&call) {
            Some(hand) if hand.claim != claim => ClaimState::Others,
            Some(hand) => hand.handed.borrow().clone().map_or(ClaimState::Unclaimed, ClaimState::Mine),
            None => ClaimState::Unclaimed,
        }
    }

    /// Claims a call; `None` if there is another claim.
    pub(crate) fn claim(&self, call: CallId, claim: &str) -> Option<ClaimGuard> {
        let mut desk = self.desk();
        let hand = desk.hands.entry(call).or_insert_with(|| ClaimedCall {
            claim: claim.to_owned(),
            handed: watch::Sender::new(None),
            report: None,
        });
        let handed = (hand.claim == claim).then(|| hand.handed.subscribe())?;
        drop(desk);
        Some(ClaimGuard { own: self.clone(), call, handed })
    }

    /// Accepts a report under a claim; `false` if another claim is valid.
    pub(crate) fn report(&self, call: CallId, claim: &str, report: ClientToolReport) -> bool {
        let mut desk = self.desk();
        let Entry::Occupied(mut hand) = desk.hands.entry(call) else { return true };
        if hand.get().claim != claim {
            return false;
        }
        if let Some(tell) = hand.get_mut().report.take() {
            hand.remove();
            // If the call was just cancelled, the receiver is gone, and the record says so.
            drop(tell.send(report));
        }
        true
    }

    fn hand_over(&self, call: CallId, handed: HandedCall) -> Option<oneshot::Receiver<ClientToolReport>> {
        let mut desk = self.desk();
        let hand = desk.hands.get_mut(&call).filter(|hand| hand.report.is_none())?;
        let (tell, told) = oneshot::channel();
        hand.report = Some(tell);
        hand.handed.send_replace(Some(Arc::new(handed)));
        Some(told)
    }

    fn desk(&self) -> MutexGuard<'_, ClientToolsInner> {
        self.0.lock()
    }
}

impl ClaimGuard {
    /// Waits until the call is handed over; `None` if this is no longer possible.
    pub(crate) async fn wait_for_call(&mut self) -> Option<Arc<HandedCall>> {
        self.handed.wait_for(Option::is_some).await.ok().and_then(|handed| handed.clone())
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        let mut desk = self.own.desk();
        if let Entry::Occupied(hand) = desk.hands.entry(self.call)
            && hand.get().report.is_none()
        {
            hand.remove();
        }
    }
}

/// A function in the process of its client.
struct ClientTool {
    manifest: Manifest,
    owner: AgentId,
    own: ClientTools,
}

impl ClientTool {
    async fn run(&self, arguments: Value, run: RunContext) -> Output {
        // Set before anything that can end the call. A call that ends without its reviewer's opinion must not wait for one.
        self.own.desk().outputs.insert(run.call, Opinion::Pass);
        if run.context.agent != self.owner {
            return Output::failure("the call did not run: the client tool belongs to another principal");
        }
        let handed = HandedCall { arguments, data: Arc::clone(&run.data) };
        let Some(told) = self.own.hand_over(run.call, handed) else {
            return Output::failure("the call did not run: no client had claimed it");
        };
        tokio::select! {
            biased;
            Ok(report) = told => {
                self.own.desk().outputs.insert(run.call, report.review);
                report.output
            }
            () = run.cancel.cancelled() => {
                self.own.desk().hands.remove(&run.call);
                Output::unknown_outcome("the client claimed the call and did not report a result")
            }
        }
    }
}

impl Tool for ClientTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn is_nonblocking(&self) -> bool {
        true
    }

    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(self.run(arguments, run))
    }
}

impl InputReviewer for ClientTools {
    fn name(&self) -> &str {
        REVIEWER
    }

    fn review<'a>(&'a self, subject: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>> {
        let said = match self.desk().inputs.get(&subject.call) {
            Some(ArgumentsReview::Said(Opinion::Change { value, .. })) if value == subject.arguments => {
                Ok(Opinion::Pass)
            }
            Some(ArgumentsReview::Said(said)) => Ok(said.clone()),
            Some(ArgumentsReview::Recorded) => Ok(Opinion::Pass),
            None => Err(lost_review()),
        };
        Box::pin(async { said })
    }
}

impl OutputReviewer for ClientTools {
    fn name(&self) -> &str {
        REVIEWER
    }

    fn review<'a>(
        &'a self,
        subject: OutputSubject<'a>,
    ) -> BoxFuture<'a, Result<Opinion<Output>, ReviewError>> {
        let said = self.desk().outputs.get(&subject.call).cloned().ok_or_else(lost_review);
        Box::pin(async { said })
    }
}

/// The process that had the opinion is gone.
fn lost_review() -> ReviewError {
    ReviewError::Failed("the opinion of the client's reviewer was lost; make the call again".to_owned())
}
