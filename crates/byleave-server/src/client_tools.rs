//! Own tools: functions in an agent's own process, behind the gate.
//!
//! A call of one is judged, asked about and recorded like any other. It begins when its maker takes it, with a claim of the maker's
//! choosing; whoever shows another claim gets nothing. The maker runs it and reports once. Who takes a call and does not report has
//! it end as unknown; nothing is handed out twice. What is judged is what the maker says of the function: nothing confines it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byleave::boxed::BoxFuture;
use byleave::catalog::RegisterError;
use byleave::core::id::{AgentId, CallId};
use byleave::core::manifest::Manifest;
use byleave::core::outcome::Output;
use byleave::gate::{Gate, GateBuilder};
use byleave::result::CallStatus;
use byleave::review::{
    InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewError, ReviewScope,
};
use byleave::tool::{RunContext, Tool};
use serde_json::Value;
use tokio::sync::{oneshot, watch};

/// What the names of own tools begin with.
const FAMILY: &str = "own.";
/// The name of the maker's own reviewers in the book.
const REVIEWER: &str = "maker";
/// How many own tools a principal may have.
const EACH_MAX: usize = 256;

/// The own tools of a tenancy, and their calls that are in hand. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct ClientTools(Arc<Mutex<ClientToolsInner>>);

#[derive(Default)]
struct ClientToolsInner {
    inputs: HashMap<CallId, ArgumentsReview>,
    outputs: HashMap<CallId, Opinion<Output>>,
    hands: HashMap<CallId, ClaimedCall>,
}

/// What a maker's reviewer said of the arguments.
enum ArgumentsReview {
    Said(Opinion<Value>),
    /// It is on the record. Another draft is a person's, and the maker sees that one when it takes the call.
    Recorded,
}

struct ClaimedCall {
    claim: String,
    handed: watch::Sender<Option<Arc<Value>>>,
    report: Option<oneshot::Sender<ClientToolReport>>,
}

/// What a maker says came of a call, and what its reviewer says of that.
#[derive(Debug)]
pub(crate) struct ClientToolReport {
    pub(crate) output: Output,
    pub(crate) said: Opinion<Output>,
}

/// In whose hands a call is.
pub(crate) enum ClaimState {
    /// In those of who shows this claim, with these arguments.
    Mine(Arc<Value>),
    /// In those of another.
    Others,
    /// In nobody's, or not yet.
    Not,
}

/// Why there is no such own tool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientToolError {
    #[error(transparent)]
    Bad(#[from] RegisterError),
    #[error("a principal has at most {EACH_MAX} tools of its own")]
    TooMany,
}

/// A claim that was laid on a call; let go of where nothing was handed over.
pub(crate) struct ClaimGuard {
    own: ClientTools,
    call: CallId,
    handed: watch::Receiver<Option<Arc<Value>>>,
}

/// Whether a tool is somebody's own.
pub(crate) fn is_own(tool: &str) -> bool {
    tool.starts_with(FAMILY)
}

/// The name of a principal's own tool. A tool's own part has no dot in it, so that no two are spelled alike.
pub(crate) fn name_of(principal: &str, tool: &str) -> String {
    format!("{FAMILY}{principal}.{tool}")
}

/// Whether a tool may be used by a principal: those that are not own are for the gate to judge.
pub(crate) fn may_use(principal: &str, tool: &str) -> bool {
    !is_own(tool) || tool.strip_prefix(&name_of(principal, "")).is_some_and(|rest| !rest.contains('.'))
}

impl ClientTools {
    /// The gate that is being built, with what the makers' own reviewers say on its records.
    pub fn behind(&self, builder: GateBuilder) -> GateBuilder {
        builder
            .review_input(ReviewScope::Family(FAMILY.into()), self.clone())
            .review_output(ReviewScope::Family(FAMILY.into()), self.clone())
    }

