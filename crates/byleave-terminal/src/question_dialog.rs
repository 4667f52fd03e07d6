//! One question, or several that get one answer. Keys and times go in, a drawing and an answer come out.
//!
//! It first shows the card of the question ([`QuestionCard`]). `d` shows the details: the whole page.
//!
//! Pure: it reads no terminal and no clock. A yes requires that the end of the card was on the screen and that the key guard accepted
//! the key. If the card alone is not enough, the end of the details must have been on the screen. For an irreversible call a yes also
//! requires the typed words.

mod challenge;
mod draw;
mod edit;
mod partial;
mod result;
mod standing_approval;

use std::time::Duration;

use byleave_core::approval_scopes::ApprovalScope;
use byleave_core::call::Millis;
use byleave_core::challenge::Challenge;
use byleave_core::question::QuestionKind;
use byleave_core::question_view::{QuestionView, RehearsalView};
use byleave_core::render::{LineRole, QuestionCard, QuestionClass, RenderLine, Rendering, render};
use byleave_core::standing_approval::StandingApproval;
use byleave_gate::approver::{Reply, RiskLevel};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::key_guard::{KeyDecision, KeyGuard};
use crate::keys::KeyPress;
use crate::palette::Palette;
use crate::scroll_view::QuestionPager;
use crate::text_input::TextField;

pub use challenge::ChallengeForm;
pub use edit::ValueEditor;
pub use partial::ChangeSelection;
pub use result::ResultEditor;
pub use standing_approval::StandingApprovalForm;
pub(crate) use standing_approval::offered_scopes;

/// Why several questions cannot be approved together.
const ALONE: &str = "one of them needs the case against it; answer it alone";

/// The result of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum DialogEvent {
    /// Nothing that concerns the caller.
    Stay,
    /// The answer.
    Reply(Reply),
    /// The person wants to change this text in their own editor. [`QuestionDialog::set_edited_text`] takes it back.
    Editor(String),
    /// The person considers this standing approval. [`QuestionDialog::set_covered_calls`] takes the past calls that it would have covered.
    PreviewApproval(StandingApproval),
    /// The person wants to undo the last change.
    Undo,
    /// The person leaves the question open.
    Back,
}

/// The settings of a dialog.
#[derive(Clone, Debug)]
pub struct DialogSettings {
    /// The colours.
    pub palette: Palette,
    /// How long a question must be looked at, in percent of the usual time. Never less than 100.
    pub min_read_time_percent: u32,
    /// The person can leave the question and keep it open.
    pub can_go_back: bool,
    /// The person can leave the question open for a later answer, although there is nothing to go back to.
    pub can_answer_later: bool,
    /// The person opened this screen to answer questions, so one key answers what is not grave.
    pub has_one_key_answers: bool,
    /// A description of the change that an undo would revert, if there is one.
    pub undo: Option<String>,
    /// The current time, for standing approvals that expire.
    pub now: Millis,
}

/// One question, or several that get one answer.
pub struct QuestionDialog {
    sheets: Vec<QuestionView>,
    setting: DialogSettings,
    gravity: RiskLevel,
    is_complete: bool,
    class: QuestionClass,
    /// Nothing that matters is folded on the card.
    is_card_enough: bool,
    card: QuestionPager,
    details: QuestionPager,
    page: DialogPage,
    guard: KeyGuard,
    stage: DialogMode,
    /// A remark about the last key.
    said: Option<String>,
    /// The part below the question did not fit when it was last drawn.
    is_foot_cut: bool,
    offered: Result<Vec<ApprovalScope>, String>,
    /// The time until which the agent waits for the answer.
    agent_waits_until: Option<Millis>,
    /// The time that is shown is that of the agent.
    is_agent_waiting: bool,
}

/// What is on the screen. `d` goes from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialogPage {
    /// What a person needs to answer in a few seconds.
    Card,
    /// The whole page, without ids and digests.
    Details,
    /// The whole page with ids and digests.
    DetailsWithIds,
}

/// The activity of the person in the dialog.
enum DialogMode {
    /// Reading and choosing.
    Reading,
    /// Typing a no with feedback.
    Feedback(TextField),
    /// Typing the words that a yes needs.
    Words(TextField),
    /// Making the case against the call, which a yes needs.
    Challenge(ChallengeForm),
    /// Changing the arguments or the result.
    Edit(ValueEditor),
    /// Writing the result in the place of the tool.
    Result(ResultEditor),
    /// Considering a standing approval.
    Leave(StandingApprovalForm),
    /// Choosing the changes to keep.
    Parts(ChangeSelection),
    /// Naming words to mask in a result.
    Mask(TextField),
}

