//! The reports of agents about calls that they executed themselves.
//!
//! Such a report has a record of its own, so that it can come after its call has settled. For people it is a part of its call, and it is not
//! counted as a call.

use byleave_core::id::CallId;
use byleave_core::outcome::Outcome;
use byleave_core::record::Record;

/// The tool that records a report.
pub const TOOL: &str = "agent_ran";
/// The part of the session between the agent and the call.
const AFTER: &str = ":after:";

/// Returns the session of the report of an agent about this call. It is separate, so that the report waits for no question.
pub fn session_name(agent: &str, of: Option<CallId>) -> String {
    let of = of.map_or_else(|| "unknown-call".to_owned(), |call| call.to_string());
    format!("{agent}{AFTER}{of}")
}

/// Returns the call that a report is about, from its tool, its session and its outcome. A call that was refused is not a report, whatever
/// it is named.
pub fn reported_call(tool: &str, session: &str, outcome: Option<&str>) -> Option<CallId> {
    let is_recorded = tool == TOOL && outcome == Some("completed");
    session.rsplit_once(AFTER).filter(|_| is_recorded)?.1.parse().ok()
}

/// Returns the call that the report on this record is about, if it is one.
pub fn reported_call_of(record: &Record) -> Option<CallId> {
    let resolved = record.resolved_tool()?.as_ref().ok()?;
    let outcome = record.outcome().map(Outcome::as_str);
    reported_call(&resolved.tool, record.header()?.session.as_str(), outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "0190a000-0000-7000-8000-00000000cafe";

    #[test]
    fn only_a_recorded_report_about_a_call_is_one() {
        let call: CallId = CALL.parse().unwrap();
        let session = session_name("claude-code", Some(call));
        assert_eq!(reported_call(TOOL, &session, Some("completed")), Some(call));
        assert_eq!(reported_call(TOOL, &session, Some("refused")), None);
        assert_eq!(reported_call(TOOL, &session, None), None);
        assert_eq!(reported_call("bash", &session, Some("completed")), None);
        assert_eq!(reported_call(TOOL, "claude-code:s", Some("completed")), None);
        // Nobody knows the call of such a report, so it is listed by itself.
        let unknown = session_name("claude-code", None);
        assert_eq!(reported_call(TOOL, &unknown, Some("completed")), None);
    }
}
