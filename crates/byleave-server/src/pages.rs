//! The pages: the inbox, the book, leaves and numbers for people with a browser.
//!
//! Rendered here, whole; a little script only makes them live and quick to use with the keyboard. Every page passes [`door`] first:
//! who is not signed in sees the page for signing in and nothing else. What is written on a page comes through [`maud`], which
//! escapes it; what a person must see of a question comes from the one renderer.

mod answer;
mod assets;
mod book;
mod door;
mod edit;
mod elsewhere;
mod form;
mod frame;
mod inbox;
mod leaves;
mod live;
mod paper;
mod question;
mod several;
mod sheet;
mod sign_in;
mod stats;
mod text;
mod visitor;
mod wrong;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};

use crate::app::App;

/// All pages, behind their door.
pub(crate) fn all(app: &App) -> Router<App> {
    Router::new()
        .route("/", get(inbox::show))
        .route("/live", get(live::follow))
        .route("/questions/{question}", get(question::show))
        .route("/questions/{question}/leave", get(question::consider))
        .route("/questions/{question}/answer", post(answer::give))
        .route("/several", get(several::show).post(several::answer))
        .route("/book", get(book::list))
        .route("/book/verify", post(book::verify))
        .route("/book/{call}", get(book::record))
        .route("/leaves", get(leaves::list))
        .route("/leaves/{leave}/revoke", post(leaves::revoke))
        .route("/stats", get(stats::show))
        .route("/halt", post(inbox::halt))
        .route("/lift", post(inbox::lift))
        .route("/sign-in", get(sign_in::ask).post(sign_in::enter))
        .route("/sign-in/elsewhere", get(elsewhere::begin))
        .route("/sign-in/done", get(elsewhere::end))
        .route("/sign-in/arrive", get(sign_in::arrive))
        .route("/sign-out", post(sign_in::leave))
        .route("/assets/{name}", get(assets::serve))
        .layer(middleware::from_fn_with_state(app.clone(), door::door))
}