/// A letter that can be chosen, and its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialogChoice {
    /// The letter.
    pub key: char,
    /// The name of the choice.
    pub name: &'static str,
    /// The effect of the choice.
    pub meaning: String,
    /// Why it cannot be chosen, if so.
    pub disabled_reason: Option<&'static str>,
}

impl QuestionDialog {
    /// Creates a dialog about one question or several. Several are shown one after the other, each whole.
    ///
    /// The caller works out which standing approvals could be given.
    pub fn new(
        sheets: Vec<QuestionView>,
        offered: Result<Vec<ApprovalScope>, String>,
        setting: DialogSettings,
    ) -> Self {
        let details = together(&sheets, render);
        let card = together(&sheets, |sheet| QuestionCard::new(sheet).to_rendering());
        let cards: Vec<QuestionCard> = sheets.iter().map(QuestionCard::new).collect();
        // A held result is what the question is about, so it is shown at once.
        let is_release = |sheet: &QuestionView| sheet.question.kind == QuestionKind::Release;
        let page = if sheets.iter().any(is_release) { DialogPage::Details } else { DialogPage::Card };
        let gravity = sheets.iter().map(RiskLevel::for_question).max().unwrap_or(RiskLevel::Irreversible);
        Self {
            guard: KeyGuard::new(gravity.min_read_time() * setting.min_read_time_percent.max(100) / 100),
            is_complete: details.complete && card.complete && !sheets.is_empty(),
            class: cards.iter().map(|card| card.class).max().unwrap_or(QuestionClass::Grave),
            is_card_enough: cards.iter().all(|card| card.is_enough),
            card: QuestionPager::new(&card),
            details: QuestionPager::new(&details),
            page,
            gravity,
            sheets,
            setting,
            stage: DialogMode::Reading,
            said: None,
            is_foot_cut: false,
            offered,
            agent_waits_until: None,
            is_agent_waiting: false,
        }
    }

    /// Returns the page on the screen.
    const fn view(&self) -> &QuestionPager {
        match self.page {
            DialogPage::Card => &self.card,
            DialogPage::Details | DialogPage::DetailsWithIds => &self.details,
        }
    }

    const fn view_mut(&mut self) -> &mut QuestionPager {
        match self.page {
            DialogPage::Card => &mut self.card,
            DialogPage::Details | DialogPage::DetailsWithIds => &mut self.details,
        }
    }

    /// Goes to the next page: the details, then with ids, then the card again.
    fn turn_page(&mut self) {
        match self.page {
            DialogPage::Card => self.page = DialogPage::Details,
            DialogPage::Details => {
                self.page = DialogPage::DetailsWithIds;
                self.details.toggle_details();
            }
            DialogPage::DetailsWithIds => {
                self.details.toggle_details();
                self.page = DialogPage::Card;
            }
        }
    }

