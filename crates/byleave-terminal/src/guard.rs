//! The guard: which keys answer. Times go in as spans since any beginning; nothing here waits or looks at a clock.
//!
//! A letter chooses, and Enter right after it says so. For that to count:
//!
//! 1. the question has been on the screen for as long as its gravity wants ([`Guard::drawn`]);
//! 2. the letter stands alone: nothing else was typed since the last Enter or Escape;
//! 3. where somebody was typing as the question came up, the keyboard was quiet for a while before the letter;
//! 4. nothing was pasted.
//!
//! Somebody who writes a sentence while a question comes up answers nothing: what they type is no line of one letter, begun after
//! the question could be read. What is thrown away this way is counted, so that the screen can say so.

use std::time::Duration;

/// How long the keyboard must be quiet after something was typed that was not meant for the question.
pub const QUIET: Duration = Duration::from_millis(1_000);

/// How long after a letter that only shows something the next must come: nobody writes a word at that pace.
const PAUSE: Duration = Duration::from_millis(300);

/// What a key came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was thrown away.
    Nothing,
    /// It is the choice that an Enter would confirm.
    Chosen(char),
    /// The choice is confirmed.
    Confirmed(char),
}

/// Which keys answer one question.
#[derive(Clone, Debug)]
pub struct Guard {
    dwell: Duration,
    drawn: Option<Duration>,
    /// The letter that stands alone since the last Enter or Escape.
    chosen: Option<char>,
    /// Something else was typed since then.
    is_running: bool,
    /// When something was last typed that was not meant for the question.
    stray: Option<Duration>,
    strays: usize,
    /// When a letter was typed that only shows something.
    showed: Option<Duration>,
}

impl Guard {
    /// For a question that must be on the screen for so long.
    pub const fn new(dwell: Duration) -> Self {
        Self { dwell, drawn: None, chosen: None, is_running: false, stray: None, strays: 0, showed: None }
    }

    /// The question is on the screen. Said again, it changes nothing.
    pub fn drawn(&mut self, now: Duration) {
        self.drawn.get_or_insert(now);
    }

    /// What was chosen, and awaits its Enter.
    pub const fn chosen(&self) -> Option<char> {
        self.chosen
    }

    /// How many keys were thrown away.
    pub const fn strays(&self) -> usize {
        self.strays
    }

    /// Whether something stands on the line that is no answer.
    pub const fn is_running(&self) -> bool {
        self.is_running
    }

    /// How long it takes until a key counts, if nothing is typed meanwhile.
    pub fn waits(&self, now: Duration) -> Duration {
        let Some(drawn) = self.drawn else { return Duration::MAX };
        let dwell = (drawn + self.dwell).saturating_sub(now);
        let quiet = self.stray.map_or(Duration::ZERO, |stray| (stray + QUIET).saturating_sub(now));
        let pause = self.showed.map_or(Duration::ZERO, |showed| (showed + PAUSE).saturating_sub(now));
        dwell.max(quiet).max(pause)
    }

    /// A letter was typed that answers nothing and shows something at once; returns whether it may.
    pub fn shows(&mut self, now: Duration) -> bool {
        if self.chosen.is_some() || self.is_running || self.waits(now) > Duration::ZERO {
            self.typed(now, ' ', false);
            return false;
        }
        self.showed = Some(now);
        true
    }

    /// A character was typed; `answers` says whether it is one of those that choose.
    pub fn typed(&mut self, now: Duration, c: char, answers: bool) -> Heard {
        let alone = self.chosen.is_none() && !self.is_running;
        if self.waits(now) > Duration::ZERO || !alone || !answers {
            self.astray(now);
            self.chosen = None;
            self.is_running = true;
            return Heard::Nothing;
        }
        self.chosen = Some(c);
        Heard::Chosen(c)
    }

    /// Enter was pressed.
    pub fn enter(&mut self, now: Duration) -> Heard {
        let was_running = std::mem::take(&mut self.is_running);
        match self.chosen.take() {
            Some(c) => Heard::Confirmed(c),
            None => {
                // The end of a line that was not meant for us, or an Enter out of nowhere.
                if was_running || self.waits(now) > Duration::ZERO {
                    self.astray(now);
                }
                Heard::Nothing
            }
        }
    }

    /// Escape or Backspace was pressed: the line is empty again.
    pub fn clear(&mut self) {
        self.chosen = None;
        self.is_running = false;
    }

    /// Something was pasted: it answers nothing, and takes a choice back.
    pub fn pasted(&mut self, now: Duration) {
        self.astray(now);
        self.clear();
    }

    fn astray(&mut self, now: Duration) {
        self.stray = Some(now);
        self.strays = self.strays.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn ready() -> Guard {
        let mut guard = Guard::new(ms(500));
        guard.drawn(ms(1_000));
        guard
    }

    #[test]
    fn a_letter_and_enter_answer_once_the_question_could_be_read() {
        let mut guard = ready();
        assert_eq!(guard.typed(ms(1_600), 'y', true), Heard::Chosen('y'));
        assert_eq!(guard.enter(ms(1_700)), Heard::Confirmed('y'));
        // Neither alone does.
        let mut guard = ready();
        assert_eq!(guard.enter(ms(1_600)), Heard::Nothing);
        assert_eq!(guard.typed(ms(1_700), 'y', true), Heard::Chosen('y'));
        assert_eq!(guard.typed(ms(1_800), 'e', true), Heard::Nothing);
        assert_eq!(guard.enter(ms(1_900)), Heard::Nothing);
    }

    #[test]
    fn what_is_typed_too_soon_spoils_its_whole_line_and_wants_quiet() {
        let mut guard = ready();
        assert_eq!(guard.typed(ms(1_400), 'y', true), Heard::Nothing);
        assert_eq!(guard.enter(ms(1_900)), Heard::Nothing);
        // The line ended late, so there was no quiet before this.
        assert_eq!(guard.typed(ms(2_100), 'y', true), Heard::Nothing);
        assert_eq!(guard.enter(ms(2_200)), Heard::Nothing);
        assert_eq!(guard.typed(ms(3_300), 'y', true), Heard::Chosen('y'));
        assert_eq!(guard.enter(ms(3_400)), Heard::Confirmed('y'));
    }

    #[test]
    fn a_sentence_is_no_answer_however_slowly_it_is_typed() {
        let mut guard = ready();
        let mut now = ms(5_000);
        for c in "yay it works".chars() {
            now += ms(3_000);
            guard.typed(now, c, "ynaelud".contains(c));
        }
        assert_eq!(guard.enter(now + ms(3_000)), Heard::Nothing);
    }

    #[test]
    fn what_is_pasted_takes_a_choice_back() {
        let mut guard = ready();
        assert_eq!(guard.typed(ms(2_000), 'y', true), Heard::Chosen('y'));
        guard.pasted(ms(2_100));
        assert_eq!(guard.enter(ms(2_200)), Heard::Nothing);
    }

    #[test]
    fn before_it_is_drawn_nothing_counts() {
        let mut guard = Guard::new(ms(0));
        assert_eq!(guard.typed(ms(9_000), 'y', true), Heard::Nothing);
    }
}
