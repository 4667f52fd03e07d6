//! One answer to several questions, after all of them were shown.

use axum::extract::{RawQuery, State};
use axum::response::Html;
use byleave_gate::approver::RiskLevel;
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::id::QuestionId;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::{QuestionCard, render};
use maud::{Markup, html};
use uuid::Uuid;

use super::answer::{check_confirmation, check_read_time, digest};
use super::error_page::ErrorPage;
use super::form::{CsrfForm, FormFields};
use super::layout::{csrf_field, page};
use super::question_card;
use super::question_view::HeadingLevel;
use super::signed_in_user::SignedInUser;
use crate::api_types::AnswerChoice;
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::submit_answer;

/// The maximum number of questions with one answer. Nobody would read more.
const TOGETHER_MAX: usize = 20;

/// Shows all of them completely, one after the other.
pub(super) async fn show(
    State(_app): State<App>,
    visitor: SignedInUser,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Answer])?;
    let fields = FormFields::parse(query.unwrap_or_default().as_bytes());
    let sheets = sheets(&visitor, fields.all("question")).await?;
    for sheet in &sheets {
        visitor.session.mark_shown(sheet.question.id, sheet.question.digest());
    }
    let complete = sheets.iter().all(|sheet| render(sheet).complete);
    let gravest = sheets.iter().map(RiskLevel::for_question).max().unwrap_or(RiskLevel::Irreversible);
    let words = sheets
        .iter()
        .find_map(|sheet| RiskLevel::for_question(sheet).confirmation_phrase(sheet.question.kind));
    let body = html! {
        article data-dwell=(gravest.min_read_time().as_millis()) {
            h1 { (sheets.len()) " questions, one answer" }
            @for (place, sheet) in (1..).zip(&sheets) {
                section aria-label={ "Question " (place) } {
                    p.place { (place) " of " (sheets.len()) }
                    (question_card::card(sheet, &QuestionCard::new(sheet), HeadingLevel::Section, SystemClock.now()))
                    (question_card::details(sheet, &QuestionCard::new(sheet), HeadingLevel::Section))
                }
            }
            section.answers #answers aria-label="Your answer" {
                h2 { "Your answer to all of them" }
                @if complete {
                    form.card method="post" action="/answer-several" data-approves {
                        (hidden(&visitor, &sheets, "yes"))
                        @if let Some(words) = words {
                            label { "Type " strong { (words) } " to approve. This may be impossible to undo."
                                input type="text" name="confirm" required autocomplete="off" autocapitalize="off" data-typed; }
                        }
                        button.yes type="submit" data-key="y" { "Yes to all of them" kbd { "y" } }
                    }
                } @else {
                    p.wrong { "Some of these questions cannot be shown in full, so you cannot approve them together." }
                }
                form.card method="post" action="/answer-several" {
                    (hidden(&visitor, &sheets, "no"))
                    label for="feedback" { "What should the model do instead? The model sees this text. Optional." }
                    textarea #feedback name="feedback" rows="2" maxlength="4000" {}
                    button.no type="submit" data-key="n" { "No to all of them" kbd { "n" } }
                }
            }
        }
    };
    Ok(page(&visitor, "Several questions", "/", &body))
}

fn hidden(visitor: &SignedInUser, sheets: &[QuestionView], kind: &str) -> Markup {
    html! {
        (csrf_field(visitor))
        input type="hidden" name="answer" value=(kind);
        @for sheet in sheets {
            input type="hidden" name="question" value=(sheet.question.id);
            input type="hidden" name="digest" value=(sheet.question.digest());
        }
    }
}

/// Gives one answer to all of them, and lists those that can no longer be answered.
pub(super) async fn answer(form: CsrfForm) -> Result<Html<String>, ErrorPage> {
    let CsrfForm { user: visitor, fields } = form;
    visitor.require_scope(&[AccessScope::Answer])?;
    let sheets = sheets(&visitor, fields.all("question")).await?;
    let digests: Vec<_> = fields.all("digest").map(digest).collect::<Result<_, _>>()?;
    if digests.len() != sheets.len() {
        return Err(Problem::new(
            ProblemKind::Malformed,
            "the form has another number of digests than questions; open the page again",
        )
        .into());
    }
    let kind = fields.require("answer")?;
    let make = || match kind {
        "yes" => Ok(AnswerChoice::Yes { note: None, confirm: fields.text("confirm"), challenge: None }),
        "no" => Ok(AnswerChoice::No { feedback: fields.text("feedback") }),
        _ => {
            Err(Problem::new(ProblemKind::Unusable, "several questions can only be answered with yes or no"))
        }
    };
    // Checked first for all of them: a question that was not read stops all answers.
    for (sheet, digest) in sheets.iter().zip(&digests).filter(|_| kind == "yes") {
        check_read_time(&visitor, sheet, *digest)?;
        if RiskLevel::for_question(sheet).confirmation_phrase(sheet.question.kind).is_some() {
            check_confirmation(sheet, &fields)?;
        }
    }
    let mut came = Vec::new();
    for (sheet, digest) in sheets.iter().zip(&digests) {
        let answered =
            submit_answer::submit_answer(&visitor.caller, sheet.question.id, *digest, make()?).await;
        came.push((sheet, answered));
    }
    let body = html! {
        h1 { "Answered" }
        ul.plain {
            @for (sheet, answered) in &came {
                li {
                    a href={ "/log/" (sheet.call) } { (make_visible(&sheet.resolved_tool.tool, EscapeLevel::Name)) }
                    @match answered {
                        Ok(_) => { ": " (kind) },
                        Err(problem) => { ": not answered. " (problem.detail()) },
                    }
                }
            }
        }
        p { a href="/" { "Back to the inbox" } }
    };
    Ok(page(&visitor, "Answered", "/", &body))
}

async fn sheets<'a>(
    visitor: &SignedInUser,
    ids: impl Iterator<Item = &'a str>,
) -> Result<Vec<QuestionView>, Problem> {
    let mut known: Vec<QuestionId> = Vec::new();
    for id in ids {
        let id: Uuid = id.parse().map_err(|_| Problem::not_found("question"))?;
        let id = QuestionId::new(id);
        if !known.contains(&id) {
            known.push(id);
        }
    }
    if known.is_empty() || known.len() > TOGETHER_MAX {
        let what = format!("mark 1 to {TOGETHER_MAX} questions");
        return Err(Problem::new(ProblemKind::Unusable, what));
    }
    let mut sheets = Vec::new();
    for id in known {
        sheets.push(submit_answer::open_question_view(&visitor.caller, id).await?);
    }
    Ok(sheets)
}
