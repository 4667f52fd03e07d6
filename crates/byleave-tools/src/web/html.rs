//! Renders HTML as Markdown or as plain text, and collects what a page says about itself.
//!
//! It must never load or run anything; scripts and styles are dropped. The number of nodes, the depth and the length are limited before
//! rendering. A page beyond these limits is shown as text without tags.

use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Node, NodeData};

use super::bounded_tree::CountingDomSink;

/// Elements that are dropped with their content.
const DROPPED: [&str; 9] =
    ["script", "style", "template", "svg", "iframe", "object", "canvas", "head", "noframes"];
/// Elements that start a new line in plain text.
const BLOCKS: [&str; 30] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "tr",
    "ul",
];
/// Elements that add a prefix to every line within them.
const PREFIXED: [&str; 3] = ["blockquote", "ol", "ul"];

/// The size of one input to the parser. The tree is checked before the parser gets more.
const BITE_BYTES: usize = 64;
const NODES_MAX: usize = 400_000;
const DEPTH_MAX: usize = 120;
const LINES_TIMES_PREFIXES_MAX: usize = 4_000_000;
const PARSING_MAX: Duration = Duration::from_secs(3);
/// The stack size, because the conversion to Markdown is recursive, with a few calls for every level.
const STACK_BYTES: usize = 64 << 20;

/// The output format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RenderFormat {
    Markdown,
    Text,
}

/// A rendered page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RenderedPage {
    pub(super) text: String,
    /// Why the page is not in the wanted format.
    pub(super) fallback_reason: Option<&'static str>,
    /// The directives for robots.
    pub(super) robots: Vec<String>,
    /// The address that the page would send a browser to.
    pub(super) refresh: Option<String>,
}

/// Renders a page. Blocks, within limits; never fails.
pub(super) fn render_page(html: String, shown: RenderFormat) -> RenderedPage {
    let plain = stripped(&html);
    let work = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || parsed(&html, shown));
    let because = match work.map(thread::JoinHandle::join) {
        Ok(Ok(Ok(page))) => return page,
        Ok(Ok(Err(because))) => because,
        Ok(Err(_)) => "the HTML converter failed",
        Err(_) => "cannot start a thread for the conversion",
    };
    RenderedPage { text: plain, fallback_reason: Some(because), ..RenderedPage::default() }
}

fn parsed(html: &str, shown: RenderFormat) -> Result<RenderedPage, &'static str> {
    let began = Instant::now();
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let mut parser =
        parse_document(CountingDomSink::default(), ParseOpts { tree_builder, ..ParseOpts::default() });
    let mut rest = html;
    while !rest.is_empty() {
        let (bite, after) = rest.split_at(rest.ceil_char_boundary(BITE_BYTES));
        rest = after;
        parser.process(StrTendril::from_slice(bite));
        if parser.tokenizer.sink.sink.nodes() > NODES_MAX {
            return Err("the HTML has too many elements");
        }
        if began.elapsed() > PARSING_MAX {
            return Err("the HTML takes too long to parse");
        }
    }
    let tree = parser.finish();
    let survey = DomSummary::of(&tree.document);
    let lines = html.bytes().filter(|byte| *byte == b'\n').count().saturating_add(survey.breaks);
    let fits = survey.prefixes_max.saturating_mul(lines) <= LINES_TIMES_PREFIXES_MAX;
    let mut page = RenderedPage { robots: survey.robots, refresh: survey.refresh, ..RenderedPage::default() };
    page.text = match shown {
        RenderFormat::Markdown if survey.depth_max <= DEPTH_MAX && fits => {
            let converter = htmd::HtmlToMarkdown::builder().skip_tags(DROPPED.to_vec()).build();
            let body = converter.tree_to_markdown(&tree.document);
            survey.title.map_or(body.clone(), |title| format!("# {title}\n\n{body}"))
        }
        RenderFormat::Markdown => {
            page.fallback_reason = Some("the HTML is nested too deep");
            text_of(&tree.document)
        }
        RenderFormat::Text => text_of(&tree.document),
    };
    Ok(page)
}

/// The measurements of a tree before rendering.
#[derive(Default)]
struct DomSummary {
    depth_max: usize,
    prefixes_max: usize,
    breaks: usize,
    title: Option<String>,
    robots: Vec<String>,
    refresh: Option<String>,
}

impl DomSummary {
    /// Measures all nodes, without recursion.
    fn of(root: &Rc<Node>) -> Self {
        let mut survey = Self::default();
        let mut left = vec![(Rc::clone(root), 0_usize, 0_usize)];
        while let Some((node, depth, prefixes)) = left.pop() {
            survey.depth_max = survey.depth_max.max(depth);
            let tag = tag(&node);
            let prefixes = prefixes.saturating_add(usize::from(PREFIXED.contains(&tag)));
            survey.prefixes_max = survey.prefixes_max.max(prefixes);
            survey.breaks = survey.breaks.saturating_add(usize::from(BLOCKS.contains(&tag)));
            survey.hear(&node, tag);
            let children = node.children.borrow();
            left.extend(children.iter().map(|child| (Rc::clone(child), depth.saturating_add(1), prefixes)));
        }
        survey
    }

