//! The limits of one `web_fetch` call.

use std::time::Duration;

/// The maximum number of redirects.
pub(super) const HOPS_MAX: usize = 5;
/// The default and maximum number of bytes of a page.
pub(super) const BYTES_DEFAULT: usize = 1 << 20;
pub(super) const BYTES_MAX: usize = 5 << 20;
/// The maximum length of an address.
pub(super) const ADDRESS_BYTES_MAX: usize = 8 << 10;
/// The maximum size of a response head, and of the number of headers.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;
pub(super) const HEADERS_MAX: usize = 128;
/// The maximum number of requests to one host per minute.
pub(super) const REQUESTS_MAX: usize = 30;
/// The time limit for the network.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// The additional time for converting the page to text.
pub(super) const AFTERWARDS: Duration = Duration::from_secs(15);

/// Shortens an address so that it fits on a line.
pub(super) fn shortened(address: &str) -> String {
    let shown: String = address.chars().take(300).flat_map(char::escape_debug).collect();
    if address.chars().count() > 300 { format!("{shown}…") } else { shown }
}
