//! Limits on the work that clients can cause. The defaults are for one machine.

use std::time::Duration;

/// Limits on the work that clients can cause.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// The maximum size of a request body.
    pub max_body_bytes: usize,
    /// The timeout for the head of a request, and for idle connections.
    pub header_timeout: Duration,
    /// The timeout for the body of a request.
    pub body_timeout: Duration,
    /// How long a client may leave sent data unread.
    pub write_timeout: Duration,
    /// The maximum number of connections.
    pub max_connections: usize,
    /// The sustained number of requests per second for each principal.
    pub requests_per_second: u32,
    /// The number of requests that it may make at once.
    pub burst: u32,
    /// The sustained number of requests per second without a valid token for each address. Ten times as many are allowed at
    /// once.
    pub unauthenticated_per_second: u32,
    /// The number of calls of a tenant that are driven at once. Calls that wait for people are not included.
    pub max_calls: usize,
    /// The maximum number of open event streams of a tenant.
    pub max_streams: usize,
    /// The maximum number of open event streams of one principal.
    pub max_streams_per_principal: usize,
    /// How long a stream lasts. Clients reconnect where they left off.
    pub stream_lifetime: Duration,
    /// The timeout for one delivery to a webhook.
    pub webhook_timeout: Duration,
    /// The pauses between delivery attempts. After the last one a message is dropped.
    pub webhook_retry_delays: Vec<Duration>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_body_bytes: 2 * 1024 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(20),
            write_timeout: Duration::from_secs(30),
            max_connections: 512,
            requests_per_second: 50,
            burst: 200,
            unauthenticated_per_second: 2,
            max_calls: 256,
            max_streams: 64,
            max_streams_per_principal: 8,
            stream_lifetime: Duration::from_secs(15 * 60),
            webhook_timeout: Duration::from_secs(15),
            webhook_retry_delays: [1, 5, 30, 120, 600].map(Duration::from_secs).into(),
        }
    }
}
