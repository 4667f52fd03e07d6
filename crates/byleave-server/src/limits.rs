//! Bounds on what clients can make the server do. The defaults are for one machine.

use std::time::Duration;

/// Bounds on what clients can make the server do.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// The most that a request may carry.
    pub body_bytes_max: usize,
    /// How long a client may take for the head of a request; also how long a connection may idle.
    pub head: Duration,
    /// How long a client may take for the body of a request.
    pub body: Duration,
    /// How long a client may leave what we send unread.
    pub unread: Duration,
    /// How many connections there are at once.
    pub connections: usize,
    /// How many requests a second each principal may make, for long.
    pub requests_per_second: u32,
    /// How many it may make at once.
    pub burst: u32,
    /// How many requests without a good token an address may make a second, for long; ten times as many at once.
    pub strangers_per_second: u32,
    /// How many calls of a tenant are driven at once; those that wait for people do not count.
    pub calls: usize,
    /// How many streams of events a tenant may have open.
    pub streams: usize,
    /// How many of them one principal may have open.
    pub streams_each: usize,
    /// How long a stream lasts; clients come back to where they were.
    pub stream: Duration,
    /// How long a webhook may take to take a message.
    pub webhook_attempt: Duration,
    /// How long we wait before it is tried again, each time; after the last of them a message is given up.
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
