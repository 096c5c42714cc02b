//! Times of requests, with an error of less than one percent at any size and no memory that grows.

/// Each power of two is divided into this many equal buckets.
const STEPS: u64 = 128;
const BITS: u32 = STEPS.trailing_zeros();
const BUCKETS: usize = (STEPS as usize) * (64 - BITS as usize + 1);

pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    largest: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, largest: 0 }
    }

    /// Adds one time in nanoseconds.
    pub fn add(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.largest = self.largest.max(nanos);
    }

    /// The time in nanoseconds that this part of all requests did not exceed; 0 when there were none.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = ((self.total as f64) * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(index).min(self.largest);
            }
        }
        self.largest
    }

    pub fn largest(&self) -> u64 {
        self.largest
    }

    pub fn total(&self) -> u64 {
        self.total
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let power = 63 - nanos.leading_zeros() - BITS;
    (u64::from(power + 1) * STEPS + (nanos >> power) - STEPS) as usize
}

/// The largest value of a bucket.
fn upper(index: usize) -> u64 {
    let (power, step) = (index as u64 / STEPS, index as u64 % STEPS);
    if power == 0 {
        return step;
    }
    (((STEPS + step + 1) as u128) << (power - 1)).saturating_sub(1).min(u64::MAX as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_it_says() {
        for value in (0..5000).chain([1 << 20, (1 << 40) + 12345, u64::MAX]) {
            let index = bucket(value);
            assert!(upper(index) >= value, "{value}");
            assert!(index == 0 || upper(index - 1) < value, "{value}");
            assert!((upper(index) - value) as f64 <= value as f64 / 100.0, "{value}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantile(0.5), 0);
        for value in 1..=1000 {
            histogram.add(value * 1000);
        }
        for (part, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.999, 999_000.0), (1.0, 1_000_000.0)] {
            let found = histogram.quantile(part) as f64;
            assert!((found - exact).abs() <= exact / 100.0, "{part}: {found}");
        }
        assert_eq!((histogram.total(), histogram.largest()), (1000, 1_000_000));
    }
}
