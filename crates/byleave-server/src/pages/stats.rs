//! Statistics of calls and questions, as bars.

use axum::extract::State;
use axum::response::Html;
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::time_format::{civil_date, format_duration};
use byleave_gate::stats::{self, Stats, StatsFilter};
use maud::{Markup, html};
use serde::Deserialize;

use super::error_page::ErrorPage;
use super::layout::page;
use super::signed_in_user::SignedInUser;
use crate::extract::StrictQuery;
use crate::principal::AccessScope;
use crate::problem::Problem;
use crate::state::App;

const DAY: u64 = 24 * 3_600 * 1_000;
const SPANS: [(u64, &str); 4] = [(1, "a day"), (7, "7 days"), (30, "30 days"), (90, "90 days")];
const USUAL: u64 = 30;
const BARS_MAX: usize = 15;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatsPageQuery {
    days: Option<u64>,
}

/// Shows the statistics of some days.
pub(super) async fn show(
    State(_app): State<App>,
    visitor: SignedInUser,
    StrictQuery(since): StrictQuery<StatsPageQuery>,
) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Read])?;
    let days = since.days.filter(|days| SPANS.iter().any(|(known, _)| known == days)).unwrap_or(USUAL);
    let tenancy = &visitor.caller.tenant;
    let now = SystemClock.now();
    let wanted = StatsFilter {
        tenant: Some(tenancy.id().clone()),
        session: None,
        agent: None,
        tool: None,
        since: Some(now.saturating_sub(days * DAY)),
        until: None,
    };
    // The statistics read every record, so only one runs at a time.
    let busy =
        |_| Problem::too_many("the audit log is already being counted or verified; try again later", 5);
    let turn = tenancy.full_read_permit.try_acquire().map_err(busy)?;
    let stats = stats::collect(&*tenancy.audit_log, wanted, |_| {}).await?;
    drop(turn);
    let body = html! {
        h1 { "Statistics" }
        nav aria-label="Period" { @for (span, words) in SPANS {
            a href={ "/stats?days=" (span) } aria-current=[(span == days).then_some("true")] { (words) } " "
        } }
        (sums(&stats))
        (by_day(&stats, now / DAY, days))
        (bars("Calls by tool", stats.tools.iter().map(|tool| (tool.tool.clone(), tool.calls, format!("{} questions", tool.questions)))))
        (bars("Questions by rule or cause", stats.rules.iter().map(|rule| {
            (rule.label(), rule.questions, format!("{} yes", rule.answers.yes + rule.answers.standing_approval))
        })))
    };
    Ok(page(&visitor, "Statistics", "/stats", &body))
}

fn sums(stats: &Stats) -> Markup {
    let waited = &stats.questions.open_durations;
    html! {
        dl.sums {
            div { dt { "Calls" } dd { (stats.calls) } }
            div { dt { "Refused" } dd { (stats.outcomes.refused) } }
            div { dt { "Destructive" } dd { (stats.destructive.calls) } }
            div { dt { "Questions" } dd { (stats.questions.count) } }
            @if waited.count() > 0 { div { dt { "Median wait" } dd { (format_duration(waited.median_ms())) } } }
            @if stats.damaged > 0 { div { dt { "Damaged" } dd { (stats.damaged) } } }
        }
    }
}

/// Renders columns for days: the number of calls, and the number of questions.
fn by_day(stats: &Stats, today: u64, days: u64) -> Markup {
    let first = today.saturating_sub(days.saturating_sub(1));
    // A call can have more than one question.
    let most = stats.days.iter().map(|day| day.calls.max(day.questions)).max().unwrap_or(0).max(1);
    let columns: Vec<(u64, u64, u64)> = (first..=today)
        .map(|day| {
            let found = stats.days.iter().find(|count| count.day == day);
            (day, found.map_or(0, |count| count.calls), found.map_or(0, |count| count.questions))
        })
        .collect();
    let wide = 600_u64 / days.max(1);
    let high = |number: u64| number.saturating_mul(120).div_ceil(most);
    let gap = u64::from(wide > 3);
    html! {
        figure {
            figcaption { "Calls per day and " span.asked { "questions" } " per day; maximum " (most) }
            svg.days viewBox={ "0 0 " (wide * days) " 120" } preserveAspectRatio="none" role="img" aria-label={ "Calls and questions per day; maximum " (most) } {
                @for (place, (day, calls, asked)) in (0_u64..).zip(&columns) {
                    g {
                        title { (date(*day)) ": " (calls) " calls, " (asked) " questions" }
                        rect.calls x=(place * wide) y=(120_u64.saturating_sub(high(*calls))) width=(wide - gap) height=(high(*calls)) {}
                        rect.asked x=(place * wide) y=(120_u64.saturating_sub(high(*asked))) width=(wide - gap) height=(high(*asked)) {}
                    }
                }
            }
            p.axis { span { (date(first)) } span { (date(today)) } }
        }
    }
}

fn bars(title: &str, rows: impl Iterator<Item = (String, u64, String)>) -> Markup {
    let rows: Vec<_> = rows.take(BARS_MAX).collect();
    let most = rows.iter().map(|(_, number, _)| *number).max().unwrap_or(0).max(1);
    if rows.is_empty() {
        return html! {};
    }
    html! {
        h2 { (title) }
        table.bars {
            tbody { @for (name, number, more) in &rows {
                tr {
                    th scope="row" { (make_visible(name, EscapeLevel::Name)) }
                    td.bar { svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                        rect.calls x="0" y="0" height="10" width=(number.saturating_mul(100).div_ceil(most)) {}
                    } }
                    td.number { (number) }
                    td.about { (more) }
                }
            } }
        }
    }
}

fn date(day: u64) -> String {
    let (year, month, day) = civil_date(day);
    format!("{year:04}-{month:02}-{day:02}")
}
