//! The web pages: inbox, audit log, sessions, standing approvals, policy and statistics, for people with a browser.
//!
//! They are rendered completely on the server. A small script only adds live updates and keyboard shortcuts. Every page
//! passes [`auth::door`] first: without a sign-in, only the sign-in page is visible. All texts go through [`maud`], which
//! escapes them. The required parts of a question come from the one renderer.

mod answer;
mod assets;
mod audit_log;
mod auth;
mod bulk_answer;
mod edit;
mod error_page;
mod form;
mod html_document;
mod inbox;
mod layout;
mod oidc_login;
mod policy;
mod question;
mod question_card;
mod question_view;
mod session_timeline;
mod sign_in;
mod signed_in_user;
mod sse;
mod standing_approvals;
mod stats;
mod text;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};

use crate::state::App;

/// Returns the routes of all pages, behind their authentication.
pub(crate) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/", get(inbox::show))
        .route("/live", get(sse::follow))
        .route("/questions/{question}", get(question::show))
        .route("/questions/{question}/standing-approval", get(question::preview_approval))
        .route("/questions/{question}/answer", post(answer::submit))
        .route("/answer-several", get(bulk_answer::show).post(bulk_answer::answer))
        .route("/log", get(audit_log::list))
        .route("/log/verify", post(audit_log::verify))
        .route("/log/{call}", get(audit_log::record))
        .route("/approvals", get(standing_approvals::list))
        .route("/approvals/{approval}/revoke", post(standing_approvals::revoke))
        .route("/session", get(session_timeline::show))
        .route("/policy", get(policy::show))
        .route("/policy/explain", post(policy::explain))
        .route("/policy/replay", post(policy::replay))
        .route("/stats", get(stats::show))
        .route("/halt", post(inbox::halt))
        .route("/lift", post(inbox::lift))
        .route("/sign-in", get(sign_in::show).post(sign_in::enter))
        .route("/sign-in/oidc", get(oidc_login::start_sign_in))
        .route("/sign-in/callback", get(oidc_login::finish_sign_in))
        .route("/sign-in/ticket", get(sign_in::redeem_ticket))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/assets/{name}", get(assets::serve))
        .layer(middleware::from_fn_with_state(app.clone(), auth::authenticate))
}
