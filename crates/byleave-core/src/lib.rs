//! Decides: the words, the record, the walk, the rules.
//!
//! This crate performs nothing: no file, socket, clock, random number or thread. Whatever it needs of the world comes in
//! as entries on a [`record::Record`]; whatever should happen to the world goes out of [`walk::next`] as data.
//!
//! So everything here can be tried with values alone. A policy is a function from what a call would do to a ruling:
//!
//! ```
//! use byleave_core::effect::{Effect, Plan};
//! use byleave_core::id::{AgentId, SessionId};
//! use byleave_core::manifest::Manifest;
//! use byleave_core::policy::{Places, Policy, Request};
//! use byleave_core::ruling::Verdict;
//!
//! let policy = Policy::builtin(&Places { workspace: Some("/work"), ..Places::default() })?;
//! let manifest = Manifest::of_commands("bash");
//! let (session, agent) = (SessionId::new("s")?, AgentId::new("a")?);
//! let verdict = |effect| {
//!     let plan = Plan { effects: vec![effect], ..Plan::default() };
//!     policy.rule(&Request::plain(&manifest, &plan, &session, &agent)).verdict
//! };
//! assert_eq!(verdict(Effect::Read { path: "/work/src/main.rs".into() }), Verdict::Allow);
//! assert_eq!(verdict(Effect::Read { path: "/work/.env".into() }), Verdict::Deny);
//! assert_eq!(verdict(Effect::Write { path: "/work/src/main.rs".into() }), Verdict::Ask);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to begin reading: [`call`] (what comes in), [`effect`] (what it would do), [`policy`] (what the rules say), [`question`] and
//! [`sheet`] (what a person is shown), [`render`] (in words, the same everywhere), [`record`] and [`walk`] (what comes next),
//! [`outcome`] and [`refusal`] (what came of it), [`chain`] (why nobody can change it afterwards).

pub mod act;
pub mod admit;
pub mod call;
pub mod chain;
pub mod challenge;
pub mod change;
pub mod digest;
pub mod effect;
pub mod entry;
pub mod escape;
pub mod grant;
pub mod host;
pub mod id;
pub mod leave;
pub mod manifest;
pub mod moment;
pub mod offer;
pub mod outcome;
pub mod pattern;
pub mod policy;
pub mod question;
pub mod record;
pub mod refusal;
pub mod rehearsal;
pub mod render;
pub mod review;
pub mod ruling;
pub mod session;
pub mod sheet;
pub mod walk;
