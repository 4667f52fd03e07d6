//! The page of one question, with all ways to answer it.

use axum::extract::State;
use axum::response::Html;
use byleave_gate::approver::RiskLevel;
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::approval_scopes::approval_scopes;
use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::id::QuestionId;
use byleave_gate::core::question::QuestionKind;
use byleave_gate::core::question_view::{QuestionView, RehearsalView};
use byleave_gate::core::render::{QuestionCard, render};
use byleave_gate::core::time_format::format_utc;
use byleave_gate::recorded_calls;
use maud::{Markup, html};
use serde::Deserialize;

use super::edit;
use super::error_page::ErrorPage;
use super::layout::{csrf_field, page};
use super::question_card;
use super::question_view::HeadingLevel;
use super::signed_in_user::SignedInUser;
use super::text::visible_lines;
use crate::extract::{PathId, StrictQuery};
use crate::principal::AccessScope;
use crate::state::App;
use crate::submit_answer;

/// The durations of a standing approval, in seconds. 0 means until it is revoked.
const TIMES: [(u32, &str); 5] = [
    (900, "15 minutes"),
    (3_600, "an hour"),
    (28_800, "8 hours"),
    (604_800, "7 days"),
    (0, "until it is revoked"),
];
/// The maximum uses of a standing approval. 0 means any number.
const COUNTS: [(u32, &str); 5] =
    [(1, "once"), (5, "5 times"), (20, "20 times"), (100, "100 times"), (0, "any number of times")];
/// The maximum length of the title of a page.
const TITLE_CHARS_MAX: usize = 80;
/// The maximum number of listed past calls.
const PAST_MAX: usize = 20;

/// Shows a question completely.
pub(super) async fn show(
    State(_app): State<App>,
    visitor: SignedInUser,
    PathId(question): PathId<QuestionId>,
) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Answer])?;
    let sheet = submit_answer::open_question_view(&visitor.caller, question).await?;
    visitor.session.mark_shown(question, sheet.question.digest());
    let card = QuestionCard::new(&sheet);
    let body = html! {
        article.asks data-question=(question) data-dwell=(RiskLevel::for_question(&sheet).min_read_time().as_millis()) {
            p.closed role="alert" hidden { "This question is no longer open: it was answered, cancelled or expired. " a href="/" { "Back to the inbox" } }
            (question_card::card(&sheet, &card, HeadingLevel::Page, SystemClock.now()))
            (question_card::details(&sheet, &card, HeadingLevel::Page))
            (answers(&visitor, &sheet))
        }
    };
    Ok(page(&visitor, &title(&card), "/", &body))
}

/// Returns the title of the page of a question: the beginning of its card.
fn title(card: &QuestionCard) -> String {
    let text = card.short_text();
    let cut: String = text.chars().take(TITLE_CHARS_MAX).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { text }
}

fn answers(visitor: &SignedInUser, sheet: &QuestionView) -> Markup {
    if sheet.agent.as_str() == visitor.caller.name() {
        return html! { p.wrong { "You cannot answer a question about your own call. Somebody else must answer it." } };
    }
    let complete = render(sheet).complete;
    let is_release = sheet.question.kind == QuestionKind::Release;
    let (yes, no) = if is_release { ("Release", "Withhold") } else { ("Yes, run it", "No") };
    let has_fields = sheet.needs_challenge()
        || RiskLevel::for_question(sheet).confirmation_phrase(sheet.question.kind).is_some();
    let yes_button = html! { button.yes type="submit" data-key="y" { (yes) kbd { "y" } } };
    let can_repeat = complete && !is_release && approval_scopes(sheet).is_ok() && !sheet.needs_challenge();
    html! {
        section.answers #answers aria-label="Your answer" {
            @if !complete {
                p.wrong { "This question cannot be shown in full, so you cannot approve it." }
            } @else {
                p.hint { (meaning(sheet)) " " span.sleeping hidden { "You can answer after the end of the question was visible for a moment." } }
                @if has_fields {
                    form.card #yes method="post" action=(to(sheet)) data-approves {
                        (hidden(visitor, sheet, "yes"))
                        (case(sheet))
                        (words(sheet))
                        (yes_button)
                    }
                }
            }
            form.card method="post" action=(to(sheet)) {
                (hidden(visitor, sheet, "no"))
                label for="feedback" { "What should the model do instead? The model sees this text. Optional." }
                textarea #feedback name="feedback" rows="2" maxlength="4000" {}
                button.no type="submit" data-key="n" { (no) kbd { "n" } }
            }
            @if complete { (leave(sheet)) }
            @if complete && is_release { (mask(visitor, sheet)) }
            details.card {
                summary data-key="e" { "Edit " @if is_release { "the result" } @else { "the arguments" } kbd { "e" } }
                form method="post" action=(to(sheet)) {
                    (hidden(visitor, sheet, "edit"))
                    (edit::render_fields(sheet))
                    p.hint { @if is_release { "The model sees the edited result." } @else { "The policy evaluates the edited arguments like a new call." } }
                    button type="submit" { "Send the edited " @if is_release { "result" } @else { "arguments" } }
                }
            }
            @if sheet.question.kind == QuestionKind::Approval { (in_place(visitor, sheet)) }
            @if complete { (part(visitor, sheet)) }
            details.card {
                summary data-key="x" { "Stop everything" kbd { "x" } }
                form method="post" action=(to(sheet)) {
                    (hidden(visitor, sheet, "abort"))
                    p { "The call is refused, and the agent is asked to stop." }
                    button.no type="submit" { "Stop everything" }
                }
            }
        }
        div.bar {
            div {
                a.button.quiet href="/" data-key="l" { "Later" kbd { "l" } }
                a.button.no href="#feedback" { (no) "…" }
                @if can_repeat { a.button href="#approval" { "Don’t ask again" } }
                @if complete && has_fields {
                    a.button.yes href="#yes" { (yes) "…" }
                } @else if complete {
                    form method="post" action=(to(sheet)) data-approves {
                        (hidden(visitor, sheet, "yes"))
                        (yes_button)
                    }
                }
            }
        }
    }
}

