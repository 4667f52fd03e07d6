//! A cache of opinions, for deterministic reviewers (P9). It must never contain a person's answer.

use std::num::NonZeroUsize;

use byleave_core::digest::{Digest, canonical_json};
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;

use super::{Opinion, OwnedInput};

/// The most recently used opinions.
pub(super) struct OpinionCache(Option<Mutex<LruCache<Digest, Opinion<Value>>>>);

/// Everything that an opinion on arguments may depend on, except the reviewer.
pub(super) struct OpinionSubject {
    manifest: Digest,
    arguments: String,
    plan: Vec<u8>,
}

impl OpinionSubject {
    /// Builds the cache key of a draft. Returns `None` if the plan cannot be serialized.
    pub(super) fn new(input: &OwnedInput, manifest: Digest) -> Option<Self> {
        let plan = serde_json::to_vec(&*input.plan).ok()?;
        Some(Self { manifest, arguments: canonical_json(&input.arguments), plan })
    }

    pub(super) fn key(&self, registration: u64, reviewer: &str) -> Digest {
        Digest::compute_parts(
            "byleave.opinion",
            &[
                &registration.to_le_bytes(),
                reviewer.as_bytes(),
                self.manifest.as_bytes(),
                self.arguments.as_bytes(),
                &self.plan,
            ],
        )
    }
}

impl OpinionCache {
    pub(super) fn new(entries: usize) -> Self {
        Self(NonZeroUsize::new(entries).map(|entries| Mutex::new(LruCache::new(entries))))
    }

    pub(super) fn get(&self, key: &Digest) -> Option<Opinion<Value>> {
        self.0.as_ref()?.lock().get(key).cloned()
    }

    pub(super) fn put(&self, key: Digest, opinion: Opinion<Value>) {
        if let Some(cache) = &self.0 {
            cache.lock().put(key, opinion);
        }
    }
}
