//! Folded stacks: `thread;outermost;...;leaf weight`, a line for each distinct stack, as `flamegraph.pl` reads them.
//! Stacks that differ only by source lines give several lines with the same names; readers add those up.
//!
//! Weights are whole microseconds: that script needs integers, and nanoseconds are unreadable.
//! The rounding error of each line is carried to the next, so the sum of all lines is the total weight to the nearest microsecond.
//! Bytes are bytes.
//! Lines with weight 0 are omitted.
//!
//! In names `;` becomes `:` and each control character a space, since both would change how a line is read.
//! A blocked sample has a `[blocked]` on top of its leaf; the format has no other place for it.
//! Lost samples are lines of weight 0, `[lost];40 samples, ring-full 0`: readable, and without effect on a flame graph.
//!
//! No comments: readers of this format do not support them.

use crate::{Format, size, sums};
use remora_profile::{FrameIx, Profile, State, Unit};
use std::io::{self, Write};

const NANOSECONDS_A_MICROSECOND: u64 = 1_000;

pub(crate) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let threads: Vec<String> = profile.threads().iter().map(|thread| cleaned(&thread.label())).collect();
    let names = names(profile);
    let sums = sums::of(profile);
    let sizes = size::of_stacks(profile, |frame| 1 + names[profile.frame_at(frame).name.0 as usize].len() as u64);
    let line = |sum: &sums::Sum| threads[sum.thread.0 as usize].len() as u64 + sizes[sum.stack.0 as usize];
    size::check(Format::Folded, sums.iter().map(line))?;
    let mut stack: Vec<FrameIx> = Vec::new();
    let unit = match profile.meta.unit {
        Unit::Nanoseconds => NANOSECONDS_A_MICROSECOND,
        Unit::Bytes => 1,
    };
    let mut carry = unit / 2;
    for sum in sums {
        carry += sum.weight;
        let weight = carry / unit;
        carry %= unit;
        if weight == 0 {
            continue;
        }
        out.write_all(threads[sum.thread.0 as usize].as_bytes())?;
        stack.clear();
        stack.extend(profile.walk(sum.stack));
        for frame in stack.iter().rev() {
            write!(out, ";{}", names[profile.frame_at(*frame).name.0 as usize])?;
        }
        if sum.state == State::Blocked {
            write!(out, ";{}", crate::BLOCKED)?;
        }
        writeln!(out, " {weight}")?;
    }
    for (cause, count) in &profile.loss.lost {
        writeln!(out, "[lost];{count} samples, {} 0", cause.name())?;
    }
    Ok(())
}

/// All texts, cleaned. By text, not by frame: any number of frames may have the same long name.
fn names(profile: &Profile) -> Vec<String> {
    profile.strings().iter().map(|name| cleaned(name)).collect()
}

fn cleaned(name: &str) -> String {
    let clean = |letter: char| match letter {
        ';' => ':',
        letter if letter.is_control() => ' ',
        letter => letter,
    };
    name.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, FrameKind, Meta};

    #[test]
    fn regression_a_long_name_was_kept_once_for_each_of_its_frames() {
        let mut profile = Profile::new(Meta::default());
        let name = profile.string(&"n".repeat(16 << 10));
        for line in 0..1000 {
            profile.frame(Frame { kind: FrameKind::Managed, name, module: None, file: None, line: Some(line) });
        }
        assert_eq!(names(&profile).iter().map(String::len).sum::<usize>(), 16 << 10);
    }
}
