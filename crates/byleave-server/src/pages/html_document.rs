//! The HTML document around every page.

use maud::{DOCTYPE, Markup, html};

/// Renders a page without a signed-in user.
pub(super) fn render_signed_out(title: &str, body: &Markup) -> Markup {
    document(title, &html! { main #main { (body) } })
}

/// Renders a document.
pub(super) fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Byleave" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/style.css";
                script src="/assets/script.js" defer {}
            }
            body { (body) }
        }
    }
}