fn meaning(sheet: &QuestionView) -> &'static str {
    match (&sheet.rehearsal, sheet.question.kind) {
        (_, QuestionKind::Release) => "A yes shows the model the result as it is.",
        (Some(RehearsalView::Ran { rehearsal, .. }), _) if rehearsal.is_committable() => {
            "A yes applies exactly these changes. You can undo them."
        }
        _ => "A yes runs the call.",
    }
}

fn to(sheet: &QuestionView) -> String {
    format!("/questions/{}/answer", sheet.question.id)
}

/// Renders the hidden fields of every answer: the CSRF token, the question's digest, and the answer.
fn hidden(visitor: &SignedInUser, sheet: &QuestionView, kind: &str) -> Markup {
    html! {
        (csrf_field(visitor))
        input type="hidden" name="digest" value=(sheet.question.digest());
        input type="hidden" name="answer" value=(kind);
    }
}

/// Renders the fields for the case against the call, if a yes needs it.
fn case(sheet: &QuestionView) -> Markup {
    if !sheet.needs_challenge() {
        return html! {};
    }
    html! {
        fieldset {
            legend { "The case against this call" }
            label { "Which assumption could be wrong?" textarea name="assumption" rows="2" maxlength="4000" required {} }
            label { "How could it fail?" textarea name="failure" rows="2" maxlength="4000" required {} }
            label { "Why is it right all the same?" textarea name="reason" rows="2" maxlength="4000" required {} }
        }
    }
}

/// Renders the field for required words, if a button is not enough.
fn words(sheet: &QuestionView) -> Markup {
    let Some(words) = RiskLevel::for_question(sheet).confirmation_phrase(sheet.question.kind) else {
        return html! {};
    };
    html! {
        label { "Type " strong { (words) } " to approve. This may be impossible to undo."
            input type="text" name="confirm" required autocomplete="off" autocapitalize="off" data-typed; }
    }
}

fn mask(visitor: &SignedInUser, sheet: &QuestionView) -> Markup {
    html! {
        details.card {
            summary data-key="r" { "Mask secrets and words" kbd { "r" } }
            form method="post" action=(to(sheet)) data-approves {
                (hidden(visitor, sheet, "mask"))
                label for="masked" { "More words to mask. Detected secrets are always masked." }
                input #masked type="text" name="words" autocomplete="off";
                button type="submit" { "Release the masked result" }
            }
        }
    }
}

/// Renders the form for a result that a person gives in the place of the tool.
fn in_place(visitor: &SignedInUser, sheet: &QuestionView) -> Markup {
    html! {
        details.card {
            summary data-key="r" { "Answer in the place of the tool" kbd { "r" } }
            form method="post" action=(to(sheet)) {
                (hidden(visitor, sheet, "result"))
                label for="result" { "Result for the model" }
                textarea #result name="result" rows="4" maxlength="100000" required {}
                p.hint { "The tool does not run. The model gets this text as its result, with a line that a person answered." }
                button type="submit" { "Answer with this result" }
            }
        }
    }
}

fn part(visitor: &SignedInUser, sheet: &QuestionView) -> Markup {
    let changes = match &sheet.rehearsal {
        Some(RehearsalView::Ran { rehearsal, .. }) if rehearsal.is_committable() => {
            rehearsal.changes.list.as_slice()
        }
        _ => &[],
    };
    if changes.len() < 2 || sheet.needs_challenge() {
        return html! {};
    }
    html! {
        details.card {
            summary data-key="p" { "Apply some of the changes" kbd { "p" } }
            form method="post" action=(to(sheet)) data-approves {
                (hidden(visitor, sheet, "partial"))
                fieldset {
                    legend { "Changes to apply" }
                    @for (place, change) in changes.iter().enumerate() {
                        label.check {
                            input type="checkbox" name="keep" value=(place);
                            (change.kind().verb()) " " code { (make_visible(&change.path, EscapeLevel::Name)) }
                        }
                    }
                }
                (words(sheet))
                button type="submit" { "Apply only these" }
            }
        }
    }
}

