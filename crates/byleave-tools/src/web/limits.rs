//! The limits of one `web_fetch` call.

use std::time::Duration;

/// The maximum number of redirects.
pub(super) const MAX_REDIRECTS: usize = 5;
/// The default and maximum number of bytes of a page.
pub(super) const DEFAULT_BYTES: usize = 1 << 20;
pub(super) const MAX_BYTES: usize = 5 << 20;
/// The maximum length of an address.
pub(super) const MAX_URL_BYTES: usize = 8 << 10;
/// The maximum size of a response head, and of the number of headers.
pub(super) const MAX_HEAD_BYTES: usize = 64 << 10;
pub(super) const MAX_HEADERS: usize = 128;
/// The maximum number of requests to one host per minute.
pub(super) const MAX_REQUESTS_PER_MINUTE: usize = 30;
/// The time limit for the network.
pub(super) const NETWORK_TIMEOUT: Duration = Duration::from_secs(30);
/// The additional time for converting the page to text.
pub(super) const PROCESSING_TIME: Duration = Duration::from_secs(15);

/// Shortens an address so that it fits on a line.
pub(super) fn shorten_url(address: &str) -> String {
    let shown: String = address.chars().take(300).flat_map(char::escape_debug).collect();
    if address.chars().count() > 300 { format!("{shown}…") } else { shown }
}
