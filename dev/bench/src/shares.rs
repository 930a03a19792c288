//! The shares of a thread's time that a profile assigns to a few methods, and their deviation from the truth.

use remora_profile::{Profile, ThreadIx};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The shares of a few methods in a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Each method's share of the time of all these methods, with callees.
    pub shares: Vec<f64>,
    /// The fraction of these threads' time spent elsewhere, including the clock that measures the target's true shares.
    pub elsewhere: f64,
}

/// The shares of `methods`; `None` if none of them was seen.
pub fn of_methods(profile: &Profile, methods: &[String]) -> Option<Shares> {
    let wanted: Vec<Option<usize>> =
        profile.frames().iter().map(|frame| which(profile.text(frame.name), methods)).collect();
    // For each thread: the weight in each method, and finally in none.
    let mut threads: HashMap<ThreadIx, Vec<f64>> = HashMap::new();
    for sample in profile.samples() {
        let method = profile.walk(sample.stack).find_map(|frame| wanted[frame.0 as usize]).unwrap_or(methods.len());
        let thread = threads.entry(sample.thread).or_insert_with(|| vec![0.0; methods.len() + 1]);
        thread[method] += sample.weight as f64;
    }
    let mut sums = vec![0.0; methods.len() + 1];
    for thread in threads.values().filter(|thread| thread[..methods.len()].iter().any(|weight| *weight > 0.0)) {
        sums.iter_mut().zip(thread).for_each(|(sum, weight)| *sum += weight);
    }
    let elsewhere = sums.pop()?;
    let inside: f64 = sums.iter().sum();
    let shares = sums.into_iter().map(|weight| weight / inside).collect();
    (inside > 0.0).then_some(Shares { shares, elsewhere: elsewhere / (inside + elsewhere) })
}

/// The largest difference between two lists of shares, in percentage points.
pub fn largest_deviation(found: &[f64], truth: &[f64]) -> f64 {
    found.iter().zip(truth).map(|(found, truth)| (found - truth).abs() * 100.0).fold(0.0, f64::max)
}

/// Parses a target's answer: `Alpha=0.50000 Beta=0.30000`, in the order of `methods`.
pub fn parse(answer: &str, methods: &[String]) -> Option<Vec<f64>> {
    let share = |method: &String| {
        answer.split(' ').find_map(|word| word.strip_prefix(method.as_str())?.strip_prefix('=')?.parse().ok())
    };
    methods.iter().map(share).collect()
}

/// In `Namespace.Type.Method(int)` the method is `Method`.
fn which(name: &str, methods: &[String]) -> Option<usize> {
    let (path, _) = name.split_once('(')?;
    let last = path.rsplit('.').next()?;
    methods.iter().position(|method| method == last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, FrameKind, Meta, Sample, State, Thread};

    fn methods() -> Vec<String> {
        vec!["Alpha".into(), "Beta".into()]
    }

    #[test]
    fn shares_are_of_the_threads_in_which_the_methods_run() {
        let mut profile = Profile::new(Meta::default());
        let threads = [1, 2].map(|id| profile.add_thread(Thread { id, name: String::new() }));
        let mut add = |thread, names: &[&str], weight| {
            let frames: Vec<_> = names
                .iter()
                .map(|name| {
                    let name = profile.string(name);
                    profile.frame(Frame { kind: FrameKind::Managed, name, module: None, file: None, line: None })
                })
                .collect();
            let stack = profile.stack_from_root(frames).unwrap();
            profile.add_sample(Sample { time: 0, thread, stack, weight, state: State::Running });
        };
        add(threads[0], &["Shares.Cycle()", "Shares.Alpha(long)", "read"], 6);
        add(threads[0], &["Shares.Cycle()", "Shares.Beta(long)"], 2);
        add(threads[0], &["Shares.Cycle()", "Shares.NotAlpha(long)"], 8);
        add(threads[1], &["Console.ReadLine()"], 90);
        assert_eq!(of_methods(&profile, &methods()), Some(Shares { shares: vec![0.75, 0.25], elsewhere: 0.5 }));
        assert_eq!(of_methods(&profile, &["Gamma".into()]), None);
    }

    #[test]
    fn answers_are_read_by_name() {
        assert_eq!(parse("Beta=0.25 Alpha=0.75000", &methods()), Some(vec![0.75, 0.25]));
        assert_eq!(parse("Alpha=0.75", &methods()), None);
        assert!((largest_deviation(&[0.5, 0.52], &[0.5, 0.5]) - 2.0).abs() < 1e-9);
    }
}
