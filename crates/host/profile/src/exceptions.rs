//! Thrown exceptions, and where the application throws them.

use crate::{ApplicationRule, Attribution, FrameIx, NumberMap, Profile, StackIx, StringIx, ThreadIx};
use std::cmp::Reverse;
use std::collections::HashSet;

/// A thrown exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thrown {
    /// Nanoseconds since [`crate::Meta::started_unix_nanoseconds`], by the monotonic clock.
    pub time: u64,
    /// The thread that threw it.
    pub thread: ThreadIx,
    /// The full name of its type.
    pub exception: StringIx,
    /// The stack; its leaf is the managed method that threw.
    pub stack: StackIx,
}

/// Exceptions of one type from one application method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrownFrom {
    /// The full name of the type.
    pub exception: StringIx,
    /// The application method nearest to the throw, with its line. `None` if there is none on the stack.
    pub frame: Option<FrameIx>,
    /// The method that threw.
    pub thrower: FrameIx,
    /// How many.
    pub count: u64,
    /// How many threads threw them.
    pub threads: usize,
}

impl ThrownFrom {
    /// The exceptions of `profile`, most first.
    pub fn all(profile: &Profile, rule: &ApplicationRule) -> Vec<ThrownFrom> {
        let attributions = if profile.thrown().is_empty() { Vec::new() } else { Attribution::of_stacks(profile, rule) };
        let mut sums = NumberMap::<_, (u64, HashSet<ThreadIx>)>::default();
        for thrown in profile.thrown() {
            let nearest = attributions[thrown.stack.0 as usize].nearest;
            let key = (thrown.exception, nearest, profile.stack_at(thrown.stack).frame);
            let (count, threads) = sums.entry(key).or_default();
            *count += 1;
            threads.insert(thrown.thread);
        }
        let row = |((exception, frame, thrower), (count, threads)): (_, (u64, HashSet<ThreadIx>))| ThrownFrom {
            exception,
            frame,
            thrower,
            count,
            threads: threads.len(),
        };
        let mut rows: Vec<ThrownFrom> = sums.into_iter().map(row).collect();
        rows.sort_by_key(|row| (Reverse(row.count), row.exception, row.frame, row.thrower));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, FrameKind, Meta, Thread};

    #[test]
    fn exceptions_are_counted_by_type_and_by_the_application_method_that_causes_them() {
        let mut profile = Profile::new(Meta::default());
        let mut frame = |module: &str, name: &str| {
            let (name, module) = (profile.string(name), profile.string(module));
            profile.frame(Frame { kind: FrameKind::Managed, module: Some(module), ..Frame::unknown(name) })
        };
        let (main, parse, number) =
            (frame("App.dll", "Main"), frame("App.dll", "Parse"), frame("System.Private.CoreLib.dll", "int.Parse"));
        let [one, other] = [1, 2].map(|id| profile.add_thread(Thread { id, name: String::new() }));
        let format = profile.string("System.FormatException");
        let parsed = profile.stack_from_root([main, parse, number]).expect("frames");
        let outside = profile.stack_from_root([number]).expect("frames");
        for (thread, stack) in [(one, parsed), (one, outside), (other, parsed), (one, parsed)] {
            profile.add_thrown(Thrown { time: 0, thread, exception: format, stack });
        }
        let rows = ThrownFrom::all(&profile, &ApplicationRule::default());
        let row = |frame, count, threads| ThrownFrom { exception: format, frame, thrower: number, count, threads };
        assert_eq!(rows, [row(Some(parse), 3, 2), row(None, 1, 1)]);
        assert_eq!(ThrownFrom::all(&Profile::default(), &ApplicationRule::default()), []);
    }
}
