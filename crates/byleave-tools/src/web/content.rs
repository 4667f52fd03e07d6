//! The type of a response body, and its text in any encoding.

use encoding_rs::{Encoding, UTF_8};
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName};

/// The number of bytes that are searched for the page's encoding, the same as in browsers.
const PRESCAN_BYTES: usize = 1024;
/// The number of bytes of an untyped body that are searched for non-text bytes.
const SNIFF_BYTES: usize = 1024;

/// The content type of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MediaType {
    /// The type without parameters, in lower case; empty if it is missing.
    pub(super) essence: String,
    charset: Option<String>,
}

/// The form in which a content is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentForm {
    Html,
    Text,
    /// Unknown until the content is examined.
    Unspecified,
    Binary,
}

impl MediaType {
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let text = single_header(headers, &CONTENT_TYPE).unwrap_or_default();
        let mut parts = text.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '+' | '-' | '_');
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
        });
        let essence: String = essence.chars().filter(|c| plain(*c)).take(80).collect();
        Self { essence, charset }
    }

    pub(super) fn form(&self) -> ContentForm {
        let essence = self.essence.as_str();
        const TEXTS: [&str; 14] = [
            "application/json",
            "application/ld+json",
            "application/javascript",
            "application/ecmascript",
            "application/xml",
            "application/yaml",
            "application/x-yaml",
            "application/toml",
            "application/x-ndjson",
            "application/x-sh",
            "application/sql",
            "application/graphql",
            "application/x-httpd-php",
            "image/svg+xml",
        ];
        match essence {
            "text/html" | "application/xhtml+xml" => ContentForm::Html,
            "" | "application/octet-stream" | "binary/octet-stream" => ContentForm::Unspecified,
            _ if essence.starts_with("text/") || TEXTS.contains(&essence) => ContentForm::Text,
            _ if essence.ends_with("+json") || essence.ends_with("+xml") || essence.ends_with("+yaml") => {
                ContentForm::Text
            }
            _ => ContentForm::Binary,
        }
    }

    /// Returns the type for a message.
    pub(super) fn display_type(&self) -> &str {
        if self.essence.is_empty() { "no content type" } else { &self.essence }
    }
}

/// Returns a header with exactly one value, as text.
pub(super) fn single_header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(only), None) => std::str::from_utf8(only.as_bytes()).ok().map(str::to_owned),
        _ => None,
    }
}

/// Checks whether the bytes are not text: there is a zero byte near the beginning. In text only UTF-16 has one, and it has a byte order
/// mark.
pub(super) fn is_binary(bytes: &[u8], form: ContentForm) -> bool {
    if Encoding::for_bom(bytes).is_some() {
        return false;
    }
    let zero = bytes.iter().take(SNIFF_BYTES).any(|byte| *byte == 0);
    match form {
        ContentForm::Binary => true,
        ContentForm::Unspecified => {
            zero || std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_some())
        }
        ContentForm::Html | ContentForm::Text => zero,
    }
}

/// Decoded text, and a note on how it was decoded.
pub(super) struct DecodedText {
    pub(super) text: String,
    pub(super) encoding: &'static str,
    pub(super) note: Option<String>,
}

/// Decodes bytes: by their byte order mark, else by the response header, else by the page, else as UTF-8.
pub(super) fn text(bytes: &[u8], kind: &MediaType, is_cut: bool) -> DecodedText {
    let named =
        kind.charset.clone().or_else(|| (kind.form() == ContentForm::Html).then(|| prescan(bytes)).flatten());
    let (encoding, mut told) =
        match named.as_deref().map(|label| (label, Encoding::for_label(label.as_bytes()))) {
            None => (UTF_8, None),
            Some((_, Some(encoding))) => (encoding, None),
            Some((label, None)) => {
                let label: String = label.chars().take(40).flat_map(char::escape_default).collect();
                (UTF_8, Some(format!("unknown encoding `{label}`: read as UTF-8")))
            }
        };
    let mut decoder = encoding.new_decoder();
    let room = decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len());
    let mut text = String::with_capacity(room);
    // A character that was cut at the end is not an error.
    let (_, _, replaced) = decoder.decode_to_string(bytes, &mut text, !is_cut);
    let encoding = decoder.encoding().name();
    if replaced && told.is_none() {
        told = Some(format!("some bytes are not valid {encoding}, and are shown as \u{fffd}"));
    }
    DecodedText { text, encoding, note: told }
}

