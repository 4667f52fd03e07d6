//! Durations with their sum, median and maximum, without storing each of them.

use std::collections::BTreeMap;

use byleave_core::call::Millis;
use serde::{Serialize, Serializer};

/// The number of buckets below this value, and from every power of two to the next. The median is at most 1/64 too low.
const STEPS: u64 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Statistics of durations, in bounded memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationStats {
    count: u64,
    sum: Millis,
    longest: Millis,
    /// The number of durations per bucket, keyed by the shortest duration of the bucket. There are at most 3,776 buckets.
    buckets: BTreeMap<Millis, u64>,
}

impl DurationStats {
    /// Adds one duration.
    pub fn add(&mut self, span: Millis) {
        self.count += 1;
        self.sum = self.sum.saturating_add(span);
        self.longest = self.longest.max(span);
        *self.buckets.entry(bucket_start(span)).or_default() += 1;
    }

    /// Returns how many there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns their sum.
    pub const fn sum_ms(&self) -> Millis {
        self.sum
    }

    /// Returns the longest.
    pub const fn longest_ms(&self) -> Millis {
        self.longest
    }

    /// Returns the median (of two, the shorter), accurate to 1/64.
    pub fn median_ms(&self) -> Millis {
        let middle = self.count.div_ceil(2);
        let mut upto = 0;
        for (span, many) in &self.buckets {
            upto += many;
            if upto >= middle {
                return *span;
            }
        }
        0
    }
}

impl Serialize for DurationStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct DurationSummary {
            count: u64,
            sum_ms: Millis,
            median_ms: Millis,
            longest_ms: Millis,
        }
        DurationSummary {
            count: self.count,
            sum_ms: self.sum,
            median_ms: self.median_ms(),
            longest_ms: self.longest,
        }
        .serialize(serializer)
    }
}

/// Returns the shortest duration of the same bucket.
const fn bucket_start(span: Millis) -> Millis {
    if span < STEPS {
        return span;
    }
    let dropped = span.ilog2() - STEP_BITS;
    span >> dropped << dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_near_and_memory_is_bounded() {
        let mut spans = DurationStats::default();
        assert_eq!((spans.median_ms(), spans.longest_ms()), (0, 0));
        for span in [9, 1, 5, 3] {
            spans.add(span);
        }
        assert_eq!((spans.count(), spans.sum_ms(), spans.median_ms(), spans.longest_ms()), (4, 18, 3, 9));
        let mut spans = DurationStats::default();
        for span in 0..200_001 {
            spans.add(span);
        }
        assert!((98_437..=100_000).contains(&spans.median_ms()), "{}", spans.median_ms());
        assert_eq!(spans.longest_ms(), 200_000);
        spans.add(u64::MAX);
        assert!(spans.buckets.len() < 1_000, "{}", spans.buckets.len());
    }
}
