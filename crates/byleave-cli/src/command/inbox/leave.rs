//! Leaves as answers: the scopes to choose from, the rule that one amounts to, and the past calls that it would have covered.

use anyhow::Result;
use byleave::clock::fresh_id;
use byleave::core::id::LeaveId;
use byleave::core::leave::{Leave, NoLeave};
use byleave::core::offer::{Offer, offers, spares};
use byleave::core::pattern::Pattern;
use byleave::core::sheet::Sheet;
use byleave::past::{Past, Said, covered};
use byleave::settings::Settings;
use serde_json::{Value, json};

use super::digest::digest_of;
use crate::args::{Answer, Ask};
use crate::complaint::Complaint;
use crate::house::House;
use crate::ids::{self, short};
use crate::json;
use crate::options::Options;
use crate::scope;
use crate::screen::{Screen, Tone, many_lines, one_line, prose};
use crate::show::{counted, table};
use crate::status::Status;
use crate::time::{lasting, now, span};

/// So many past calls are listed for people; the rest is counted.
const SHOWN_MAX: usize = 20;

/// Lists what could be chosen, or shows what a leave would come to. Answers nothing.
pub(super) async fn look(
    id: &str,
    answer: &Answer,
    digest: Option<&str>,
    options: &Options,
    screen: &mut Screen,
) -> Result<Status> {
    let house = House::open_to_read(options, None)?;
    let question = ids::question(&house, id).await?;
    let gate = house.gate(options, &options.cwd, Ask::Inbox, Settings::default())?;
    let sheet = gate.sheet(question).await.map_err(Complaint::from)?;
    digest_of(&sheet.question, digest)?;
    if let Answer::Leave { offer: None, scope, .. } = answer
        && scope.is_empty()
    {
        list(&sheet, screen)?;
        return Ok(Status::Unusable);
    }
    let leave = typed(answer, &sheet)?;
    let now = now();
    let past = covered(&*house.book, &options.tenant, &leave, now).await?;
    let spared = spares(&sheet, &leave.scope);
    if screen.json() {
        let why = spared.err().map(|why| why.to_string());
        let leave = json::leave(&leave, now);
        screen.value(
            &json!({ "leave": leave, "spares_this_question": why.is_none(), "why_not": why, "past": past }),
        );
        return Ok(Status::Completed);
    }
    screen.text(&leave.rule(now));
    screen.line("");
    tell_past(&past, &leave, screen);
    tell_if_vain(&spared, screen);
    screen.hint("nothing was answered; the same without `--preview` gives it");
    Ok(Status::Completed)
}

/// The leave that was typed, about the call of this sheet.
pub(super) fn typed(answer: &Answer, sheet: &Sheet) -> Result<Leave> {
    let Answer::Leave { offer, scope, lasting: time, uses, this_session, .. } = answer else {
        return Err(Complaint::new("this is not a leave").into());
    };
    Ok(Leave {
        id: LeaveId::new(fresh_id()),
        tool: sheet.terms.tool.clone(),
        scope: match offer {
            Some(number) => offered(sheet, *number)?,
            None => scope.iter().map(|scope| scope::read(scope)).collect::<Result<_, _>>()?,
        },
        session: this_session.then(|| sheet.session.clone()),
        until: time.as_deref().map(lasting).transpose()?.map(|ms| now().saturating_add(ms)),
        uses_max: *uses,
    })
}

/// Says that a leave was given, and what it comes to.
pub(super) fn tell(leave: &Leave, sheet: &Sheet, screen: &mut Screen) {
    screen.say(&prose(&format!(
        "leave {} stands: within this, `{}` no longer asks",
        short(&leave.id),
        leave.tool
    )));
    for line in many_lines(&leave.rule(now())) {
        screen.say(&format!("  {line}"));
    }
    tell_if_vain(&spares(sheet, &leave.scope), screen);
}

/// A leave that spares nothing looks like one that does.
fn tell_if_vain(spared: &Result<(), NoLeave>, screen: &mut Screen) {
    if let Err(why) = spared {
        screen.toned(Tone::Careful, "note:", &prose(&format!("the same call will ask again: {why}")));
    }
}

fn list(sheet: &Sheet, screen: &mut Screen) -> Result<()> {
    let offers = offers(sheet).map_err(|why| vain(&why))?;
    if screen.json() {
        let numbered = offers.iter().zip(1..).map(|(offer, number): (&Offer, u32)| {
            let scope: Vec<String> = offer.scope.iter().map(scope::written).collect();
            json!({ "offer": number, "breadth": offer.breadth, "words": offer.words, "scope": scope })
        });
        let numbered: Vec<Value> = numbered.collect();
        screen.value(&json!({ "question": json::question(&sheet.question), "offers": numbered }));
    } else {
        let tool = one_line(&sheet.terms.tool);
        screen.line(&format!("choose what `{tool}` may do in future without asking:"));
        for (number, offer) in (1..).zip(&offers) {
            // Its words are made visible where they are made.
            screen.line(&format!("{number:>3}. {}", offer.words));
        }
    }
    let id = short(&sheet.question.id);
    screen.hint(&format!(
        "nothing was answered; take one with `byleave inbox answer {id} leave --offer N`, look at it first with `--preview`, \
         bound it with `--for`, `--uses` and `--this-session`, or write your own with `--scope`"
    ));
    Ok(())
}

fn offered(sheet: &Sheet, number: u32) -> Result<Vec<Pattern>> {
    let offers = offers(sheet).map_err(|why| vain(&why))?;
    let place = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let many = offers.len();
    let chosen = offers.into_iter().nth(place).ok_or_else(|| {
        Complaint::new(format!("there is no offer {number}; there are {many}"))
            .hint("the same with neither `--offer` nor `--scope` lists them")
    })?;
    Ok(chosen.scope)
}

fn vain(why: &NoLeave) -> Complaint {
    Complaint::new(format!("no leave would spare this question next time: {why}"))
        .hint("answer this one alone: yes, no, or edit")
}

fn tell_past(past: &Past, leave: &Leave, screen: &mut Screen) {
    let looked = counted(past.looked as u64, "past call");
    let tool = one_line(&leave.tool);
    screen.line(&format!("of {looked} of `{tool}` it would have covered {}", past.covered.len()));
    if past.more {
        screen.line(&format!("only the newest {} were looked at", past.looked_max));
    }
    if past.unreadable > 0 {
        screen.line(&format!("{} of them cannot be read any more", past.unreadable));
    }
    if past.covered.is_empty() {
        return;
    }
    let now = now();
    let rows = past.covered.iter().take(SHOWN_MAX).map(|one| {
        let unasked = if one.leave.is_some() { "by a leave" } else { "nobody was asked" };
        let said = one.said.map_or(unasked, |said| said.words());
        vec![
            short(&one.call),
            format!("{} ago", span(now.saturating_sub(one.at))),
            said.to_owned(),
            one_line(&one.summary),
        ]
    });
    table(screen, &["CALL", "WHEN", "ANSWERED", "WHAT"], &rows.collect::<Vec<_>>());
    let rest = past.covered.len().saturating_sub(SHOWN_MAX);
    if rest > 0 {
        // What someone said no to is worth more than its place in the list.
        let refused = past.covered.iter().skip(SHOWN_MAX).filter(|one| one.said == Some(Said::No)).count();
        screen.line(&format!("and {rest} more, {refused} of them answered NO; `--json` lists all"));
    }
}
