//! Style, script and icon. They are embedded in the program, so that nothing is fetched from elsewhere.

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};

use super::error_page::ErrorPage;
use crate::problem::Problem;

const ASSETS: [(&str, &str, &str); 3] = [
    ("style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
    ("script.js", "text/javascript; charset=utf-8", include_str!("assets/script.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

pub(super) async fn serve(Path(name): Path<String>) -> Result<Response, ErrorPage> {
    let found = ASSETS.iter().find(|(known, _, _)| *known == name);
    let (_, media, text) = found.ok_or_else(|| Problem::not_found("file"))?;
    Ok(([(header::CONTENT_TYPE, *media)], *text).into_response())
}