    fn hear(&mut self, node: &Rc<Node>, tag: &str) {
        match tag {
            "title" if self.title.is_none() => {
                let title = text_of(node).split_whitespace().collect::<Vec<_>>().join(" ");
                self.title = Some(title).filter(|title| !title.is_empty());
            }
            "meta" => {
                let content = attribute(node, "content").unwrap_or_default();
                let is = |name, wanted: &str| {
                    attribute(node, name).is_some_and(|value| value.eq_ignore_ascii_case(wanted))
                };
                if is("name", "robots") {
                    self.robots.push(content);
                } else if is("http-equiv", "refresh") {
                    let target = content.split_once([';', ',']).map(|(_, rest)| rest.trim());
                    let target = target.and_then(|target| {
                        target.get(..4).filter(|key| key.eq_ignore_ascii_case("url="))?;
                        target.get(4..)
                    });
                    self.refresh = target.map(|target| target.trim_matches(['\'', '"', ' ']).to_owned());
                }
            }
            _ => {}
        }
    }
}

fn tag(node: &Node) -> &str {
    match &node.data {
        NodeData::Element { name, .. } => &name.local,
        _ => "",
    }
}

fn attribute(node: &Node, wanted: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else { return None };
    let attrs = attrs.borrow();
    attrs.iter().find(|attr| &*attr.name.local == wanted).map(|attr| attr.value.to_string())
}

/// Returns the text of a tree, one line per block, without recursion.
fn text_of(root: &Rc<Node>) -> String {
    let mut text = String::new();
    // A node, and whether it is being left rather than entered.
    let mut left = vec![(Rc::clone(root), false)];
    while let Some((node, is_left)) = left.pop() {
        let tag = tag(&node);
        if BLOCKS.contains(&tag) && !text.ends_with('\n') && !text.is_empty() {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        if is_left || DROPPED.contains(&tag) {
            continue;
        }
        if let NodeData::Text { contents } = &node.data {
            add_words(&mut text, &contents.borrow());
        }
        if BLOCKS.contains(&tag) {
            left.push((Rc::clone(&node), true));
        }
        left.extend(node.children.borrow().iter().rev().map(|child| (Rc::clone(child), false)));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Adds words separated by single spaces.
fn add_words(text: &mut String, more: &str) {
    let mut is_spaced = text.is_empty() || text.ends_with(['\n', ' ']);
    for one in more.chars() {
        if !one.is_whitespace() {
            text.push(one);
        } else if !is_spaced {
            text.push(' ');
        }
        is_spaced = one.is_whitespace();
    }
}

/// Removes all tags in one pass, for a page that cannot be parsed.
fn stripped(html: &str) -> String {
    let mut text = String::new();
    let mut is_inside = false;
    for one in html.chars() {
        match one {
            '<' => is_inside = true,
            '>' if is_inside => {
                is_inside = false;
                add_words(&mut text, " ");
            }
            one if !is_inside => add_words(&mut text, one.encode_utf8(&mut [0; 4])),
            _ => {}
        }
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_shown_without_what_runs_in_it() {
        let html = "<html><head><title> A\n page </title><style>p{}</style><meta name=robots content='noindex, nofollow'>\
            <meta http-equiv=refresh content=\"0; URL='http://127.0.0.1/x'\"></head><body><script>alert(1)</script>\
            <h2>One</h2><p>two <b>three</b> <a href='/x'>four</a></p><ul><li>a<li>b</ul><noscript>five</noscript></body></html>";
        let page = render_page(html.to_owned(), RenderFormat::Markdown);
        assert_eq!(page.fallback_reason, None);
        assert_eq!(
            (page.robots, page.refresh.as_deref()),
            (vec!["noindex, nofollow".to_owned()], Some("http://127.0.0.1/x"))
        );
        assert_eq!(page.text, "# A page\n\n## One\n\ntwo **three** [four](/x)\n\n*   a\n*   b\n\nfive");
        let page = render_page(html.to_owned(), RenderFormat::Text);
        assert_eq!(page.text, "One\ntwo three four\na\nb\nfive");
    }

    #[test]
    fn a_page_that_is_made_to_break_us_is_shown_as_text() {
        let fonts: String = (0..20_000).map(|n| format!("<font x={n}>")).collect();
        for (name, html) in [
            ("deep", "<div>".repeat(100_000) + "marker"),
            ("deep markdown", "<blockquote>".repeat(3_000) + "marker"),
            ("opened anew", fonts + &"<p>x".repeat(100_000) + "marker"),
            ("prefixed lines", "<blockquote>".repeat(100) + "<pre>" + &"x\n".repeat(400_000) + "marker"),
        ] {
            let page = render_page(html, RenderFormat::Markdown);
            assert!(page.fallback_reason.is_some(), "{name}");
            assert!(page.text.contains("marker"), "{name}");
        }
    }
}
