//! What a model says, gathered from the events of any dialect. What is not exactly a call is a flaw.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::trouble::Broken;
use crate::blocks;
use crate::model::{Call, Flaw, Heard, Listener, Said, Stop, Thought, Usage};

/// A model says at most so many bytes in a turn, thoughts and arguments included.
const SAID_BYTES_MAX: usize = 16 << 20;
/// The arguments of a call have at most so many bytes, as those of a block.
const ARGS_BYTES_MAX: usize = blocks::BLOCK_BYTES_MAX;
/// What a call, a thought or a flaw counts beside its text, so that there are not endlessly many without any.
const PIECE_BYTES: usize = 256;
/// Characters shown of a word of the provider's.
const WORD_CHARS: usize = 40;

/// What was said so far.
pub(super) struct Speech<'a> {
    heard: Listener<'a>,
    text: String,
    thoughts: Vec<Thought>,
    calls: Vec<Asked>,
    flaws: Vec<Flaw>,
    bytes: usize,
    pub(super) usage: Usage,
    /// Why it stopped, once the provider has said so.
    pub(super) stop: Option<Stop>,
}

/// A call that takes shape.
#[derive(Default)]
pub(super) struct Asked {
    /// Empty where the provider gives none.
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments, as they were written.
    pub(super) args: String,
    pub(super) seal: Option<String>,
    /// What is wrong with it whatever its arguments are.
    pub(super) wrong: Option<String>,
}

impl<'a> Speech<'a> {
    pub(super) fn new(heard: Listener<'a>) -> Self {
        Self {
            heard,
            text: String::new(),
            thoughts: Vec::new(),
            calls: Vec::new(),
            flaws: Vec::new(),
            bytes: 0,
            usage: Usage::default(),
            stop: None,
        }
    }

