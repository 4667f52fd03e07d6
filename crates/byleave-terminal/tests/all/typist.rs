//! People who type while questions come up: their keys and their pauses. The same seed gives the same person.

use std::time::Duration;

/// Seeded pseudo-random numbers.
pub(crate) struct TypingRandom(pub(crate) u64);

impl TypingRandom {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.roll() % most.max(1)
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        let place = self.below(all.len() as u64);
        all.iter().copied().nth(usize::try_from(place).unwrap()).unwrap()
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// The way in which a person types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typist {
    /// Types sentences at a person's pace. Pauses for up to five seconds, also within a word, and corrects mistakes.
    Prose,
    /// Types sentences as fast as fingers go, without a pause.
    Fast,
    /// Pastes texts, some of which look like answers, with and without the brackets that terminals send around them.
    Paste,
    /// Types nothing. The terminal itself sends reports of focus, mouse, cursor, colors and released keys.
    Reports,
    /// Types answer letters and Enter at random, with pauses of up to five seconds.
    Random,
}

impl Typist {
    pub(crate) const ALL: [Self; 5] = [Self::Prose, Self::Fast, Self::Paste, Self::Reports, Self::Random];

    /// Returns the next input and the pause before it: a key, or as much as a terminal sends at once.
    pub(crate) fn next(self, dice: &mut TypingRandom, text: &mut Vec<u8>) -> (Duration, Vec<u8>) {
        match self {
            Self::Prose => {
                let pause = match dice.below(20) {
                    0 => dice.ms(1_000, 5_000),
                    1..=3 => dice.ms(300, 1_000),
                    _ => dice.ms(60, 300),
                };
                if dice.one_in(25) {
                    return (pause, b"\x7f".to_vec());
                }
                (pause, letter(dice, text))
            }
            Self::Fast => (dice.ms(5, 60), letter(dice, text)),
            Self::Paste => {
                let pasted = dice.of(&[
                    "y\r",
                    "y",
                    "yes\r",
                    "n\r",
                    "a\ra\ra\r",
                    "for good\r",
                    "y\rfor good\r",
                    "git status\ny\n",
                    "y\ny\ny\ny\n",
                ]);
                let bytes = match dice.one_in(3) {
                    true => pasted.as_bytes().to_vec(),
                    false => format!("\x1b[200~{pasted}\x1b[201~").into_bytes(),
                };
                // Without brackets and after a long pause, a paste of `y` and Enter is the same as typing them.
                (dice.ms(5, 900), bytes)
            }
            Self::Reports => {
                let report = dice.of(&[
                    "\x1b[I",
                    "\x1b[O",
                    "\x1b[<0;10;5M",
                    "\x1b[<0;10;5m",
                    "\x1b[<35;1;1M",
                    "\x1b[M !!",
                    "\x1b[12;40R",
                    "\x1b[?62;22c",
                    "\x1b]11;rgb:0000/0000/0000\x1b\\",
                    "\x1b]10;rgb:ffff/ffff/ffff\x07",
                    "\x1b[?1;2c",
                    "\x1bP1+r436f=323536\x1b\\",
                    "\x1b[121;1:3u",
                    "\x1b[13;1:3u",
                    "\x1b[8;24;80t",
                    "\x1b[Z",
                    "\x1b[?2026;2$y",
                ]);
                (dice.ms(1, 4_000), report.as_bytes().to_vec())
            }
            Self::Random => {
                let pause = if dice.one_in(4) { dice.ms(500, 5_000) } else { dice.ms(20, 500) };
                let key = dice.of(b"yyyyynnaaeellurpd \r\r\r\r\rxq");
                (pause, vec![key])
            }
        }
    }
}

/// Returns the next letter of the text, in lines of one to four sentences.
fn letter(dice: &mut TypingRandom, text: &mut Vec<u8>) -> Vec<u8> {
    if text.is_empty() {
        let mut line: Vec<&str> = (0..=dice.below(3)).map(|_| dice.of(SENTENCES)).collect();
        line.push("\r");
        *text = line.join(" ").replace(" \r", "\r").bytes().rev().collect();
    }
    vec![text.pop().unwrap()]
}

/// Lines as people write them to an agent and to a shell. Many end in an answer letter.
const SENTENCES: &[&str] = &[
    "yes",
    "no",
    "ok",
    "why",
    "and a",
    "try it again and tell me why",
    "may I see the whole plan",
    "do not touch the library",
    "let me see what you already have",
    "any idea what is in the way",
    "make it a little more plain, or leave it alone",
    "run all of them on Monday",
    "a new one, please; the other is in the way",
    "git commit -a",
    "ls -la",
    "cd ..",
    "cargo test -p byleave-terminal",
    "less README.md",
    "I would rather have you use the other table",
    "n is the number of the entry",
    "y is up, x is to the left",
];