/// Returns the encoding that a page names in its first bytes.
fn prescan(bytes: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(bytes.get(..PRESCAN_BYTES.min(bytes.len()))?).to_ascii_lowercase();
    let mut rest = start.as_str();
    while let Some((_, after)) = rest.split_once("<meta") {
        let (meta, after) = after.split_once('>')?;
        rest = after;
        if let Some((_, value)) = meta.split_once("charset") {
            let value = value.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
            let end = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '/'));
            let label = value.get(..end.unwrap_or(value.len()))?;
            // A page that can be read up to here is not in UTF-16, whatever it says.
            return Some(if label.starts_with("utf-16") { "utf-8" } else { label }.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn kind(text: &'static str) -> MediaType {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(text));
        MediaType::from_headers(&headers)
    }

    #[test]
    fn a_type_says_what_is_shown() {
        for (text, essence, form) in [
            ("Text/HTML; Charset=\"utf-8\"", "text/html", ContentForm::Html),
            ("application/vnd.api+json", "application/vnd.api+json", ContentForm::Text),
            ("text/markdown", "text/markdown", ContentForm::Text),
            ("image/png", "image/png", ContentForm::Binary),
            ("image/svg+xml", "image/svg+xml", ContentForm::Text),
            ("application/pdf", "application/pdf", ContentForm::Binary),
            ("application/octet-stream", "application/octet-stream", ContentForm::Unspecified),
            ("x\u{7}[byleave] `y`", "xbyleavey", ContentForm::Binary),
        ] {
            if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
                let mut headers = HeaderMap::new();
                headers.insert(CONTENT_TYPE, value);
                let kind = MediaType::from_headers(&headers);
                assert_eq!((kind.essence.as_str(), kind.form()), (essence, form), "{text}");
            }
        }
    }

    #[test]
    fn text_is_read_in_its_own_encoding() {
        let read = |bytes: &[u8], of: &'static str| {
            let text = text(bytes, &kind(of), false);
            (text.text, text.encoding, text.note.is_some())
        };
        assert_eq!(read("aé".as_bytes(), "text/plain"), ("aé".into(), "UTF-8", false));
        assert_eq!(read(b"a\xe9", "text/plain; charset=iso-8859-1"), ("aé".into(), "windows-1252", false));
        assert_eq!(
            read(b"\x93\xfa\x96\x7b", "text/html; charset=Shift_JIS"),
            ("日本".into(), "Shift_JIS", false)
        );
        let page = b"<!doctype html><meta http-equiv=x content='text/html; charset=iso-8859-1'>\xe9";
        assert!(read(page, "text/html").0.ends_with('é'));
        assert!(read(b"<META CHARSET=\"koi8-r\"/>\xc1", "text/html").0.ends_with('а'));
        assert_eq!(read(b"\xff\xfea\0", "text/plain; charset=utf-8"), ("a".into(), "UTF-16LE", false));
        assert_eq!(read(b"a\xe9", "text/plain"), ("a\u{fffd}".into(), "UTF-8", true));
        assert_eq!(read(b"a", "text/plain; charset=x-none"), ("a".into(), "UTF-8", true));
        assert_eq!(text("é".as_bytes().get(..1).unwrap(), &kind("text/plain"), true).text, "");
    }

    #[test]
    fn what_has_no_type_is_looked_at() {
        for (bytes, form, binary) in [
            (&b"plain"[..], ContentForm::Unspecified, false),
            (b"\x7fELF\x02\x01\x01\0", ContentForm::Unspecified, true),
            (b"\x89PNG", ContentForm::Unspecified, true),
            (b"a\0b", ContentForm::Text, true),
            (b"\xff\xfea\0", ContentForm::Text, false),
            (b"a\xe9", ContentForm::Text, false),
            ("aé".as_bytes().get(..2).unwrap(), ContentForm::Unspecified, false),
        ] {
            assert_eq!(is_binary(bytes, form), binary, "{bytes:?} {form:?}");
        }
    }
}
