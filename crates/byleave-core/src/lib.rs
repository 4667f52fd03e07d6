//! Pure decision core of Byleave: records, policy evaluation and the call state machine.
//!
//! This crate performs no I/O. It uses no file, socket, clock, random number or thread. All input arrives as entries on a
//! [`record::Record`]. All output leaves [`pipeline::next_step`] as data.
//!
//! Everything here can therefore be tested with plain values. A policy is a function from the effects of a call to a decision:
//!
//! ```
//! use byleave_core::effect::{Effect, Plan};
//! use byleave_core::id::{AgentId, SessionId};
//! use byleave_core::manifest::Manifest;
//! use byleave_core::policy::{PathVariables, Policy, PolicyRequest};
//! use byleave_core::decision::Verdict;
//!
//! let policy = Policy::builtin(&PathVariables { workspace: Some("/work"), ..PathVariables::default() })?;
//! let manifest = Manifest::for_commands("bash");
//! let (session, agent) = (SessionId::new("s")?, AgentId::new("a")?);
//! let verdict = |effect| {
//!     let plan = Plan { effects: vec![effect], ..Plan::default() };
//!     policy.evaluate(&PolicyRequest::new(&manifest, &plan, &session, &agent)).verdict
//! };
//! assert_eq!(verdict(Effect::Read { path: "/work/src/main.rs".into() }), Verdict::Allow);
//! assert_eq!(verdict(Effect::Read { path: "/work/.env".into() }), Verdict::Deny);
//! assert_eq!(verdict(Effect::Write { path: "/work/src/main.rs".into() }), Verdict::Ask);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! | modules | contents |
//! |---|---|
//! | [`call`], [`id`] | A call and its mode; typed ids. This crate never creates an id. |
//! | [`manifest`] | The description that a tool gives of itself. No field can loosen a verdict. |
//! | [`effect`] | Effects, plans, and which effects conflict. |
//! | [`git_settings`] | Settings of a repository, and which changes of them are harmless. |
//! | [`git_transport`] | URLs of repositories, and the Git transports that a call is lent. |
//! | [`pattern`] | Patterns over effects, for rules and standing approvals. |
//! | [`host`] | Parses hosts, addresses and host patterns with ports. It resolves no names. |
//! | [`policy`] | Rules as data and the function that evaluates them. |
//! | [`decision`] | A verdict with its reasons, and the table of ask causes and modes. |
//! | [`session`] | The tree of sessions and the ceiling of each. |
//! | [`standing_approval`] | Standing approvals, and what one must cover to spare a question. |
//! | [`approval_scopes`] | The standing approvals that a person can choose from, narrowest first. |
//! | [`grant`] | Proof that one exact plan may run once, and the claim on it. |
//! | [`review`], [`challenge`], [`question`] | The recorded form of reviews, challenges, questions and answers. |
//! | [`question_view`] | Everything that a person must see to answer a question. It is never stored. |
//! | [`file_change`] | One path that a run changed, with its state before and after. |
//! | [`rehearsal`] | The result of a run on a copy, and when it spares the question. |
//! | [`outcome`], [`refusal`] | The six outcomes; the refusal codes. |
//! | [`entry`], [`record`] | Everything that can be written on a record; the entries of one call. |
//! | [`pipeline`] | Returns the next step for a record. |
//! | [`transition`] | Accepts an entry only if it answers the pipeline. |
//! | [`format`](mod@format) | The name and the digest of the stored format. |
//! | [`hash_chain`], [`digest`] | The chain of entries; keyed digests and canonical JSON. |
//! | [`admin_action`] | Admin actions such as halt, lift, revoke, forget and opening a session. |
//! | [`render`] | Turns a question view into lines for any screen. |
//! | [`escape`] | Makes every character visible, in a reversible way. |
//! | [`time_format`] | Times and durations as text. The current time is passed in. |

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
pub mod format;
pub mod git_settings;
pub mod git_transport;
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
