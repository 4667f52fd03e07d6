//! The first items of many, in order. It accepts items in any order and does not keep all of them.

/// The first of all added items.
pub(crate) struct TopN<T> {
    kept: Vec<T>,
    /// The total weight that is wanted.
    most: usize,
    weight: fn(&T) -> usize,
    /// The weight that is currently stored.
    heavy: usize,
}

impl<T: Ord> TopN<T> {
    /// Creates a collector for this total weight. The last item may exceed it.
    pub(crate) const fn new(most: usize, weight: fn(&T) -> usize) -> Self {
        Self { kept: Vec::new(), most, weight, heavy: 0 }
    }

    /// Adds an item.
    pub(crate) fn push(&mut self, one: T) {
        self.heavy += (self.weight)(&one);
        self.kept.push(one);
        if self.heavy > self.most.saturating_mul(4).max(4_096) {
            self.cut();
        }
    }

    /// Returns the first items of all these collectors together, in order.
    pub(crate) fn merge(all: impl IntoIterator<Item = Self>) -> Vec<T> {
        let mut all = all.into_iter();
        let Some(mut first) = all.next() else { return Vec::new() };
        all.for_each(|other| first.kept.extend(other.kept));
        first.cut();
        first.kept
    }

    fn cut(&mut self) {
        self.kept.sort_unstable();
        let (mut weight, mut count) = (0, 0);
        for one in &self.kept {
            if weight >= self.most {
                break;
            }
            weight += (self.weight)(one);
            count += 1;
        }
        self.kept.truncate(count);
        self.heavy = weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_are_kept_in_order() {
        let mut all = [TopN::new(3, |_| 1), TopN::new(3, |_| 1)];
        for number in (0..100_000).rev() {
            all[number % 2].push(number);
        }
        assert!(all.iter().all(|some| some.kept.len() <= 4_096));
        assert_eq!(TopN::merge(all), [0, 1, 2]);
        let mut heavy = TopN::new(3, |weight| *weight);
        [2, 5, 7].into_iter().for_each(|weight| heavy.push(weight));
        assert_eq!(TopN::merge([heavy]), [2, 5]);
    }
}