fn leave(sheet: &QuestionView) -> Markup {
    if sheet.needs_challenge() {
        return html! { p.hint { "A standing approval is not possible: a yes needs the case against the call." } };
    }
    let offers = match approval_scopes(sheet) {
        Ok(offers) => offers,
        Err(why) => return html! { p.hint { "A standing approval is not possible: " (why) "." } },
    };
    html! {
        details.card #approval {
            summary data-key="a" { "Don’t ask again: give a standing approval" kbd { "a" } }
            form method="get" action={ "/questions/" (sheet.question.id) "/standing-approval" } {
                p.hint { "Approves this call, and later calls within the limits that you choose. You see the rule before you confirm." }
                fieldset {
                    legend { "Scope" }
                    @for (number, offer) in (1..).zip(&offers) {
                        label.check {
                            input type="radio" name="scope" value=(number) checked[number == 1];
                            (offer.description)
                        }
                    }
                }
                (choice("lifetime_s", "Duration", &TIMES, 3_600))
                (choice("uses", "Number of uses", &COUNTS, 0))
                label for="approval-sessions" { "Sessions" }
                select #approval-sessions name="sessions" {
                    option value="session" selected { "in this session" }
                    option value="all" { "in every session" }
                }
                button type="submit" { "Preview the standing approval" }
            }
        }
    }
}

fn choice(name: &str, label: &str, options: &[(u32, &str)], usual: u32) -> Markup {
    html! {
        label for={ "approval-" (name) } { (label) }
        select id={ "approval-" (name) } name=(name) {
            @for (value, words) in options { option value=(value) selected[*value == usual] { (words) } }
        }
    }
}

/// The parameters of a standing approval before it is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalDraft {
    scope: u32,
    lifetime_s: u32,
    uses: u32,
    sessions: String,
}

/// Shows the standing approval as a rule, and the past calls that it would have covered.
pub(super) async fn preview_approval(
    State(_app): State<App>,
    visitor: SignedInUser,
    PathId(question): PathId<QuestionId>,
    StrictQuery(chosen): StrictQuery<ApprovalDraft>,
) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Answer])?;
    let sheet = submit_answer::open_question_view(&visitor.caller, question).await?;
    let some = |number: u32| (number > 0).then_some(number);
    let (uses, everywhere) = (some(chosen.uses), chosen.sessions == "all");
    let leave =
        submit_answer::build_standing_approval(&sheet, chosen.scope, chosen.lifetime_s, uses, everywhere)?;
    let now = SystemClock.now();
    let tenancy = &visitor.caller.tenant;
    let past = recorded_calls::find_covered(&*tenancy.audit_log, tenancy.id(), &leave, now).await?;
    let whose = if leave.is_for_any_tool() { "" } else { " of this tool" };
    let body = html! {
        article data-question=(question) data-dwell=(RiskLevel::for_question(&sheet).min_read_time().as_millis()) {
            h1 { "New standing approval" }
            p.closed role="alert" hidden { "The question is no longer open. " a href="/" { "Back to the inbox" } }
            p { "This approves the call. Later calls that match this rule run without a question:" }
            pre.rule tabindex="0" { (visible_lines(&leave.to_rule_toml(now))) }
            h2 { "Past calls that match" }
            @if past.covered.is_empty() {
                p { "None of the last " (past.checked) " calls" (whose) "." }
            } @else {
                p { (past.covered.len()) " of the last " (past.checked) " calls" (whose) @if past.has_more { ", and there are older ones" } ":" }
                ul.plain {
                    @for call in past.covered.iter().take(PAST_MAX) {
                        li {
                            (format_utc(call.at)) " " a href={ "/log/" (call.call) } { (make_visible(&call.summary, EscapeLevel::Text)) }
                            @if let Some(said) = call.answer { " (" (said.description()) ")" }
                        }
                    }
                }
            }
            @if past.unreadable > 0 { p.hint { (past.unreadable) " calls could not be read." } }
            form.card method="post" action=(to(&sheet)) data-approves {
                (hidden(&visitor, &sheet, "standing-approval"))
                input type="hidden" name="scope" value=(chosen.scope);
                input type="hidden" name="lifetime_s" value=(chosen.lifetime_s);
                input type="hidden" name="uses" value=(chosen.uses);
                input type="hidden" name="sessions" value=(if everywhere { "all" } else { "session" });
                (words(&sheet))
                button.yes type="submit" { "Give this standing approval" }
                " " a href={ "/questions/" (question) } { "Back to the question" }
            }
        }
    };
    Ok(page(&visitor, "Give a standing approval", "/", &body))
}
