//! Parses text into a tree, by the grammar of bash 5.2.
//!
//! This crate has its own parser for three reasons. The end of a substitution is known only by parsing its content, so words and
//! commands need one parser. The exact text of every word must survive. Bash runs each complete line before it parses the next, so
//! the parser must stop after each line and continue. It must never panic. Its time must be linear in the text, except for a
//! bounded number of second passes. It must never accept less than bash does without reporting it.

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
