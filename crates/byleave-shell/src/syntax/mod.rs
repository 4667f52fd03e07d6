//! Syntax: text to tree, by the grammar of bash 5.2.
//!
//! A parser of its own, for three reasons. Where a substitution ends is only known by parsing what it holds, so words and
//! commands need one parser; the exact text of every word must survive; and bash runs each complete line before it looks at
//! the next, so the parser must stop after each and go on. It must never panic, never take more than time linear in the
//! text (but for a bounded number of second looks), and never accept less than bash does without saying so.

pub(crate) mod ansi_c_quoting;
mod compound;
mod heredoc;
mod lex;
mod parser;
mod redirect;
mod substitution;
pub(crate) mod tree;

pub(crate) use lex::is_name;
pub(crate) use parser::{Parser, SyntaxError};
