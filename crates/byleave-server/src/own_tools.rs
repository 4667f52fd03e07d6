//! Own tools: functions in an agent's own process, behind the gate.
//!
//! A call of one is judged, asked about and recorded like any other. It begins when its maker takes it, with a claim of the maker's
//! choosing; whoever shows another claim gets nothing. The maker runs it and reports once. Who takes a call and does not report has
//! it end as unknown; nothing is handed out twice. What is judged is what the maker says of the function: nothing confines it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byleave::catalog::NotRegistered;
use byleave::core::id::{AgentId, CallId};
use byleave::core::manifest::Manifest;
use byleave::core::outcome::Output;
use byleave::gate::{Gate, GateBuilder};
use byleave::pending::Pending;
use byleave::result::Standing;
use byleave::review::{
    Covers, InputReviewer, InputSubject, Opinion, OutputReviewer, OutputSubject, ReviewFault,
};
use byleave::tool::{Run, Tool};
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
pub struct OwnTools(Arc<Mutex<Desk>>);

#[derive(Default)]
struct Desk {
    inputs: HashMap<CallId, Heard>,
    outputs: HashMap<CallId, Opinion<Output>>,
    hands: HashMap<CallId, Hand>,
}

/// What a maker's reviewer said of the arguments.
enum Heard {
    Said(Opinion<Value>),
    /// It is on the record. Another draft is a person's, and the maker sees that one when it takes the call.
    Recorded,
}

struct Hand {
    claim: String,
    handed: watch::Sender<Option<Arc<Value>>>,
    report: Option<oneshot::Sender<Report>>,
}

/// What a maker says came of a call, and what its reviewer says of that.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) output: Output,
    pub(crate) said: Opinion<Output>,
}

/// In whose hands a call is.
pub(crate) enum Held {
    /// In those of who shows this claim, with these arguments.
    Mine(Arc<Value>),
    /// In those of another.
    Others,
    /// In nobody's, or not yet.
    Not,
}

/// Why there is no such own tool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOwned {
    #[error(transparent)]
    Bad(#[from] NotRegistered),
    #[error("a principal has at most {EACH_MAX} tools of its own")]
    TooMany,
}

/// A claim that was laid on a call; let go of where nothing was handed over.
pub(crate) struct Claimed {
    own: OwnTools,
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

impl OwnTools {
    /// The gate that is being built, with what the makers' own reviewers say on its records.
    pub fn behind(&self, builder: GateBuilder) -> GateBuilder {
        builder
            .review_input(Covers::Family(FAMILY.into()), self.clone())
            .review_output(Covers::Family(FAMILY.into()), self.clone())
    }

    /// Registers an own tool, or changes what it says of itself: an approval of what it was is none of what it is.
    pub(crate) fn register(&self, gate: &Gate, owner: AgentId, manifest: Manifest) -> Result<(), NotOwned> {
        let catalog = gate.catalog();
        match catalog.get(&manifest.name) {
            Ok(known) if *known.manifest() == manifest => return Ok(()),
            Ok(_) => {}
            Err(_) => {
                let is_theirs = |name: &str| is_own(name) && may_use(owner.as_str(), name);
                if catalog.list().iter().filter(|entry| is_theirs(entry.name())).count() >= EACH_MAX {
                    return Err(NotOwned::TooMany);
                }
            }
        }
        catalog.replace(OwnTool { manifest, owner, own: self.clone() })?;
        Ok(())
    }

    /// Remembers what a maker's reviewer said until it is on the record. What was said first counts.
    pub(crate) fn heard(&self, call: CallId, said: Opinion<Value>) {
        self.desk().inputs.entry(call).or_insert(Heard::Said(said));
    }

