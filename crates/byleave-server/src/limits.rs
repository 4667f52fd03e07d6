//! Limits on the work that clients can cause. The defaults are for one machine.

use std::time::Duration;

/// Limits on the work that clients can cause.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// The maximum size of a request body.
    pub body_bytes_max: usize,
    /// The timeout for the head of a request, and for idle connections.
    pub head: Duration,
    /// The timeout for the body of a request.
    pub body: Duration,
    /// How long a client may leave sent data unread.
    pub unread: Duration,
    /// The maximum number of connections.
    pub connections: usize,
    /// The sustained number of requests per second for each principal.
    pub requests_per_second: u32,
    /// The number of requests that it may make at once.
    pub burst: u32,
    /// The sustained number of requests per second without a valid token for each address. Ten times as many are allowed at
    /// once.
    pub strangers_per_second: u32,
    /// The number of calls of a tenant that are driven at once. Calls that wait for people are not included.
    pub calls: usize,
    /// The maximum number of open event streams of a tenant.
    pub streams: usize,
    /// The maximum number of open event streams of one principal.
    pub streams_each: usize,
    /// How long a stream lasts. Clients reconnect where they left off.
    pub stream: Duration,
    /// The timeout for one delivery to a webhook.
    pub webhook_attempt: Duration,
    /// The pauses between delivery attempts. After the last one a message is dropped.
    pub webhook_pauses: Vec<Duration>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 2 * 1024 * 1024,
            head: Duration::from_secs(10),
            body: Duration::from_secs(20),
            unread: Duration::from_secs(30),
            connections: 512,
            requests_per_second: 50,
            burst: 200,
            strangers_per_second: 2,
            calls: 256,
            streams: 64,
            streams_each: 8,
            stream: Duration::from_secs(15 * 60),
            webhook_attempt: Duration::from_secs(15),
            webhook_pauses: [1, 5, 30, 120, 600].map(Duration::from_secs).into(),
        }
    }
}