    /// Returns what a person must still look at before a yes, if anything.
    const fn unread(&self) -> Option<&'static str> {
        const UNSEEN: &str = "scroll to the end first";
        if !self.is_complete {
            return Some("the question cannot be shown in full");
        }
        if self.details.has_reached_end() || self.is_card_enough && self.card.has_reached_end() {
            return None;
        }
        if self.view().is_cut() {
            return Some("the window is too narrow to show the question");
        }
        match self.page {
            DialogPage::Card if !self.is_card_enough => Some("read the details first: press d"),
            _ => Some(UNSEEN),
        }
    }

    /// Returns the question views of the dialog.
    pub fn sheets(&self) -> &[QuestionView] {
        &self.sheets
    }

    /// Checks whether the person is typing into a field rather than reading.
    pub const fn is_typing(&self) -> bool {
        !matches!(self.stage, DialogMode::Reading)
    }

    /// Sets the time until which the agent waits for the answer.
    pub const fn set_agent_deadline(&mut self, until: Option<Millis>) {
        self.agent_waits_until = until;
    }

    /// Returns the time that is left: as long as the agent waits, and then as long as the question can be answered.
    pub fn time_left(&mut self, time: Millis) -> Duration {
        let until = self.agent_waits_until.filter(|until| *until > time && *until < self.expires_at());
        self.is_agent_waiting = until.is_some();
        Duration::from_millis(until.unwrap_or_else(|| self.expires_at()).saturating_sub(time))
    }

    /// Returns the time until which the question can be answered.
    pub fn expires_at(&self) -> Millis {
        self.sheets.iter().map(|sheet| sheet.question.expires_at).min().unwrap_or(0)
    }

    /// Returns the number of rows that the dialog would like to have.
    pub fn height(&mut self, columns: u16) -> usize {
        self.view_mut().rows(columns).saturating_add(self.foot_rows(columns)).saturating_add(1)
    }

    /// Draws the dialog with this much time left, and returns the position of the cursor.
    pub fn draw(
        &mut self,
        area: Rect,
        buf: &mut Buffer,
        now: Duration,
        left: Option<Duration>,
    ) -> Option<Position> {
        let cursor = draw::draw(self, area, buf, now, left);
        self.guard.drawn(now);
        cursor
    }

    /// Takes keys that were pressed before the dialog was on the screen. They answer nothing, but show whether somebody is in the
    /// middle of a line.
    pub fn note_typed_ahead(&mut self, now: Duration, keys: &[KeyPress]) {
        for key in keys {
            match key {
                KeyPress::Char(c) => drop(self.guard.typed(now, *c, false)),
                KeyPress::Enter => drop(self.guard.enter(now)),
                KeyPress::Escape => self.guard.clear(),
                KeyPress::Backspace => self.guard.erased(now),
                KeyPress::Paste(_) => self.guard.pasted(now),
                _ => continue,
            }
            self.guard.note_interrupted_typing(now, Duration::ZERO);
        }
    }

    /// Returns how long ago a key was typed here. If the question was not answered, pass it to [`QuestionDialog::note_interrupted_typing`] of the
    /// next one.
    pub fn time_since_typing(&self, now: Duration) -> Option<Duration> {
        self.guard.time_since_typing(now)
    }

    /// Notes that somebody typed at the previous, unanswered question this long ago.
    pub fn note_interrupted_typing(&mut self, now: Duration, ago: Duration) {
        self.guard.note_interrupted_typing(now, ago);
    }

    /// Handles a key.
    pub fn key(&mut self, now: Duration, key: &KeyPress) -> DialogEvent {
        self.said = None;
        if self.is_typing() {
            self.guard.wrote_at(now);
        }
        match &mut self.stage {
            DialogMode::Reading => self.read(now, key),
            DialogMode::Feedback(field) => match key {
                KeyPress::Enter => {
                    let text = field.text().trim().to_owned();
                    DialogEvent::Reply(Reply::No { feedback: (!text.is_empty()).then_some(text) })
                }
                _ => self.typed(key),
            },
            DialogMode::Words(field) => match key {
                KeyPress::Paste(_) => self.say("type the words; pasted text is not accepted"),
                KeyPress::Enter if Some(field.text().as_str()) == self.words() => self.approve(),
                KeyPress::Enter => {
                    self.stage = DialogMode::Reading;
                    self.say("the words do not match; the question was not answered")
                }
                _ => self.typed(key),
            },
            DialogMode::Mask(field) => match key {
                KeyPress::Enter => {
                    let words = field.text();
                    self.masked(&words)
                }
                _ => self.typed(key),
            },
            DialogMode::Challenge(form) => match form.key(key) {
                challenge::ChallengeFormEvent::Nothing => DialogEvent::Stay,
                challenge::ChallengeFormEvent::Back => self.back(),
                challenge::ChallengeFormEvent::Empty => self.say("the case needs this; Esc goes back"),
                challenge::ChallengeFormEvent::Made(challenge) => self.yes(Some(challenge)),
            },
            DialogMode::Edit(edit) => match edit.key(key) {
                edit::ValueEditorEvent::Nothing => DialogEvent::Stay,
                edit::ValueEditorEvent::Back => self.back(),
                edit::ValueEditorEvent::Editor(text) => DialogEvent::Editor(text),
                edit::ValueEditorEvent::Value(value) => DialogEvent::Reply(Reply::Edit { value, note: None }),
            },
            DialogMode::Result(editor) => match editor.key(key) {
                result::ResultEditorEvent::Nothing => DialogEvent::Stay,
                result::ResultEditorEvent::Back => self.back(),
                result::ResultEditorEvent::Empty => self.say("the result is empty; Esc goes back"),
                result::ResultEditorEvent::Editor(text) => DialogEvent::Editor(text),
                result::ResultEditorEvent::Text(text) => DialogEvent::Reply(Reply::Result { text }),
            },
            // A standing approval is given only if it is fully shown.
            DialogMode::Leave(_) if *key == KeyPress::Enter && self.is_foot_cut => {
                self.say("the window is too small to show the scope of the standing approval; make it larger")
            }
            DialogMode::Leave(form) => match form.key(key) {
                standing_approval::ApprovalFormEvent::Nothing => DialogEvent::Stay,
                standing_approval::ApprovalFormEvent::Back => self.back(),
                standing_approval::ApprovalFormEvent::ApprovalChanged(leave) => {
                    DialogEvent::PreviewApproval(leave)
                }
                standing_approval::ApprovalFormEvent::Granted(leave) => {
                    DialogEvent::Reply(Reply::StandingApproval(leave))
                }
            },
            DialogMode::Parts(parts) => match parts.key(key) {
                partial::ChangeSelectionEvent::Nothing => DialogEvent::Stay,
                partial::ChangeSelectionEvent::Back => self.back(),
                partial::ChangeSelectionEvent::Chosen(paths) => {
                    DialogEvent::Reply(Reply::Partial { paths, note: None })
                }
            },
        }
    }

    /// Takes the text from the person's editor, or the reason why there is none.
    pub fn set_edited_text(&mut self, text: Result<String, String>) {
        match (&mut self.stage, text) {
            (DialogMode::Edit(edit), Ok(text)) => edit.replace(&text),
            (DialogMode::Result(editor), Ok(text)) => editor.replace(&text),
            (_, Err(why)) => self.said = Some(why),
            (_, Ok(_)) => {}
        }
    }

    /// Takes the past calls that the standing approval in the form would have covered.
    pub fn set_covered_calls(&mut self, words: Vec<String>) {
        if let DialogMode::Leave(form) = &mut self.stage {
            form.set_covered_calls(words);
        }
    }

    /// Shows a remark beside the keys.
    pub fn show_message(&mut self, text: impl Into<String>) {
        self.said = Some(text.into());
    }

    /// Returns all choices, with the reason if one is unavailable.
    pub fn choices(&self) -> Vec<DialogChoice> {
        let is_alone_needed = self.is_complete && self.is_several_with_challenge();
        let approving = if is_alone_needed { Some(ALONE) } else { self.unread() };
        let choice = |key, name, meaning: &str, off| DialogChoice {
            key,
            name,
            meaning: meaning.to_owned(),
            disabled_reason: off,
        };
        let one = self.only();
        let kind = one.map(|sheet| sheet.question.kind);
        if kind == Some(QuestionKind::Release) {
            return vec![
                choice('y', "release", "the model sees the result as it is", approving),
                choice(
                    'r',
                    "redact",
                    "the model sees the result with secrets and your words masked",
                    approving,
                ),
                choice('e', "edit", "the model sees your edited result", None),
                choice('n', "withhold", "the model does not see the result", None),
            ]
            .into_iter()
            .chain(self.closing_choices())
            .collect();
        }
        let yes = match self.stands() {
            true => "applies exactly these changes; you can undo them",
            false => "runs the call",
        };
        let mut choices = vec![
            choice('y', "yes", yes, approving),
            choice('n', "no", "refuses the call, with your reason", None),
        ];
        if let Some(sheet) = one {
            let off = match (&self.offered, kind) {
                (_, Some(QuestionKind::Checkpoint)) => Some("a standing approval cannot pass a checkpoint"),
                (Err(_), _) => Some("a standing approval is not possible for this call"),
                _ if sheet.needs_challenge() => Some("a yes needs the case against the call"),
                (Ok(offers), _) if offers.is_empty() => {
                    Some("a standing approval is not possible for this call")
                }
                (Ok(_), _) => approving,
            };
            let narrowest = self.offered.as_ref().ok().and_then(|offers| offers.first());
            let meaning = narrowest.map_or_else(
                || "yes, and later calls within limits that you choose".to_owned(),
                |offer| format!("yes, and for an hour also: {}", offer.description),
            );
            choices.push(choice('a', "don't ask again", &meaning, off));
            choices.push(choice('e', "edit", "changes the arguments; the policy decides again", None));
            let changes = |seen: &RehearsalView| match seen {
                RehearsalView::Ran { rehearsal, .. } => {
                    rehearsal.is_committable() && rehearsal.changes.list.len() > 1
                }
                RehearsalView::Unavailable { .. } => false,
            };
            if sheet.rehearsal.as_ref().is_some_and(changes) {
                let off = if sheet.needs_challenge() {
                    Some("a yes needs the case against the call")
                } else {
                    approving
                };
                choices.push(choice('p', "only some", "applies some of the changes", off));
            }
            if kind == Some(QuestionKind::Approval) {
                choices.push(choice(
                    'r',
                    "result",
                    "the model gets your result; the tool does not run",
                    None,
                ));
            }
        }
        choices.extend(self.closing_choices());
        choices
    }

    /// Returns the choices at the end: undo, later and abort.
    fn closing_choices(&self) -> Vec<DialogChoice> {
        let choice = |key, name, meaning: &str| DialogChoice {
            key,
            name,
            meaning: meaning.to_owned(),
            disabled_reason: None,
        };
        let mut choices = Vec::new();
        if let Some(undo) = &self.setting.undo {
            choices.push(choice('u', "undo", &format!("undoes {undo}; this question stays open")));
        }
        if self.setting.can_go_back || self.setting.can_answer_later {
            choices.push(choice('l', "later", "leaves the question open"));
        }
        choices.push(choice('x', "abort", "stops everything"));
        choices
    }

    fn is_several_with_challenge(&self) -> bool {
        self.only().is_none() && self.sheets.iter().any(QuestionView::needs_challenge)
    }

    /// Checks whether a letter needs no Enter: the person opened this screen to answer, and the letter only opens something, or says
    /// yes to what is not grave.
    fn needs_no_enter(&self, letter: char) -> bool {
        self.setting.has_one_key_answers
            && match letter {
                'y' => self.class != QuestionClass::Grave,
                'x' | 'u' => false,
                _ => true,
            }
    }

    fn only(&self) -> Option<&QuestionView> {
        match self.sheets.as_slice() {
            [sheet] => Some(sheet),
            _ => None,
        }
    }

    fn stands(&self) -> bool {
        let stands = |sheet: &QuestionView| matches!(&sheet.rehearsal, Some(RehearsalView::Ran { rehearsal, .. }) if rehearsal.is_committable());
        !self.sheets.is_empty() && self.sheets.iter().all(stands)
    }

    /// Returns the words that a yes needs, if a key is not enough.
    fn words(&self) -> Option<&'static str> {
        self.sheets
            .iter()
            .find_map(|sheet| RiskLevel::for_question(sheet).confirmation_phrase(sheet.question.kind))
    }

    fn read(&mut self, now: Duration, key: &KeyPress) -> DialogEvent {
        match key {
            KeyPress::Paste(_) => {
                self.guard.pasted(now);
                return self.say("pasted text is not accepted as an answer; press a key");
            }
            KeyPress::Escape => {
                let was_choosing = self.guard.chosen().is_some() || self.guard.is_running();
                self.guard.clear();
                if !was_choosing && self.setting.can_go_back {
                    return DialogEvent::Back;
                }
            }
            KeyPress::Backspace => self.guard.erased(now),
            KeyPress::Char(' ') if self.guard.chosen().is_none() && !self.guard.is_running() => {
                self.guard.scrolled(now);
                self.view_mut().key(key);
            }
            KeyPress::Char('d') if self.guard.accepts_view_key(now) => self.turn_page(),
            KeyPress::Char(c) => {
                let choice = self.choices().into_iter().find(|choice| choice.key == *c);
                let heard = self.guard.typed(now, *c, choice.is_some());
                if let (KeyDecision::Chosen(_), Some(off)) =
                    (heard, choice.and_then(|choice| choice.disabled_reason))
                {
                    self.guard.clear();
                    return match (*c, &self.offered) {
                        ('a', Err(why)) => self.say(why.clone()),
                        _ => self.say(off),
                    };
                }
                if heard == KeyDecision::Chosen(*c)
                    && self.needs_no_enter(*c)
                    && let KeyDecision::Confirmed(c) = self.guard.enter(now)
                {
                    return self.chosen(c);
                }
            }
            KeyPress::Enter => {
                if let KeyDecision::Confirmed(c) = self.guard.enter(now) {
                    return self.chosen(c);
                }
            }
            _ => {
                self.view_mut().key(key);
            }
        }
        DialogEvent::Stay
    }

    /// Performs a confirmed choice, which may have become unavailable since.
    fn chosen(&mut self, c: char) -> DialogEvent {
        let Some(choice) = self.choices().into_iter().find(|choice| choice.key == c) else {
            return DialogEvent::Stay;
        };
        if let Some(off) = choice.disabled_reason {
            return self.say(off);
        }
        let is_release = self.only().is_some_and(|sheet| sheet.question.kind == QuestionKind::Release);
        match c {
            'y' if self.words().is_some() => self.stage = DialogMode::Words(TextField::line()),
            'y' => return self.approve(),
            'n' => self.stage = DialogMode::Feedback(TextField::line()),
            'r' if is_release => self.stage = DialogMode::Mask(TextField::line()),
            'r' => self.stage = DialogMode::Result(ResultEditor::new()),
            'x' => return DialogEvent::Reply(Reply::Abort),
            'l' => return DialogEvent::Back,
            'u' => return DialogEvent::Undo,
            'e' => {
                if let Some(edit) = self.only().map(ValueEditor::for_question) {
                    self.stage = DialogMode::Edit(edit);
                }
            }
            'p' => {
                if let Some(parts) = self.only().and_then(ChangeSelection::for_question) {
                    self.stage = DialogMode::Parts(parts);
                }
            }
            'a' => {
                let form = match (self.only(), &self.offered) {
                    (Some(sheet), Ok(offers)) => {
                        StandingApprovalForm::new(sheet, offers.clone(), self.setting.now)
                    }
                    _ => None,
                };
                if let Some(form) = form {
                    let leave = form.standing_approval();
                    self.stage = DialogMode::Leave(form);
                    return DialogEvent::PreviewApproval(leave);
                }
            }
            _ => {}
        }
        DialogEvent::Stay
    }

    /// Approves, or first asks for the case against the call.
    fn approve(&mut self) -> DialogEvent {
        if self.sheets.iter().any(QuestionView::needs_challenge) {
            self.stage = DialogMode::Challenge(ChallengeForm::new());
            return DialogEvent::Stay;
        }
        self.yes(None)
    }

    fn yes(&self, challenge: Option<Challenge>) -> DialogEvent {
        // The only place where a yes is made. On every path here, the person must have been able to see everything.
        if self.unread().is_some() {
            return DialogEvent::Stay;
        }
        DialogEvent::Reply(match challenge {
            None => Reply::Yes { note: None },
            Some(challenge) => Reply::YesWithChallenge { challenge, note: None },
        })
    }

    /// Returns the result as an edit, with secrets and named words masked.
    fn masked(&mut self, words: &str) -> DialogEvent {
        let Some(output) = self.only().and_then(|sheet| sheet.output.clone()) else {
            return DialogEvent::Stay;
        };
        match edit::mask_output(&output, words) {
            Ok(value) => DialogEvent::Reply(Reply::Edit { value, note: None }),
            Err(why) => self.say(why),
        }
    }

    fn typed(&mut self, key: &KeyPress) -> DialogEvent {
        if *key == KeyPress::Escape {
            return self.back();
        }
        if let DialogMode::Feedback(field) | DialogMode::Words(field) | DialogMode::Mask(field) =
            &mut self.stage
        {
            field.key(key);
        }
        DialogEvent::Stay
    }

    fn back(&mut self) -> DialogEvent {
        self.stage = DialogMode::Reading;
        DialogEvent::Stay
    }

    fn say(&mut self, text: impl Into<String>) -> DialogEvent {
        self.said = Some(text.into());
        DialogEvent::Stay
    }
}

/// Renders several questions on one page, each whole and behind a numbered line.
fn together(sheets: &[QuestionView], draw: impl Fn(&QuestionView) -> Rendering) -> Rendering {
    if let [sheet] = sheets {
        return draw(sheet);
    }
    let mut all = Rendering { lines: Vec::new(), complete: true };
    for (sheet, place) in sheets.iter().zip(1..) {
        let one = draw(sheet);
        let text = format!("═══ {place} of {} ═══", sheets.len());
        all.lines.push(RenderLine { role: LineRole::Title, text, gutter: 0 });
        all.lines.extend(one.lines);
        all.complete &= one.complete;
    }
    all
}
