//! Decides which keys answer a question. Times are durations since any fixed start. Nothing here waits or reads a clock.
//!
//! A letter chooses, and Enter right after it confirms. The letter is accepted only if:
//!
//! 1. the question has been on the screen for as long as its severity requires ([`KeyGuard::drawn`]);
//! 2. the letter is alone on its line: nothing else was typed since the last Enter or Escape;
//! 3. the keyboard was quiet before the letter, if somebody was typing when the question appeared. After more than a slip the
//!    quiet time is longer than people pause within a text;
//! 4. nothing was pasted.
//!
//! Somebody who writes a sentence while a question appears answers nothing. Their text is not a line of one letter that was begun
//! after the question could be read. The guard also receives the keys typed before the question appeared ([`KeyGuard::typed`]
//! before [`KeyGuard::drawn`]). They show whether somebody is in the middle of a line, because the last letter of that line would
//! otherwise look like an answer. Discarded keys are counted, so that the screen can show their number.

use std::time::Duration;

/// How long the keyboard must be quiet after a key that was not meant for the question.
pub const QUIET: Duration = Duration::from_millis(1_000);

/// The quiet time after more than a slip. People who write pause for less than that and go on.
pub const QUIET_LONG: Duration = Duration::from_millis(6_000);

/// The maximum number of keys of a slip, or of an answer that came too soon and was typed again. More keys mean that somebody
/// writes something else.
const SLIP: usize = 4;

/// The minimum pause after a letter that only shows something. Nobody writes a word that slowly.
const PAUSE: Duration = Duration::from_millis(300);

/// The result of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDecision {
    /// The key was discarded.
    Ignored,
    /// The choice that Enter would confirm.
    Chosen(char),
    /// The choice is confirmed.
    Confirmed(char),
}

/// Decides which keys answer one question.
#[derive(Clone, Debug)]
pub struct KeyGuard {
    dwell: Duration,
    drawn: Option<Duration>,
    /// The only letter since the last Enter or Escape.
    chosen: Option<char>,
    /// Something else was typed since then.
    is_running: bool,
    /// The time of the last key that was not meant for the question.
    stray: Option<Duration>,
    strays: usize,
    /// The time of the last key.
    pressed: Option<Duration>,
    /// The time of the last letter that only shows something.
    showed: Option<Duration>,
}

impl KeyGuard {
    /// Creates a guard for a question that must be on the screen for this long.
    pub const fn new(dwell: Duration) -> Self {
        Self {
            dwell,
            drawn: None,
            chosen: None,
            is_running: false,
            stray: None,
            strays: 0,
            pressed: None,
            showed: None,
        }
    }

    /// Notes that the question is on the screen. Only the first call has an effect.
    pub fn drawn(&mut self, now: Duration) {
        self.drawn.get_or_insert(now);
    }

    /// Returns the letter that waits for its Enter.
    pub const fn chosen(&self) -> Option<char> {
        self.chosen
    }

    /// Returns the number of discarded keys.
    pub const fn strays(&self) -> usize {
        self.strays
    }

    /// Checks whether the line contains something that is not an answer.
    pub const fn is_running(&self) -> bool {
        self.is_running
    }

    /// Returns the time until a key is accepted, if nothing is typed meanwhile.
    pub fn remaining_wait(&self, now: Duration) -> Duration {
        let Some(drawn) = self.drawn else { return Duration::MAX };
        let dwell = (drawn + self.dwell).saturating_sub(now);
        let quiet = if self.strays > SLIP { QUIET_LONG } else { QUIET };
        let quiet = self.stray.map_or(Duration::ZERO, |stray| (stray + quiet).saturating_sub(now));
        let pause = self.showed.map_or(Duration::ZERO, |showed| (showed + PAUSE).saturating_sub(now));
        dwell.max(quiet).max(pause)
    }

    /// Handles a letter that only shows something at once. Returns whether it may.
    pub fn accepts_view_key(&mut self, now: Duration) -> bool {
        if self.chosen.is_some() || self.is_running || self.remaining_wait(now) > Duration::ZERO {
            self.typed(now, ' ', false);
            return false;
        }
        self.showed = Some(now);
        self.pressed = Some(now);
        true
    }

    /// Handles a key that scrolls and that people also write with.
    pub fn scrolled(&mut self, now: Duration) {
        self.pressed = Some(now);
        if self.remaining_wait(now) > Duration::ZERO {
            self.astray(now);
        }
    }

    /// Handles a character. `answers` says whether the character can choose an answer.
    pub fn typed(&mut self, now: Duration, c: char, answers: bool) -> KeyDecision {
        self.pressed = Some(now);
        let alone = self.chosen.is_none() && !self.is_running;
        if self.remaining_wait(now) > Duration::ZERO || !alone || !answers {
            self.astray(now);
            self.chosen = None;
            self.is_running = true;
            return KeyDecision::Ignored;
        }
        self.chosen = Some(c);
        KeyDecision::Chosen(c)
    }

    /// Handles Enter.
    pub fn enter(&mut self, now: Duration) -> KeyDecision {
        self.pressed = Some(now);
        self.is_running = false;
        match self.chosen.take() {
            Some(c) => KeyDecision::Confirmed(c),
            None => {
                // The end of a line that was not meant for the question, or an Enter without a choice.
                self.astray(now);
                KeyDecision::Ignored
            }
        }
    }

    /// Handles Escape: the line is empty again.
    pub fn clear(&mut self) {
        self.chosen = None;
        self.is_running = false;
    }

    /// Handles Backspace: takes a choice back. Without a choice, somebody corrects other text and goes on with it.
    pub fn erased(&mut self, now: Duration) {
        self.pressed = Some(now);
        if self.chosen.take().is_none() {
            self.astray(now);
            self.is_running = true;
        }
    }

