//! `byleave log stats`: the number of calls and questions in a period, as numbers and bars. The library counts; this module only draws.

use std::time::{Duration, Instant};

use anyhow::Result;
use byleave_gate::core::call::Millis;
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::stats::{self, AnswerCounts, DayCount, RuleCount, Stats, StatsFilter};
use clap::Args as Group;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::app_context::AppContext;
use crate::bar_chart::{self, Bar};
use crate::call_display::format_count;
use crate::console::{Console, Tone, one_line};
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::time::{DAY, date, format_duration, format_local, now, parse_time};

#[derive(Debug, Group)]
pub(crate) struct StatsArgs {
    /// Only calls received since: a duration, as in `2h`, or a date, as in `2026-03-01` or `2026-03-01T14:30`
    #[arg(long, value_name = "TIME", default_value = "7d")]
    pub(crate) since: String,
    /// Only calls received before: same format as `--since`
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only this session
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Only this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only this agent
    #[arg(long)]
    pub(crate) agent: Option<AgentId>,
}

/// The number of tools and rules that are drawn. `--json` has all of them.
const BARS_MAX: usize = 15;
/// The maximum number of lines for days.
const DAYS_MAX: u64 = 31;
/// The delay before the progress line appears.
const SILENCE: Duration = Duration::from_secs(1);

pub(crate) async fn run(
    typed: StatsArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let now = now();
    let since = parse_time(&typed.since, now)?;
    let until = typed.until.as_deref().map(|typed| parse_time(typed, now)).transpose()?;
    let wanted = StatsFilter {
        tenant: Some(options.tenant.clone()),
        session: typed.session,
        agent: typed.agent,
        tool: typed.tool,
        since: Some(since),
        until,
    };
    let house = AppContext::open_to_read(options, None)?;
    let mut meter = ReadProgress::new();
    let stats = stats::collect(&*house.audit_log, wanted, |read| meter.tell(read)).await?;
    meter.end();
    if screen.json() {
        screen.value(&value(&stats, since, until));
    } else {
        draw(screen, &stats, since, until.unwrap_or(now));
    }
    if stats.damaged > 0 {
        let records = format_count(stats.damaged, "record");
        screen.message_with_tone(Tone::Careful, "warning:", &format!("{records} not counted: damaged"));
        screen.hint("`byleave audit verify` names the first damaged place");
    }
    Ok(ExitStatus::Completed)
}

/// A progress line on standard error with the number of records read. Only at a terminal, and only if it takes long.
struct ReadProgress {
    begun: Instant,
    line: Option<ProgressBar>,
}

impl ReadProgress {
    fn new() -> Self {
        Self { begun: Instant::now(), line: None }
    }

    fn tell(&mut self, read: u64) {
        if let Some(line) = &self.line {
            line.set_position(read);
        } else if self.begun.elapsed() >= SILENCE {
            // It draws on standard error, and hides itself if that is not a terminal.
            let style = ProgressStyle::with_template("{human_pos} records read ({per_sec})");
            let line = ProgressBar::new_spinner();
            self.line = Some(style.map_or_else(|_| line.clone(), |style| line.clone().with_style(style)));
        }
    }

    fn end(self) {
        if let Some(line) = self.line {
            line.finish_and_clear();
        }
    }
}

fn value(stats: &Stats, since: Millis, until: Option<Millis>) -> Value {
    let mut value = json!(stats);
    if let Value::Object(fields) = &mut value {
        fields.insert("since".into(), json!(since));
        fields.insert("until".into(), json!(until));
    }
    if let Some(Value::Array(days)) = value.get_mut("days") {
        for day in days {
            let written = day.get("day").and_then(Value::as_u64).map(date);
            if let Value::Object(fields) = day {
                fields.insert("date".into(), json!(written));
            }
        }
    }
    if let Some(Value::Array(rules)) = value.get_mut("rules") {
        for (rule, counted) in rules.iter_mut().zip(&stats.rules) {
            if let Value::Object(fields) = rule {
                fields.insert("always_yes".into(), json!(counted.is_always_yes()));
            }
        }
    }
    value
}

