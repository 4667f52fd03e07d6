//! Decides: the words, the record, the walk, the rules.
//!
//! This crate performs nothing: no file, socket, clock, random number or thread. Whatever it needs of the world comes in
//! as entries on a [`record::Record`]; whatever should happen to the world goes out of [`pipeline::next`] as data.
//!
//! So everything here can be tried with values alone. A policy is a function from what a call would do to a decision:
//!
//! ```
//! use byleave_core::effect::{Effect, Plan};
//! use byleave_core::id::{AgentId, SessionId};
//! use byleave_core::manifest::Manifest;
//! use byleave_core::policy::{PathVariables, Policy, PolicyRequest};
//! use byleave_core::decision::Verdict;
//!
//! let policy = Policy::builtin(&PathVariables { workspace: Some("/work"), ..PathVariables::default() })?;
//! let manifest = Manifest::of_commands("bash");
//! let (session, agent) = (SessionId::new("s")?, AgentId::new("a")?);
//! let verdict = |effect| {
//!     let plan = Plan { effects: vec![effect], ..Plan::default() };
//!     policy.rule(&PolicyRequest::plain(&manifest, &plan, &session, &agent)).verdict
//! };
//! assert_eq!(verdict(Effect::Read { path: "/work/src/main.rs".into() }), Verdict::Allow);
//! assert_eq!(verdict(Effect::Read { path: "/work/.env".into() }), Verdict::Deny);
//! assert_eq!(verdict(Effect::Write { path: "/work/src/main.rs".into() }), Verdict::Ask);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to begin reading: [`call`] (what comes in), [`effect`] (what it would do), [`policy`] (what the rules say), [`question`] and
//! [`question_view`] (what a person is shown), [`render`] (in words, the same everywhere), [`record`] and [`pipeline`] (what comes next),
//! [`outcome`] and [`refusal`] (what came of it), [`hash_chain`] (why nobody can change it afterwards).

pub mod admin_action;
pub mod approval_scopes;
pub mod call;
pub mod challenge;
pub mod decision;
pub mod digest;
pub mod effect;
pub mod entry;
pub mod escape;
pub mod file_change;
pub mod grant;
pub mod hash_chain;
pub mod host;
pub mod id;
pub mod manifest;
pub mod outcome;
pub mod pattern;
pub mod pipeline;
pub mod policy;
pub mod question;
pub mod question_view;
pub mod record;
pub mod refusal;
pub mod rehearsal;
pub mod render;
pub mod review;
pub mod session;
pub mod standing_approval;
pub mod time_format;
pub mod transition;
