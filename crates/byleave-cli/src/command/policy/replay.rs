//! `byleave policy replay FILE`: what another file of one's own would have made of every call in the book.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use byleave::core::ruling::Ruling;
use serde_json::{Value, json};

use super::past::{self, Past, Policies, Unjudged};
use crate::command::explain::word;
use crate::house::House;
use crate::ids::short;
use crate::options::Options;
use crate::rules::Rules;
use crate::screen::{Screen, one_line};
use crate::show::{counted, table};
use crate::status::Status;

/// A call that would get another verdict.
struct Change {
    past: Past,
    now: Ruling,
}

pub(super) async fn run(
    file: &Path,
    options: &Options,
    rules: &Rules<'_>,
    screen: &mut Screen,
) -> Result<Status> {
    // A file that is wrong is said once, with its lines, and not for every call.
    rules.as_own(file)?;
    let house = House::open_to_read(options, None)?;
    let (calls, mut unjudged) = past::all(&house, options).await?;
    let mut policies = Policies::new(options, Some(file), Vec::new());
    let (mut changes, mut judged) = (Vec::new(), 0_u64);
    for past in calls {
        match policies.of(&past.heading.cwd) {
            Ok(policy) => {
                judged += 1;
                let now = past.judge(policy);
                if now.verdict != past.ruling.verdict {
                    changes.push(Change { past, now });
                }
            }
            Err(why) => unjudged.push(Unjudged { call: past.call, tool: past.seen.heading.tool, why }),
        }
    }
    let replayed = Replayed { file, judged, changes, unjudged };
    if screen.json() {
        screen.value(&replayed.json());
    } else {
        replayed.show(screen);
    }
    Ok(Status::Completed)
}

struct Replayed<'a> {
    file: &'a Path,
    judged: u64,
    changes: Vec<Change>,
    unjudged: Vec<Unjudged>,
}

impl Replayed<'_> {
    /// How many calls went from which verdict to which.
    fn counts(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let mut counts = BTreeMap::new();
        for Change { past, now } in &self.changes {
            let count = counts.entry((word(past.ruling.verdict), word(now.verdict))).or_insert(0);
            *count += 1;
        }
        counts
    }

    fn show(&self, screen: &mut Screen) {
        let file = one_line(&self.file.to_string_lossy());
        let judged = counted(self.judged, "call");
        screen.title(&format!("{judged} judged again with `{file}` in the place of your own rules"));
        let same = self.judged.saturating_sub(self.changes.len() as u64);
        screen.line(&format!("{same} would get the same verdict"));
        for ((before, now), count) in self.counts() {
            screen.line(&format!("{count} would be {now} instead of {before}"));
        }
        if !self.changes.is_empty() {
            screen.line("");
            let rows = self.changes.iter().map(|Change { past, now }| {
                let (rule, why) = by(now);
                let by = rule.map_or_else(|| why.clone(), |(rule, origin)| format!("`{rule}` ({origin})"));
                vec![
                    short(&past.call),
                    word(past.ruling.verdict).to_owned(),
                    word(now.verdict).to_owned(),
                    one_line(&past.heading.tool),
                    one_line(&by),
                    one_line(&past.summary),
                ]
            });
            table(screen, &["CALL", "BEFORE", "NOW", "TOOL", "BY", "WHAT"], &rows.collect::<Vec<_>>());
        }
        if !self.unjudged.is_empty() {
            screen.line("");
            screen.line(&format!("{} cannot be judged again:", counted(self.unjudged.len() as u64, "call")));
            for Unjudged { call, tool, why } in &self.unjudged {
                screen.line(&one_line(&format!("{} {tool}: cannot be judged again: {why}", short(call))));
            }
        }
    }

    fn json(&self) -> Value {
        let counts = self.counts().into_iter();
        let counts: Vec<Value> = counts
            .map(|((before, now), count)| json!({ "before": before, "now": now, "calls": count }))
            .collect();
        let changes: Vec<Value> = self
            .changes
            .iter()
            .map(|Change { past, now }| {
                let (rule, why) = by(now);
                json!({
                    "call": past.call,
                    "tool": past.heading.tool,
                    "summary": past.summary,
                    "before": past.ruling.verdict,
                    "now": now.verdict,
                    "rule": rule.as_ref().map(|(rule, _)| rule),
                    "origin": rule.as_ref().map(|(_, origin)| origin),
                    "why": why,
                })
            })
            .collect();
        let unjudged: Vec<Value> = self
            .unjudged
            .iter()
            .map(|Unjudged { call, tool, why }| json!({ "call": call, "tool": tool, "why": why }))
            .collect();
        json!({
            "file": self.file,
            "judged": self.judged,
            "same": self.judged.saturating_sub(self.changes.len() as u64),
            "counts": counts,
            "changed": changes,
            "not_judged": unjudged,
        })
    }
}

/// The rule that decides now, with where it stands, and why.
fn by(now: &Ruling) -> (Option<(String, String)>, String) {
    let Some(reason) = now.decisive() else { return (None, String::new()) };
    let origin = reason.origin.clone().unwrap_or_else(|| "danger".to_owned());
    (reason.rule.clone().map(|rule| (rule, origin)), reason.why.clone())
}