fn draw(screen: &mut Console, stats: &Stats, since: Millis, until: Millis) {
    screen.title(&format!("from {} to {}", format_local(since), format_local(until)));
    let row =
        |name: &str, number: u64, more: &str| format!("{name:<12} {number:>7}  {more}").trim_end().to_owned();
    screen.line(&row("calls", stats.calls, &words(&stats.outcomes.counts())));
    let ran = format!("{} started", stats.destructive.executed);
    let ran = if stats.destructive.calls > 0 { ran.as_str() } else { "" };
    screen.line(&row("destructive", stats.destructive.calls, ran));
    screen.line(&row("questions", stats.questions.count, &words(&stats.questions.answers.counts())));
    let waited = &stats.questions.open_durations;
    if waited.count() > 0 {
        screen.line(&format!(
            "waited for people: {} in total, {} median, {} at most",
            format_duration(waited.sum_ms()),
            format_duration(waited.median_ms()),
            format_duration(waited.longest_ms())
        ));
    }
    if stats.calls == 0 {
        return;
    }
    days(screen, &stats.days, since, until);
    tools(screen, stats);
    rules(screen, stats);
    if stats.unlisted > 0 {
        screen.message(&format!(
            "{} in the totals but in no list: too many names",
            format_count(stats.unlisted, "call")
        ));
    }
}

fn days(screen: &mut Console, days: &[DayCount], since: Millis, until: Millis) {
    let Some(first) = days.first() else { return };
    // Empty days long before the first call are not drawn.
    let from = (since / DAY).max(first.day.saturating_sub(DAYS_MAX / 2));
    let last = (until / DAY).max(days.last().map_or(0, |day| day.day));
    let length = (last + 1).saturating_sub(from).max(1);
    let together = length.div_ceil(DAYS_MAX);
    screen.line("");
    match together {
        1 => screen.title("calls by day"),
        together => screen.title(&format!("calls by {together} days, from the day shown")),
    }
    let bars: Vec<Bar> = (0..length.div_ceil(together))
        .map(|place| {
            let begin = from + place * together;
            let within = days.iter().filter(|day| (begin..begin + together).contains(&day.day));
            let (calls, asked) =
                within.fold((0, 0), |(calls, asked), day| (calls + day.calls, asked + day.questions));
            let remark = if asked > 0 { format_count(asked, "question") } else { String::new() };
            Bar { name: date(begin), number: calls, remark }
        })
        .collect();
    bar_chart::draw(screen, &bars);
}

fn tools(screen: &mut Console, stats: &Stats) {
    screen.line("");
    screen.title("calls by tool");
    let bars: Vec<Bar> = stats
        .tools
        .iter()
        .take(BARS_MAX)
        .map(|tool| {
            let of_note = [
                ("failed", tool.outcomes.failed),
                ("refused", tool.outcomes.refused),
                ("asked about", tool.questions),
                ("destructive", tool.destructive),
            ];
            Bar { name: one_line(&tool.tool), number: tool.calls, remark: words(&of_note) }
        })
        .collect();
    bar_chart::draw(screen, &bars);
    rest(screen, stats.tools.len(), "tool");
}

fn rules(screen: &mut Console, stats: &Stats) {
    if stats.rules.is_empty() {
        return;
    }
    screen.line("");
    screen.title("questions by cause");
    let bars: Vec<Bar> = stats
        .rules
        .iter()
        .take(BARS_MAX)
        .map(|rule| {
            let origin = rule.origin.as_deref().map(|origin| format!("; {origin}")).unwrap_or_default();
            let remark = format!("{} of {} yes{origin}", yeses(&rule.answers), rule.questions);
            Bar { name: one_line(&rule.label()), number: rule.questions, remark: one_line(&remark) }
        })
        .collect();
    bar_chart::draw(screen, &bars);
    rest(screen, stats.rules.len(), "rule");
    let spare: Vec<&RuleCount> = stats.rules.iter().filter(|rule| rule.is_always_yes()).collect();
    if spare.is_empty() {
        return;
    }
    let names: Vec<String> = spare.iter().take(3).map(|rule| rule.label()).collect();
    let more = if spare.len() > names.len() { ", …" } else { "" };
    screen.hint(&format!(
        "questions from {}{more} were always answered yes: a standing approval (`byleave inbox answer ID standing-approval`) \
         or a rule would avoid them; `byleave policy suggest` writes the rules",
        names.join(", "),
    ));
}

const fn yeses(answers: &AnswerCounts) -> u64 {
    answers.yes + answers.standing_approval
}

/// Lists the numbers with their names, without zeros.
fn words(numbers: &[(&str, u64)]) -> String {
    let there = numbers.iter().filter(|(_, number)| *number > 0);
    there.map(|(word, number)| format!("{number} {word}")).collect::<Vec<_>>().join(", ")
}

fn rest(screen: &mut Console, all: usize, word: &str) {
    if let Some(more) = all.checked_sub(BARS_MAX).filter(|more| *more > 0) {
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        screen.message(&format!("and {} more; `--json` lists all", format_count(more, word)));
    }
}