    /// Notes a key that was typed into a field of the question.
    pub const fn wrote_at(&mut self, now: Duration) {
        self.pressed = Some(now);
    }

    /// Returns how long ago a key was last typed here. If the question was not answered, the guard of the next question needs it.
    pub fn time_since_typing(&self, now: Duration) -> Option<Duration> {
        self.pressed.map(|pressed| now.saturating_sub(pressed))
    }

    /// Notes that somebody typed something else this long ago. It is treated as more than a slip.
    pub fn note_interrupted_typing(&mut self, now: Duration, ago: Duration) {
        if ago < QUIET_LONG {
            self.stray = Some(now.saturating_sub(ago));
            self.strays = self.strays.max(SLIP + 1);
        }
    }

    /// Handles a paste: it answers nothing and takes a choice back.
    pub fn pasted(&mut self, now: Duration) {
        self.pressed = Some(now);
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

    fn ready() -> KeyGuard {
        let mut guard = KeyGuard::new(ms(500));
        guard.drawn(ms(1_000));
        guard
    }

    #[test]
    fn a_letter_and_enter_answer_once_the_question_could_be_read() {
        let mut guard = ready();
        assert_eq!(guard.typed(ms(1_600), 'y', true), KeyDecision::Chosen('y'));
        assert_eq!(guard.enter(ms(1_700)), KeyDecision::Confirmed('y'));
        // Neither key alone answers.
        let mut guard = ready();
        assert_eq!(guard.enter(ms(1_600)), KeyDecision::Ignored);
        assert_eq!(guard.typed(ms(2_700), 'y', true), KeyDecision::Chosen('y'));
        assert_eq!(guard.typed(ms(2_800), 'e', true), KeyDecision::Ignored);
        assert_eq!(guard.enter(ms(2_900)), KeyDecision::Ignored);
    }

    #[test]
    fn what_is_typed_too_soon_spoils_its_whole_line_and_wants_quiet() {
        let mut guard = ready();
        assert_eq!(guard.typed(ms(1_400), 'y', true), KeyDecision::Ignored);
        assert_eq!(guard.enter(ms(1_900)), KeyDecision::Ignored);
        // The line ended late, so there was no quiet before this.
        assert_eq!(guard.typed(ms(2_100), 'y', true), KeyDecision::Ignored);
        assert_eq!(guard.enter(ms(2_200)), KeyDecision::Ignored);
        assert_eq!(guard.typed(ms(3_300), 'y', true), KeyDecision::Chosen('y'));
        assert_eq!(guard.enter(ms(3_400)), KeyDecision::Confirmed('y'));
    }

    #[test]
    fn a_sentence_is_no_answer_however_slowly_it_is_typed() {
        let mut guard = ready();
        let mut now = ms(5_000);
        for c in "yay it works".chars() {
            now += ms(3_000);
            guard.typed(now, c, "ynaelud".contains(c));
        }
        assert_eq!(guard.enter(now + ms(3_000)), KeyDecision::Ignored);
    }

    #[test]
    fn what_is_pasted_takes_a_choice_back() {
        let mut guard = ready();
        assert_eq!(guard.typed(ms(2_000), 'y', true), KeyDecision::Chosen('y'));
        guard.pasted(ms(2_100));
        assert_eq!(guard.enter(ms(2_200)), KeyDecision::Ignored);
    }

    #[test]
    fn the_end_of_a_word_that_was_begun_before_is_no_answer() {
        let mut guard = KeyGuard::new(ms(500));
        for c in "ma".chars() {
            guard.typed(ms(900), c, false);
        }
        guard.drawn(ms(1_000));
        assert_eq!(guard.typed(ms(6_000), 'y', true), KeyDecision::Ignored);
        assert_eq!(guard.enter(ms(6_100)), KeyDecision::Ignored);
    }

    #[test]
    fn a_mistake_that_is_corrected_is_no_empty_line() {
        let mut guard = ready();
        assert_eq!(guard.typed(ms(2_000), 'x', false), KeyDecision::Ignored);
        guard.erased(ms(2_100));
        assert_eq!(guard.typed(ms(5_000), 'y', true), KeyDecision::Ignored);
        assert_eq!(guard.enter(ms(5_100)), KeyDecision::Ignored);
        // A choice that is taken back leaves an empty line.
        let mut guard = ready();
        assert_eq!(guard.typed(ms(2_000), 'y', true), KeyDecision::Chosen('y'));
        guard.erased(ms(2_100));
        assert_eq!(guard.typed(ms(2_200), 'n', true), KeyDecision::Chosen('n'));
    }

    #[test]
    fn who_writes_much_must_be_quiet_for_longer_also_at_the_next_question() {
        let mut guard = ready();
        for c in "hello".chars() {
            guard.typed(ms(2_000), c, false);
        }
        guard.enter(ms(2_000));
        assert_eq!(guard.remaining_wait(ms(4_000)), ms(4_000));
        let mut next = KeyGuard::new(ms(0));
        next.note_interrupted_typing(ms(10_000), guard.time_since_typing(ms(4_000)).unwrap());
        next.drawn(ms(10_000));
        assert_eq!(next.remaining_wait(ms(10_000)), ms(4_000));
        // A slip costs a second.
        let mut slip = ready();
        slip.typed(ms(2_000), 'x', false);
        assert_eq!(slip.remaining_wait(ms(2_000)), QUIET);
    }

    #[test]
    fn before_it_is_drawn_nothing_counts() {
        let mut guard = KeyGuard::new(ms(0));
        assert_eq!(guard.typed(ms(9_000), 'y', true), KeyDecision::Ignored);
    }
}