    /// Lets go of what is on the record.
    pub(crate) fn stood(&self, standing: Standing) -> Standing {
        let call = standing.call();
        let mut desk = self.desk();
        match &standing {
            Standing::Settled(_) => {
                desk.inputs.remove(&call);
                desk.outputs.remove(&call);
                desk.hands.remove(&call);
            }
            Standing::Waiting { .. } | Standing::Ready { .. } => {
                if let Entry::Occupied(mut heard) = desk.inputs.entry(call) {
                    heard.insert(Heard::Recorded);
                }
            }
            Standing::HeldUp { .. } | Standing::RunningElsewhere { .. } => {}
        }
        drop(desk);
        standing
    }

    pub(crate) fn is_claimed(&self, call: CallId) -> bool {
        self.desk().hands.contains_key(&call)
    }

    pub(crate) fn held(&self, call: CallId, claim: &str) -> Held {
        match self.desk().hands.get(&call) {
            Some(hand) if hand.claim != claim => Held::Others,
            Some(hand) => hand.handed.borrow().clone().map_or(Held::Not, Held::Mine),
            None => Held::Not,
        }
    }

    /// Lays a claim on a call; `None` where another has.
    pub(crate) fn claim(&self, call: CallId, claim: &str) -> Option<Claimed> {
        let mut desk = self.desk();
        let hand = desk.hands.entry(call).or_insert_with(|| Hand {
            claim: claim.to_owned(),
            handed: watch::Sender::new(None),
            report: None,
        });
        let handed = (hand.claim == claim).then(|| hand.handed.subscribe())?;
        drop(desk);
        Some(Claimed { own: self.clone(), call, handed })
    }

    /// Takes a report in from who has the call; `false` where another has.
    pub(crate) fn report(&self, call: CallId, claim: &str, report: Report) -> bool {
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

    fn hand_over(&self, call: CallId, arguments: Value) -> Option<oneshot::Receiver<Report>> {
        let mut desk = self.desk();
        let hand = desk.hands.get_mut(&call).filter(|hand| hand.report.is_none())?;
        let (tell, told) = oneshot::channel();
        hand.report = Some(tell);
        hand.handed.send_replace(Some(Arc::new(arguments)));
        Some(told)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claimed {
    /// Waits until the call is handed over; `None` where it no longer can be.
    pub(crate) async fn handed(&mut self) -> Option<Arc<Value>> {
        self.handed.wait_for(Option::is_some).await.ok().and_then(|handed| handed.clone())
    }
}

impl Drop for Claimed {
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
struct OwnTool {
    manifest: Manifest,
    owner: AgentId,
    own: OwnTools,
}

impl OwnTool {
    async fn run(&self, arguments: Value, run: Run) -> Output {
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

impl Tool for OwnTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn execute(&self, arguments: Value, run: Run) -> Pending<'_, Output> {
        Box::pin(self.run(arguments, run))
    }
}

impl InputReviewer for OwnTools {
    fn name(&self) -> &str {
        REVIEWER
    }

    fn review<'a>(&'a self, subject: InputSubject<'a>) -> Pending<'a, Result<Opinion<Value>, ReviewFault>> {
        let said = match self.desk().inputs.get(&subject.call) {
            Some(Heard::Said(Opinion::Change { value, .. })) if value == subject.arguments => {
                Ok(Opinion::Pass)
            }
            Some(Heard::Said(said)) => Ok(said.clone()),
            Some(Heard::Recorded) => Ok(Opinion::Pass),
            None => Err(lost_review()),
        };
        Box::pin(async { said })
    }
}

impl OutputReviewer for OwnTools {
    fn name(&self) -> &str {
        REVIEWER
    }

    fn review<'a>(&'a self, subject: OutputSubject<'a>) -> Pending<'a, Result<Opinion<Output>, ReviewFault>> {
        let said = self.desk().outputs.get(&subject.call).cloned().ok_or_else(lost_review);
        Box::pin(async { said })
    }
}

/// The process that had heard it is gone.
fn lost_review() -> ReviewFault {
    ReviewFault::Failed("what it said was lost; make the call again".to_owned())
}
