//! The inbox: open questions, updated live.

use std::collections::HashMap;

use axum::extract::State;
use axum::response::{Html, Redirect};
use byleave_gate::audit_log::{PageRequest, QuestionItem};
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::admin_action::AdminActionKind;
use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::id::QuestionId;
use byleave_gate::core::question::QuestionKind;
use byleave_gate::core::time_format::format_duration;
use maud::{Markup, html};

use super::error_page::ErrorPage;
use super::form::CsrfForm;
use super::layout::{csrf_field, page};
use super::signed_in_user::SignedInUser;
use super::text::ago;
use crate::api_types::check_length;
use crate::principal::AccessScope;
use crate::state::App;
use crate::submit_answer;

/// The maximum number of listed questions. Answer these first to see more.
pub(super) const LISTED_MAX: usize = 200;

/// The maximum number of questions whose cards are read for the list.
const SHORT_TEXTS_MAX: usize = 50;

/// Shows the open questions.
pub(super) async fn show(State(_app): State<App>, visitor: SignedInUser) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Answer, AccessScope::Read])?;
    let tenancy = &visitor.caller.tenant;
    let items =
        tenancy.audit_log.questions(tenancy.open_questions(), PageRequest::with_limit(LISTED_MAX)).await?;
    let texts = short_texts(&visitor, &items).await;
    let halted = tenancy.ledger.active_halt(tenancy.id()).await?;
    let why = halted.as_ref().map(|act| match &act.kind {
        AdminActionKind::Halt { reason: why } => format!("{} halted everything: {why}", act.actor),
        _ => format!("{} halted everything", act.actor),
    });
    let body = html! {
        h1 { "Inbox" }
        @if let Some(why) = &why { (halted_notice(&visitor, why)) }
        form #list method="get" action="/answer-several" data-live { (list(&items, &texts)) }
        details.keys {
            summary { "Keys" }
            p { kbd { "j" } " " kbd { "k" } " down and up, " kbd { "Enter" } " opens, " kbd { "x" } " marks. On a question: " kbd { "y" } " yes, " kbd { "n" } " no, "
                kbd { "a" } " don’t ask again, " kbd { "e" } " edit, " kbd { "p" } " only some, " kbd { "d" } " details, " kbd { "l" } " later, " kbd { "x" } " stop everything. A letter selects an answer, Enter sends it." }
        }
    };
    Ok(page(&visitor, "Inbox", "/", &body))
}

/// Returns the first questions in one line each, as their cards say it.
async fn short_texts(visitor: &SignedInUser, items: &[QuestionItem]) -> HashMap<QuestionId, String> {
    let mut texts = HashMap::new();
    for item in items.iter().take(SHORT_TEXTS_MAX) {
        if let Some(text) = submit_answer::short_text(&visitor.caller.tenant, item.question).await {
            texts.insert(item.question, text);
        }
    }
    texts
}

fn list(items: &[QuestionItem], texts: &HashMap<QuestionId, String>) -> Markup {
    let now = SystemClock.now();
    html! {
        p.count { @match items.len() {
            0 => "No open questions.",
            1 => "One open question.",
            LISTED_MAX => { "The newest " (LISTED_MAX) " questions; there may be more." },
            many => { (many) " open questions." }
        } }
        @if !items.is_empty() {
            ul.questions {
                @for item in items { (entry(item, texts.get(&item.question), now)) }
            }
            button type="submit" { "Answer the marked questions together" }
        }
    }
}

fn entry(item: &QuestionItem, text: Option<&String>, now: u64) -> Markup {
    let tool = make_visible(&item.call_summary.tool, EscapeLevel::Name);
    let summary = make_visible(&item.call_summary.summary, EscapeLevel::Text);
    // The text of a card is escaped where it is made.
    let text = text.cloned().unwrap_or_else(|| format!("{tool}  {summary}"));
    let is_grave = text.starts_with('⚠');
    let kind = match item.kind {
        QuestionKind::Approval => "",
        QuestionKind::Checkpoint => "checkpoint",
        QuestionKind::Release => "result",
    };
    html! {
        li.grave[is_grave] data-id=(item.question) {
            input type="checkbox" name="question" value=(item.question) aria-label={ "Mark " (text) };
            a href={ "/questions/" (item.question) } {
                @if !kind.is_empty() { span.kind { (kind) } " " }
                span.summary { (text) }
                span.about { (make_visible(&item.call_summary.agent, EscapeLevel::Name)) ", " (ago(item.asked_at, now)) ", " (format_duration(item.expires_at.saturating_sub(now))) " left" }
            }
        }
    }
}

fn halted_notice(visitor: &SignedInUser, why: &str) -> Markup {
    html! {
        div.halted role="alert" {
            p { (make_visible(why, EscapeLevel::Text)) }
            @if visitor.has(AccessScope::Administer) {
                form method="post" action="/lift" { (csrf_field(visitor)) button type="submit" { "Lift the halt" } }
            }
        }
    }
}

/// Halts all calls.
pub(super) async fn halt(form: CsrfForm) -> Result<Redirect, ErrorPage> {
    let CsrfForm { user: visitor, fields } = form;
    visitor.require_scope(&[AccessScope::Administer])?;
    let why = fields.require("reason")?;
    check_length("reason", why, 1, 1_000)?;
    let tenancy = &visitor.caller.tenant;
    tenancy.gate.halt(tenancy.id(), visitor.caller.name(), why).await?;
    Ok(Redirect::to("/"))
}

/// Lifts a halt.
pub(super) async fn lift(form: CsrfForm) -> Result<Redirect, ErrorPage> {
    let visitor = form.user;
    visitor.require_scope(&[AccessScope::Administer])?;
    let tenancy = &visitor.caller.tenant;
    tenancy.gate.lift(tenancy.id(), visitor.caller.name()).await?;
    Ok(Redirect::to("/"))
}
