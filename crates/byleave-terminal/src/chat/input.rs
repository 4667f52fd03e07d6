//! Handles keys: for the input field, for an overlay, or for a question.

use std::time::Duration;

use byleave_core::call::Millis;

use super::slash_commands::{self, ChatInput, SlashCommand};
use super::transcript::TranscriptEntry;
use super::{Chat, ChatAction, ChatStatusBar, QueuedQuestion, SecondPressAction, overlays};
use crate::keys::KeyPress;
use crate::question_dialog::DialogEvent;
use crate::text_input::TextField;

impl Chat {
    /// Handles a key.
    pub fn key(&mut self, now: Duration, time: Millis, key: &KeyPress) -> ChatAction {
        self.told = None;
        if self.dialogue.is_some() && !self.is_away {
            return self.answering(now, time, key);
        }
        if !key.moves() && !matches!(key, KeyPress::Tab | KeyPress::Escape) {
            self.typed = Some(now);
            if now < self.deaf_until {
                return ChatAction::Nothing;
            }
        }
        if let Some(page) = &mut self.page {
            if page.key(key) {
                self.page = None;
            }
            return ChatAction::Nothing;
        }
        if let Some(picker) = &mut self.picker {
            return match picker.key(key) {
                overlays::PickerEvent::Nothing => ChatAction::Nothing,
                overlays::PickerEvent::Back => self.unpicked(),
                overlays::PickerEvent::Picked(key) => self.picked(key),
            };
        }
        let armed = self.armed.take();
        match key {
            KeyPress::Tab if self.dialogue.is_some() => self.show_question(now),
            KeyPress::Tab => self.complete(),
            KeyPress::Enter => return self.enter(armed),
            KeyPress::AltEnter => drop(self.field.key(&KeyPress::Enter)),
            KeyPress::Escape => return self.escape(armed),
            KeyPress::PageUp | KeyPress::PageDown => self.scroll.key(key),
            KeyPress::Control('o') => self.scroll.unfold(),
            KeyPress::Control('g') => return ChatAction::Editor(self.field.text()),
            KeyPress::Control('d') if self.field.is_empty() => return self.leave(armed),
            KeyPress::Up if !self.field.text().contains('\n') => self.recall(true),
            KeyPress::Down if self.recalled.is_some() => self.recall(false),
            key => {
                self.recalled = None;
                self.field.key(key);
            }
        }
        ChatAction::Nothing
    }

    fn show_question(&mut self, now: Duration) {
        self.is_away = false;
        self.amid(now);
    }

    fn answering(&mut self, now: Duration, time: Millis, key: &KeyPress) -> ChatAction {
        let Some(dialogue) = &mut self.dialogue else { return ChatAction::Nothing };
        match dialogue.key(now, key) {
            DialogEvent::Stay => ChatAction::Nothing,
            DialogEvent::Back => {
                self.is_away = true;
                ChatAction::Nothing
            }
            DialogEvent::Editor(text) => ChatAction::Editor(text),
            DialogEvent::PreviewApproval(leave) => ChatAction::PreviewApproval(leave),
            DialogEvent::Undo => ChatAction::Undo,
            DialogEvent::Reply(reply) => {
                self.dialogue = None;
                let Some(QueuedQuestion { sheet, .. }) = self.questions.pop_front() else {
                    return ChatAction::Nothing;
                };
                self.scroll.set_waiting(sheet.call, false);
                self.open(now, time);
                ChatAction::Answer(sheet.question.id, reply)
            }
        }
    }

    fn enter(&mut self, armed: Option<SecondPressAction>) -> ChatAction {
        let text = self.field.text();
        if let Some(line) = text.strip_suffix('\\') {
            self.field = TextField::long_at_end(&format!("{line}\n"));
            return ChatAction::Nothing;
        }
        match slash_commands::parse_input(&text) {
            ChatInput::Nothing => return ChatAction::Nothing,
            ChatInput::Unknown(why) => {
                self.told = Some(why);
                return ChatAction::Nothing;
            }
            ChatInput::Command(SlashCommand::Quit) => {
                let act = self.leave(armed);
                // The text in the field shows what the second Enter confirms.
                if act == ChatAction::Quit {
                    self.clear();
                }
                return act;
            }
            ChatInput::Command(SlashCommand::Help) => self.page("Chat help", &slash_commands::help()),
            ChatInput::Command(order) => {
                if order.requires_idle() && self.is_working() {
                    self.told = Some("the model is working; press Esc twice to stop it first".to_owned());
                    return ChatAction::Nothing;
                }
                self.clear();
                return ChatAction::SlashCommand(order);
            }
            ChatInput::Message(word) => {
                self.clear();
                self.scroll.follow();
                if self.is_working() {
                    self.queue_message(word);
                    return ChatAction::Nothing;
                }
                self.said.push(word.clone());
                self.scroll.push(TranscriptEntry::Person(word.clone()));
                return ChatAction::SendMessage(word);
            }
        }
        self.clear();
        ChatAction::Nothing
    }

    fn clear(&mut self) {
        self.field = TextField::long("");
        self.recalled = None;
    }

    fn escape(&mut self, armed: Option<SecondPressAction>) -> ChatAction {
        if !self.field.is_empty() && !self.is_working() {
            self.clear();
        } else if self.field.is_empty()
            && let Some(next) = self.next.pop_back()
        {
            // The message was not sent yet, so it can still be changed.
            self.field = TextField::long_at_end(&next);
        } else if self.is_working() && armed == Some(SecondPressAction::CallOff) {
            return ChatAction::CancelWork;
        } else if self.is_working() {
            self.armed = Some(SecondPressAction::CallOff);
            self.told = Some("press Esc again to stop the model".to_owned());
        } else {
            self.scroll.follow();
        }
        ChatAction::Nothing
    }

    fn leave(&mut self, armed: Option<SecondPressAction>) -> ChatAction {
        if !self.is_working() || armed == Some(SecondPressAction::Quit) {
            return ChatAction::Quit;
        }
        self.armed = Some(SecondPressAction::Quit);
        self.told = Some("the model is working; repeat to stop it and quit".to_owned());
        ChatAction::Nothing
    }

    fn complete(&mut self) {
        if let Some(name) = slash_commands::complete_command(&self.field.text()) {
            self.field = TextField::long_at_end(&name);
        }
    }

    fn recall(&mut self, back: bool) {
        // Do not discard text that is being written.
        if self.recalled.is_none() && !self.field.is_empty() {
            return;
        }
        let last = self.said.len();
        let place = match (self.recalled.unwrap_or(last), back) {
            (place, true) => place.saturating_sub(1),
            (place, false) => place + 1,
        };
        self.recalled = (place < last).then_some(place);
        let text = self.said.get(place).map_or("", String::as_str);
        self.field = TextField::long_at_end(text);
    }

    /// Checks whether a conversation is open. Until then the list stays, because the chosen conversation may not be available.
    fn is_open(&self) -> bool {
        self.heading != ChatStatusBar::default()
    }

    fn unpicked(&mut self) -> ChatAction {
        if !self.is_open() {
            return ChatAction::SlashCommand(SlashCommand::New);
        }
        self.picker = None;
        ChatAction::Nothing
    }

    fn picked(&mut self, key: String) -> ChatAction {
        if self.is_open() {
            self.picker = None;
        }
        ChatAction::Open(key)
    }
}