    /// More text.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Broken> {
        if !text.is_empty() {
            self.count(text.len())?;
            self.text.push_str(text);
            (self.heard)(Heard::Text(text));
        }
        Ok(())
    }

    /// More of the thought that is not sealed yet, or of a new one.
    pub(super) fn thought(&mut self, text: &str) -> Result<(), Broken> {
        if text.is_empty() {
            return Ok(());
        }
        self.count(text.len())?;
        match self.thoughts.last_mut() {
            Some(thought) if thought.seal.is_null() => thought.text.push_str(text),
            _ => self.push(text.to_owned(), Value::Null)?,
        }
        (self.heard)(Heard::Thought(text));
        Ok(())
    }

    /// The signature of the thought before, or of one that is not shown.
    pub(super) fn sign(&mut self, signature: &str) -> Result<(), Broken> {
        self.count(signature.len())?;
        match self.thoughts.last_mut() {
            Some(thought) if thought.seal.is_null() => thought.seal = signature.into(),
            _ => self.push(String::new(), signature.into())?,
        }
        Ok(())
    }

    /// A block that only the provider can read.
    pub(super) fn sealed(&mut self, block: Value) -> Result<(), Broken> {
        self.count(block.to_string().len())?;
        self.push(String::new(), block)
    }

    /// A call, of which more may come. By its place more is added.
    pub(super) fn call(&mut self, call: Asked) -> Result<usize, Broken> {
        let Asked { id, name, args, seal, .. } = &call;
        let seal_bytes = seal.as_ref().map_or(0, String::len);
        self.count(PIECE_BYTES + id.len() + name.len() + args.len() + seal_bytes)?;
        if !name.is_empty() {
            (self.heard)(Heard::Call(name));
        }
        self.calls.push(call);
        Ok(self.calls.len() - 1)
    }

    /// More of the arguments of a call.
    pub(super) fn args(&mut self, place: usize, more: &str) -> Result<(), Broken> {
        self.count(more.len())?;
        if let Some(call) = self.calls.get_mut(place) {
            call.args.push_str(more);
        }
        Ok(())
    }

    /// A call so far.
    pub(super) fn asked(&mut self, place: usize) -> Option<&mut Asked> {
        self.calls.get_mut(place)
    }

    /// Something that may have been meant as a call.
    pub(super) fn flaw(&mut self, what: String) -> Result<(), Broken> {
        self.count(PIECE_BYTES + what.len())?;
        self.flaws.push(Flaw { what });
        Ok(())
    }

    /// A part of a kind that is not known.
    pub(super) fn unknown(&mut self, kind: &str) -> Result<(), Broken> {
        self.flaw(format!("a part of the kind `{}` is not known here, and nothing of it was run", word(kind)))
    }

    /// Counts what is kept.
    pub(super) fn count(&mut self, bytes: usize) -> Result<(), Broken> {
        self.bytes += bytes;
        if self.bytes > SAID_BYTES_MAX { Err(Broken::Endless) } else { Ok(()) }
    }

    fn push(&mut self, text: String, seal: Value) -> Result<(), Broken> {
        self.count(PIECE_BYTES)?;
        self.thoughts.push(Thought { text, seal });
        Ok(())
    }

    /// All that was said. Calls without an id are numbered, on from those that the conversation has before.
    pub(super) fn said(mut self, by: String, before: usize) -> Said {
        let stop = self.stop.unwrap_or_default();
        if self.calls.is_empty() && self.flaws.is_empty() && stop == Stop::Calls {
            let what = "no tool was called: a call was announced, but none could be read";
            self.flaws.push(Flaw { what: what.to_owned() });
        }
        let mut ids = HashMap::<String, usize>::new();
        for call in self.calls.iter().filter(|call| !call.id.is_empty()) {
            *ids.entry(call.id.clone()).or_default() += 1;
        }
        let mut numbers = before + 1..;
        let mut made_up = || {
            let mut free = numbers.by_ref().map(|number| format!("call-{number}"));
            free.find(|id| !ids.contains_key(id)).unwrap_or_default()
        };
        let mut calls = Vec::new();
        for Asked { id, name, args, seal, wrong } in self.calls {
            let args = match wrong {
                Some(wrong) => Err(wrong),
                None if name.trim().is_empty() => {
                    Err("it has no name, expected the name of a tool".to_owned())
                }
                None if ids.get(&id).is_some_and(|calls| *calls > 1) => {
                    Err(format!("the id `{id}` stands for several calls, expected one"))
                }
                None => read(&args, &stop),
            };
            match args {
                Ok(args) => {
                    let id = if id.is_empty() { made_up() } else { id };
                    calls.push(Call { id, name, args, reason: None, seal });
                }
                Err(why) => {
                    self.flaws.push(Flaw { what: format!("the call of `{name}` was not run: {why}") });
                }
            }
        }
        let stop = match stop {
            // Gemini and Ollama say that they are done where they called something.
            Stop::Done if !calls.is_empty() => Stop::Calls,
            stop => stop,
        };
        let Self { text, thoughts, flaws, usage, .. } = self;
        Said { by, text, thoughts, calls, flaws, usage, stop }
    }
}

/// The arguments of a call, as they were written.
fn read(args: &str, stop: &Stop) -> Result<Map<String, Value>, String> {
    let args = args.trim();
    if args.len() > ARGS_BYTES_MAX {
        return Err(format!("its arguments are too long, expected at most {ARGS_BYTES_MAX} bytes"));
    }
    if args.is_empty() && *stop != Stop::Length {
        // How it is said that there are none; or it was cut off before the first.
        return Ok(Map::new());
    }
    if !args.starts_with('{') {
        return Err("its arguments are no JSON object".to_owned());
    }
    blocks::read_args(args).map_err(|blocks::Place { line, column, what, near }| {
        let what = what.replace("the block ends", "they end");
        format!("its arguments, line {line}, column {column}: {what}; near: {near}")
    })
}

/// A word of the provider's, as it can be shown.
pub(super) fn word(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(WORD_CHARS).collect()
}