    /// Registers an own tool, or changes what it says of itself: an approval of what it was is none of what it is.
    pub(crate) fn register(
        &self,
        gate: &Gate,
        owner: AgentId,
        manifest: Manifest,
    ) -> Result<(), ClientToolError> {
        let catalog = gate.catalog();
        match catalog.get(&manifest.name) {
            Ok(known) if *known.manifest() == manifest => return Ok(()),
            Ok(_) => {}
            Err(_) => {
                let is_theirs = |name: &str| is_own(name) && may_use(owner.as_str(), name);
                if catalog.list().iter().filter(|entry| is_theirs(entry.name())).count() >= EACH_MAX {
                    return Err(ClientToolError::TooMany);
                }
            }
        }
        catalog.replace(ClientTool { manifest, owner, own: self.clone() })?;
        Ok(())
    }

    /// Remembers what a maker's reviewer said until it is on the record. What was said first counts.
    pub(crate) fn heard(&self, call: CallId, said: Opinion<Value>) {
        self.desk().inputs.entry(call).or_insert(ArgumentsReview::Said(said));
    }

    /// Lets go of what is on the record.
    pub(crate) fn stood(&self, standing: CallStatus) -> CallStatus {
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
            CallStatus::HeldUp { .. } | CallStatus::RunningElsewhere { .. } => {}
        }
        drop(desk);
        standing
    }

    pub(crate) fn is_claimed(&self, call: CallId) -> bool {
        self.desk().hands.contains_key(&call)
    }

    pub(crate) fn held(&self, call: CallId, claim: &str) -> ClaimState {
        match self.desk().hands.get(&call) {
            Some(hand) if hand.claim != claim => ClaimState::Others,
            Some(hand) => hand.handed.borrow().clone().map_or(ClaimState::Not, ClaimState::Mine),
            None => ClaimState::Not,
        }
    }

    /// Lays a claim on a call; `None` where another has.
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

    /// Takes a report in from who has the call; `false` where another has.
    pub(crate) fn report(&self, call: CallId, claim: &str, report: ClientToolReport) -> bool {
        let mut desk = self.desk();
        let Entry::Occupied(mut hand) = desk.hands.entry(call) else { return true };
        if hand.get().claim != claim {
            return false;
        }
        if let Some(tell) = hand.get_mut().report.take() {
            hand.remove();
            // Nobody listens where the call was called off just now, and then that stands on its record.
            drop(tell.send(report));
        }
        true
    }

    fn hand_over(&self, call: CallId, arguments: Value) -> Option<oneshot::Receiver<ClientToolReport>> {
        let mut desk = self.desk();
        let hand = desk.hands.get_mut(&call).filter(|hand| hand.report.is_none())?;
        let (tell, told) = oneshot::channel();
        hand.report = Some(tell);
        hand.handed.send_replace(Some(Arc::new(arguments)));
        Some(told)
    }

    fn desk(&self) -> MutexGuard<'_, ClientToolsInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimGuard {
    /// Waits until the call is handed over; `None` where it no longer can be.
    pub(crate) async fn handed(&mut self) -> Option<Arc<Value>> {
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

/// A function in the process of its owner.
struct ClientTool {
    manifest: Manifest,
    owner: AgentId,
    own: ClientTools,
}

impl ClientTool {
    async fn run(&self, arguments: Value, run: RunContext) -> Output {
        // Before anything that can end it: what ends without a word of its maker's reviewer has none to wait for.
        self.own.desk().outputs.insert(run.call, Opinion::Pass);
        if run.site.agent != self.owner {
            return Output::failure("it did not run: the tool is another principal's own");
        }
        let Some(told) = self.own.hand_over(run.call, arguments) else {
            return Output::failure("it did not run: nobody had taken it");
        };
        tokio::select! {
            biased;
            Ok(report) = told => {
                self.own.desk().outputs.insert(run.call, report.said);
                report.output
            }
            () = run.cancel.cancelled() => {
                self.own.desk().hands.remove(&run.call);
                Output::lost("its maker had taken it, and did not say how it ended")
            }
        }
    }
}

impl Tool for ClientTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn is_prompt(&self) -> bool {
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

/// The process that had heard it is gone.
fn lost_review() -> ReviewError {
    ReviewError::Failed("what it said was lost; make the call again".to_owned())
}
