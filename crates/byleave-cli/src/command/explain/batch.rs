//! `byleave explain --batch`: reads cases and prints verdicts, one per line, so that anyone can test the policy with their own
//! corpus.
//!
//! An unreadable line is denied with a reason. No line is skipped, and none stops the others.

use std::io::{BufRead, Read as _};

use anyhow::{Context as _, Result};
use byleave_gate::core::decision::Verdict;
use byleave_gate::policy_case::{self, Case, CaseDefaults, CaseVerdict};
use serde_json::{Value, json};

use crate::console::{Console, escape_json};

/// The maximum length of a line.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Evaluates every line.
pub(super) fn run(input: &mut dyn BufRead, setting: &CaseDefaults, screen: &mut Console) -> Result<()> {
    for number in 1_u64.. {
        let mut line = Vec::new();
        let read =
            input.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).context("cannot read standard input")?;
        if read == 0 {
            break;
        }
        let whole = line.last() == Some(&b'\n') || (line.len() as u64) < LINE_BYTES_MAX;
        let (id, said) = if whole { judged(&line, setting) } else { (Value::Null, too_long(input)?) };
        let mut out = json!({ "id": id, "verdict": said.verdict, "because": said.reason });
        if id.is_null()
            && let Some(fields) = out.as_object_mut()
        {
            fields.insert("line".to_owned(), json!(number));
        }
        screen.line(&escape_json(&out.to_string()));
    }
    Ok(())
}

fn judged(line: &[u8], setting: &CaseDefaults) -> (Value, CaseVerdict) {
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return (Value::Null, denied(format!("the line is not JSON: {error}"))),
    };
    let id = value.get("id").cloned().unwrap_or_default();
    match serde_json::from_value::<Case>(value) {
        Ok(case) => (id, policy_case::evaluate(&case, setting)),
        Err(error) => (id, denied(format!("the line is not a case: {error}"))),
    }
}

/// Discards the rest of a line that is too long.
fn too_long(input: &mut dyn BufRead) -> Result<CaseVerdict> {
    loop {
        let mut rest = Vec::new();
        let read =
            input.take(LINE_BYTES_MAX).read_until(b'\n', &mut rest).context("cannot read standard input")?;
        if read == 0 || rest.last() == Some(&b'\n') {
            return Ok(denied(format!("the line has more than {LINE_BYTES_MAX} bytes")));
        }
    }
}

const fn denied(because: String) -> CaseVerdict {
    CaseVerdict { verdict: Verdict::Deny, reason: because }
}
