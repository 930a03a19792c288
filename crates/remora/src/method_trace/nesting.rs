//! Which recorded call ran within which other one.

use remora_wire::method_trace::TraceRecord;
use std::cmp::Reverse;

/// For each call, the index of the innermost other one of its thread that it ran within.
///
/// A call of an asynchronous method contains none: while it waits, its thread does other work. It is within another only if its whole time
/// is, and `is_below` says that the other is among its callers: its record has the thread that ended it.
pub(super) fn within(
    calls: &[TraceRecord],
    is_async: impl Fn(&TraceRecord) -> bool,
    is_below: impl Fn(&TraceRecord, &TraceRecord) -> bool,
) -> Vec<Option<usize>> {
    let end = |call: &TraceRecord| call.begin.saturating_add(call.duration);
    let mut order: Vec<usize> = (0..calls.len()).collect();
    // The outer one of two that begin together comes first.
    order.sort_by_key(|index| (calls[*index].thread, calls[*index].begin, Reverse(calls[*index].duration)));
    let mut within = vec![None; calls.len()];
    // Calls of one thread that have not ended, the innermost last.
    let mut open: Vec<usize> = Vec::new();
    for index in order {
        let call = &calls[index];
        while open.last().is_some_and(|last| calls[*last].thread != call.thread || end(&calls[*last]) < call.begin) {
            open.pop();
        }
        let is_async = is_async(call);
        let contains =
            |outer: &&usize| end(&calls[**outer]) >= end(call) && (!is_async || is_below(call, &calls[**outer]));
        within[index] = open.iter().rev().find(contains).copied();
        if !is_async {
            open.push(index);
        }
    }
    within
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: u32, thread: u32, begin: u64, duration: u64) -> TraceRecord {
        TraceRecord { method, is_thrown: false, thread, begin, duration, stack: Vec::new(), values: Vec::new() }
    }

    #[test]
    fn a_call_is_within_the_innermost_of_its_thread_that_contains_it() {
        let calls = [
            call(1, 7, 100, 100),
            call(2, 7, 110, 50),
            call(3, 7, 120, 10),
            call(4, 7, 170, 30),
            call(5, 8, 120, 10),
            call(6, 7, 250, 10),
            call(7, 7, 120, 10),
        ];
        let found = within(&calls, |_| false, |_, _| true);
        assert_eq!(found, [None, Some(0), Some(1), Some(0), None, None, Some(2)]);
    }

    #[test]
    fn an_asynchronous_call_contains_none_and_is_within_its_callers_only() {
        let calls = [call(1, 7, 100, 100), call(2, 7, 110, 50), call(3, 7, 120, 10), call(2, 7, 180, 90)];
        let is_async = |call: &TraceRecord| call.method == 2;
        assert_eq!(within(&calls, is_async, |_, _| true), [None, Some(0), Some(0), None]);
        assert_eq!(within(&calls, is_async, |_, _| false), [None, None, Some(0), None]);
    }
}
