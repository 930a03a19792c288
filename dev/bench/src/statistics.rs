//! Statistics of measurements: medians, and means with 95 % intervals.
//!
//! Everything is deterministic: resampling and shuffling use a seed.
//! Rejected: dropping outliers.

use crate::Outcome;
use fastrand::Rng;

/// A mean and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The number of values.
    pub count: usize,
}

impl Interval {
    /// The mean of `values` with Student's interval; infinitely wide for fewer than two values, `None` for none.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let mean = mean(values)?;
        let half = match standard_deviation(values) {
            Some(deviation) => student_95(values.len() - 1) * deviation / (values.len() as f64).sqrt(),
            None => f64::INFINITY,
        };
        Some(Interval { mean, low: mean - half, high: mean + half, count: values.len() })
    }

    /// The mean with `decimals`, in this unit, and its interval.
    pub fn text(&self, unit: &str, decimals: usize) -> String {
        let Interval { mean, low, high, .. } = self;
        format!("{mean:.decimals$}{unit} (95 %: {low:.decimals$} to {high:.decimals$})")
    }

    /// The interval of `1 - x`, for the loss that belongs to a ratio.
    pub fn loss(self) -> Interval {
        Interval { mean: 1.0 - self.mean, low: 1.0 - self.high, high: 1.0 - self.low, count: self.count }
    }
}

/// The mean of `these` as a multiple of the mean of `those`, with an interval by resampling both; `None` unless the divisor is
/// above zero.
pub fn quotient_of_means(these: &[f64], those: &[f64]) -> Option<Interval> {
    const RESAMPLES: usize = 4000;
    let quotient = |this: f64, that: f64| (that > 0.0).then(|| this / that);
    let all = quotient(mean(these)?, mean(those)?)?;
    let mut chance = Rng::with_seed(1);
    let mut resampled =
        |values: &[f64]| values.iter().map(|_| values[chance.usize(..values.len())]).sum::<f64>() / values.len() as f64;
    // A divisor of zero or below means an unbounded quotient.
    let mut quotients: Vec<f64> =
        (0..RESAMPLES).map(|_| quotient(resampled(these), resampled(those)).unwrap_or(f64::INFINITY)).collect();
    quotients.sort_by(f64::total_cmp);
    let (low, high) = (quotients[RESAMPLES / 40], quotients[RESAMPLES - 1 - RESAMPLES / 40]);
    Some(Interval { mean: all, low, high, count: these.len().min(those.len()) })
}

/// The mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The median; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The median of values that must exist.
pub fn middle(values: &[f64]) -> Outcome<f64> {
    median(values).ok_or_else(|| "nothing was measured".into())
}

/// The largest; `None` for no values.
pub fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// The slope of the regression line through `values` at 0, 1, 2...; `None` for fewer than two.
pub fn slope(values: &[f64]) -> Option<f64> {
    let (middle, level) = ((values.len() as f64 - 1.0) / 2.0, mean(values)?);
    let offset = |at: usize| at as f64 - middle;
    let square: f64 = (0..values.len()).map(|at| offset(at).powi(2)).sum();
    let product: f64 = values.iter().enumerate().map(|(at, value)| offset(at) * (value - level)).sum();
    (square > 0.0).then(|| product / square)
}

fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (square / (values.len() - 1) as f64).sqrt())
}

/// Student's t for a two-sided 95 % interval, exact for few degrees of freedom. Otherwise the normal distribution's value with the first
/// terms of its correction.
fn student_95(degrees: usize) -> f64 {
    const FEW: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    const NORMAL: f64 = 1.959_964;
    if let Some(exact) = degrees.checked_sub(1).and_then(|index| FEW.get(index)) {
        return *exact;
    }
    let (z, n) = (NORMAL, degrees.max(1) as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / n + second / n.powi(2) + third / n.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected} within {tolerance}");
    }

    #[test]
    fn medians_of_even_and_odd_counts() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(largest(&[1.0, 4.0, 3.0]), Some(4.0));
        assert_eq!(largest(&[]), None);
    }

    #[test]
    fn the_interval_is_students() {
        // Sleep data of Student's own paper, first drug: mean 0.75, standard deviation 1.789.
        let interval = Interval::of(&[0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]).unwrap();
        near(interval.mean, 0.75, 1e-9);
        near(interval.low, -0.5298, 1e-3);
        near(interval.high, 2.0298, 1e-3);
        let loss = interval.loss();
        near(loss.low, 1.0 - interval.high, 1e-12);
        near(loss.high, 1.0 - interval.low, 1e-12);
    }

    #[test]
    fn the_quantile_matches_the_printed_tables() {
        for (degrees, expected) in [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (79, 1.990), (1000, 1.962)] {
            near(student_95(degrees), expected, 1e-3);
        }
    }

    #[test]
    fn too_little_is_said_to_be_too_little() {
        assert_eq!(Interval::of(&[]), None);
        let one = Interval::of(&[1.0]).unwrap();
        assert!(one.high.is_infinite() && one.low.is_infinite());
        assert_eq!(quotient_of_means(&[], &[1.0]), None);
        assert_eq!(quotient_of_means(&[1.0], &[-1.0]), None);
        assert_eq!(slope(&[1.0]), None);
    }

    #[test]
    fn intervals_cover_the_truth_nineteen_times_in_twenty() {
        let mut chance = Rng::with_seed(7);
        let mut draw = |around: f64| around + (0..12).map(|_| chance.usize(..1000) as f64 / 1000.0).sum::<f64>() - 6.0;
        let (mut of_means, mut of_quotients) = (0, 0);
        for _ in 0..400 {
            let mut thirty = |around: f64| (0..30).map(|_| draw(around)).collect::<Vec<f64>>();
            let (these, those) = (thirty(5.0), thirty(20.0));
            let covers = |interval: Interval, truth: f64| (interval.low..=interval.high).contains(&truth);
            of_means += u32::from(covers(Interval::of(&these).unwrap(), 4.994));
            of_quotients += u32::from(covers(quotient_of_means(&these, &those).unwrap(), 0.25));
        }
        assert!((365..=395).contains(&of_means), "{of_means} of 400");
        assert!((360..=396).contains(&of_quotients), "{of_quotients} of 400");
    }

    #[test]
    fn the_slope_is_that_of_the_line() {
        near(slope(&[1.0, 3.0, 5.0, 7.0]).unwrap(), 2.0, 1e-12);
        near(slope(&[4.0, 4.0, 4.0]).unwrap(), 0.0, 1e-12);
        near(slope(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap(), 0.0, 1e-12);
    }
}
