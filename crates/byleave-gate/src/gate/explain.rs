//! Explains a call without recording it: its plan and the decision of the policy, from the same steps as a real call.

use byleave_core::call::Call;
use byleave_core::decision::PolicyDecision;
use byleave_core::effect::Plan;
use byleave_core::outcome::Outcome;
use byleave_core::pipeline::{NextStep, Task, next_step};
use byleave_core::refusal::{Code, Refusal, StageResult};

use super::Gate;
use crate::gate::inner::new_record_key;
use crate::gate::task_outcome::{TaskOutcome, content_refusal};
use crate::gate::tasks::perform;
use crate::gate::working_record::WorkingRecord;

/// The plan of a call, and the decision of the policy in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The tool's own name.
    pub tool: String,
    /// The planned effects.
    pub plan: Plan,
    /// The decision of the policy, with the standing approvals in force.
    pub decision: PolicyDecision,
}

impl Gate {
    /// Returns the plan and the decision for a call. Runs nothing, asks nobody, and writes nothing to the audit log.
    ///
    /// It performs the same steps as the call would, up to the decision. A refusal before the decision is returned as an error.
    pub async fn explain(&self, mut call: Call) -> StageResult<Explanation> {
        // A dry run is never blocked by another call.
        call.dry_run = true;
        let broken = |why: String| Refusal::new(Code::PolicyFailed, why);
        let lineage = self.inner.ledger.lineage(&call.tenant, &call.session).await;
        let lineage = lineage.map_err(|fault| broken(fault.to_string()))?;
        let key = new_record_key().map_err(|error| broken(error.to_string()))?;
        let desk = WorkingRecord::new(&call, lineage, key, self.inner.now());
        let mut desk = desk.map_err(|misplaced| broken(misplaced.to_string()))?;
        loop {
            let draft = desk.record.draft();
            if let Some(Ok(ruling)) = draft.and_then(|draft| draft.decision()).cloned() {
                let plan = (*desk.plan(&*self.inner.ledger).await.map_err(content_refusal)?).clone();
                let tool = desk.resolved_tool().map(|terms| terms.tool.clone()).unwrap_or_default();
                return Ok(Explanation { tool, plan, decision: ruling });
            }
            let task = match next_step(&desk.record) {
                NextStep::Do(task @ (Task::Resolve | Task::Validate | Task::Plan | Task::EvaluatePolicy)) => {
                    task
                }
                NextStep::Settle(Outcome::Refused(refusal)) => return Err(refusal),
                NextStep::Do(_) | NextStep::Wait(_) | NextStep::Settle(_) => {
                    return Err(broken("the policy made no decision on the call".to_owned()));
                }
            };
            match perform(&self.inner, &mut desk, task).await {
                TaskOutcome::Event(fact) => desk
                    .append_event(self.inner.now(), fact)
                    .map_err(|misplaced| broken(misplaced.to_string()))?,
                TaskOutcome::Blocked(_) | TaskOutcome::RunningElsewhere | TaskOutcome::Retry => {
                    return Err(broken("the call cannot be evaluated now".to_owned()));
                }
            }
        }
    }
}
