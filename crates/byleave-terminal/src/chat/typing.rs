//! What a person types: which key does what, to the field, to what lies over the conversation, or to a question.

use std::time::Duration;

use byleave_core::call::Millis;

use super::orders::{self, Order, Typed};
use super::scroll::Entry;
use super::{Act, Armed, Chat, Heading, Waiting, pages};
use crate::dialogue::Step;
use crate::field::Field;
use crate::keys::Key;

impl Chat {
    /// Takes a key.
    pub fn key(&mut self, now: Duration, time: Millis, key: &Key) -> Act {
        self.told = None;
        if self.dialogue.is_some() && !self.is_away {
            return self.answering(now, time, key);
        }
        if !key.moves() && !matches!(key, Key::Tab | Key::Escape) {
            self.typed = Some(now);
            if now < self.deaf_until {
                return Act::Nothing;
            }
        }
        if let Some(page) = &mut self.page {
            if page.key(key) {
                self.page = None;
            }
            return Act::Nothing;
        }
        if let Some(picker) = &mut self.picker {
            return match picker.key(key) {
                pages::Came::Nothing => Act::Nothing,
                pages::Came::Back => self.unpicked(),
                pages::Came::Picked(key) => self.picked(key),
            };
        }
        let armed = self.armed.take();
        match key {
            Key::Tab if self.dialogue.is_some() => self.show_question(now),
            Key::Tab => self.complete(),
            Key::Enter => return self.enter(armed),
            Key::AltEnter => drop(self.field.key(&Key::Enter)),
            Key::Escape => return self.escape(armed),
            Key::PageUp | Key::PageDown => self.scroll.key(key),
            Key::Control('o') => self.scroll.unfold(),
            Key::Control('g') => return Act::Editor(self.field.text()),
            Key::Control('d') if self.field.is_empty() => return self.leave(armed),
            Key::Up if !self.field.text().contains('\n') => self.recall(true),
            Key::Down if self.recalled.is_some() => self.recall(false),
            key => {
                self.recalled = None;
                self.field.key(key);
            }
        }
        Act::Nothing
    }

    fn show_question(&mut self, now: Duration) {
        self.is_away = false;
        self.amid(now);
    }

    fn answering(&mut self, now: Duration, time: Millis, key: &Key) -> Act {
        let Some(dialogue) = &mut self.dialogue else { return Act::Nothing };
        match dialogue.key(now, key) {
            Step::Stay => Act::Nothing,
            Step::Back => {
                self.is_away = true;
                Act::Nothing
            }
            Step::Editor(text) => Act::Editor(text),
            Step::Consider(leave) => Act::Consider(leave),
            Step::Undo => Act::Undo,
            Step::Reply(reply) => {
                self.dialogue = None;
                let Some(Waiting { sheet, .. }) = self.questions.pop_front() else { return Act::Nothing };
                self.scroll.waits(sheet.call, false);
                self.open(now, time);
                Act::Answer(sheet.question.id, reply)
            }
        }
    }

    fn enter(&mut self, armed: Option<Armed>) -> Act {
        let text = self.field.text();
        if let Some(line) = text.strip_suffix('\\') {
            self.field = Field::long_at_end(&format!("{line}\n"));
            return Act::Nothing;
        }
        match orders::read(&text) {
            Typed::Nothing => return Act::Nothing,
            Typed::Unknown(why) => {
                self.told = Some(why);
                return Act::Nothing;
            }
            Typed::Order(Order::Quit) => {
                let act = self.leave(armed);
                // What was typed says what the second Enter is for.
                if act == Act::Quit {
                    self.clear();
                }
                return act;
            }
            Typed::Order(Order::Help) => self.page("The chat", &orders::help()),
            Typed::Order(order) => {
                if order.ends_the_work() && self.is_working() {
                    self.told = Some("the model is at work: Esc calls it off first".to_owned());
                    return Act::Nothing;
                }
                self.clear();
                return Act::Order(order);
            }
            Typed::Word(word) => {
                self.clear();
                self.scroll.follow();
                if self.is_working() {
                    self.later(word);
                    return Act::Nothing;
                }
                self.said.push(word.clone());
                self.scroll.push(Entry::Person(word.clone()));
                return Act::Say(word);
            }
        }
        self.clear();
        Act::Nothing
    }

    fn clear(&mut self) {
        self.field = Field::long("");
        self.recalled = None;
    }

    fn escape(&mut self, armed: Option<Armed>) -> Act {
        if !self.field.is_empty() && !self.is_working() {
            self.clear();
        } else if self.field.is_empty()
            && let Some(next) = self.next.pop_back()
        {
            // Not said yet, so it can be changed still.
            self.field = Field::long_at_end(&next);
        } else if self.is_working() && armed == Some(Armed::CallOff) {
            return Act::CallOff;
        } else if self.is_working() {
            self.armed = Some(Armed::CallOff);
            self.told = Some("Esc again calls off what the model does".to_owned());
        } else {
            self.scroll.follow();
        }
        Act::Nothing
    }

    fn leave(&mut self, armed: Option<Armed>) -> Act {
        if !self.is_working() || armed == Some(Armed::Quit) {
            return Act::Quit;
        }
        self.armed = Some(Armed::Quit);
        self.told = Some("the model is at work: the same again leaves, and calls it off".to_owned());
        Act::Nothing
    }

    fn complete(&mut self) {
        if let Some(name) = orders::completed(&self.field.text()) {
            self.field = Field::long_at_end(&name);
        }
    }

    fn recall(&mut self, back: bool) {
        // What is being written is not thrown away.
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
        self.field = Field::long_at_end(text);
    }

    /// Whether a conversation is open. Until there is, the list stays: what was chosen may not be had.
    fn is_open(&self) -> bool {
        self.heading != Heading::default()
    }

    fn unpicked(&mut self) -> Act {
        if !self.is_open() {
            return Act::Order(Order::New);
        }
        self.picker = None;
        Act::Nothing
    }

    fn picked(&mut self, key: String) -> Act {
        if self.is_open() {
            self.picker = None;
        }
        Act::Open(key)
    }
}
