//! The first of many, in order: whatever order they come in, and without keeping all of them.

/// Those that come first, among all that were given.
pub(crate) struct TopN<T> {
    kept: Vec<T>,
    /// How much of it is wanted, as weighed.
    most: usize,
    weight: fn(&T) -> usize,
    /// How much was kept since it was last cut down.
    heavy: usize,
}

impl<T: Ord> TopN<T> {
    /// As many as weigh that much together; the last may weigh more.
    pub(crate) const fn new(most: usize, weight: fn(&T) -> usize) -> Self {
        Self { kept: Vec::new(), most, weight, heavy: 0 }
    }

    /// Takes one more.
    pub(crate) fn push(&mut self, one: T) {
        self.heavy += (self.weight)(&one);
        self.kept.push(one);
        if self.heavy > self.most.saturating_mul(4).max(4_096) {
            self.cut();
        }
    }

    /// Those that come first of all of these together, in order.
    pub(crate) fn of_all(all: impl IntoIterator<Item = Self>) -> Vec<T> {
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
        assert_eq!(TopN::of_all(all), [0, 1, 2]);
        let mut heavy = TopN::new(3, |weight| *weight);
        [2, 5, 7].into_iter().for_each(|weight| heavy.push(weight));
        assert_eq!(TopN::of_all([heavy]), [2, 5]);
    }
}
