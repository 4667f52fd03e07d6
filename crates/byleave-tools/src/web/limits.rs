//! How much of the web one call may use up.

use std::time::Duration;

/// How many redirects are followed.
pub(super) const HOPS_MAX: usize = 5;
/// The bytes of a page that are read where nothing is said, and at most.
pub(super) const BYTES_DEFAULT: usize = 1 << 20;
pub(super) const BYTES_MAX: usize = 5 << 20;
/// The longest address that is taken.
pub(super) const ADDRESS_BYTES_MAX: usize = 8 << 10;
/// The largest head of an answer, and the most headers in it.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;
pub(super) const HEADERS_MAX: usize = 128;
/// So many requests may go to one host within a minute.
pub(super) const REQUESTS_MAX: usize = 30;
/// How long everything that the network does may take.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// What we need beyond that: to turn the page into text.
pub(super) const AFTERWARDS: Duration = Duration::from_secs(15);

/// An address short enough for a line.
pub(super) fn shortened(address: &str) -> String {
    let shown: String = address.chars().take(300).flat_map(char::escape_debug).collect();
    if address.chars().count() > 300 { format!("{shown}…") } else { shown }
}
