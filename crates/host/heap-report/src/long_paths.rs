//! Cuts long paths in their middle. A snapshot is untrusted: a path may have millions of objects, and each the same type name of kilobytes.

use remora_heap::Allowance;
use std::ops::Range;

/// As text, a longer path has this many objects of its beginning, and of its end.
pub(crate) const TEXT: [usize; 2] = [10, 5];
/// The same in JSON.
pub(crate) const JSON: [usize; 2] = [5000, 5000];
/// What a step or a row takes beside its name, bytes.
pub(crate) const STEP: usize = 64;

/// The places in the middle of a path of `count` steps that are left out.
pub(crate) fn middle(count: usize, [begins, ends]: [usize; 2]) -> Range<usize> {
    let begins = begins.min(count);
    begins..count.saturating_sub(ends).max(begins)
}

/// The same, if the shown steps must fit into an allowance, too. Once it is used up, all steps are left out.
pub(crate) fn middle_within<'a>(
    count: usize,
    most: [usize; 2],
    allowance: &Allowance,
    name: impl Fn(usize) -> &'a str,
) -> Range<usize> {
    let longest = middle(count, most);
    let mut shown = 0..count;
    while shown.start < longest.start || shown.end > longest.end {
        let is_first = shown.end == longest.end || shown.start < longest.start && shown.start <= count - shown.end;
        let place = if is_first { shown.start } else { shown.end - 1 };
        if !allowance.take(STEP + name(place).len()) {
            break;
        }
        if is_first { shown.start += 1 } else { shown.end -= 1 }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_in_its_middle_if_it_is_too_long() {
        let of = |count| middle(count, TEXT);
        assert_eq!([of(0).len(), of(3).len(), of(15).len()], [0, 0, 0]);
        assert_eq!([of(16), of(100)], [10..11, 10..95]);
        let within = |count| middle_within(count, TEXT, &Allowance::new(1 << 20), |_| "App.Node");
        for count in [0, 3, 15, 16, 100] {
            assert_eq!(within(count), middle(count, TEXT), "{count}");
        }
    }

    #[test]
    fn a_path_without_room_for_its_names_keeps_its_ends() {
        let allowance = Allowance::new(6 * (STEP + 8));
        assert_eq!(middle_within(100, TEXT, &allowance, |_| "App.Node"), 3..97);
        assert_eq!(middle_within(100, TEXT, &allowance, |_| ""), 0..100);
    }
}
