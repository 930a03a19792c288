//! The origin of a snapshot: application and time.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use remora_heap_file::State;

/// The origin in one line. The file has it after the objects, so a truncated file lacks it.
pub(crate) fn origin(state: &State) -> String {
    in_zone(state, &TimeZone::system())
}

fn in_zone(state: &State, zone: &TimeZone) -> String {
    if *state == State::default() {
        return "of which process is not known: the file ends before that, and before the names of types".to_owned();
    }
    let taken = taken(state.taken_unix_nanoseconds, zone).map(|taken| format!(", taken {taken}")).unwrap_or_default();
    format!("{} ({}), {}{taken}", state.application, state.process_id, state.runtime)
}

/// `2026-01-02 03:04:05 +01:00`; `None` if unknown.
fn taken(unix_nanoseconds: u64, zone: &TimeZone) -> Option<String> {
    let time = Timestamp::from_nanosecond(unix_nanoseconds.into()).ok().filter(|_| unix_nanoseconds > 0)?;
    Some(time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string())
}

/// Doubts about a comparison of two snapshots.
pub(crate) fn doubts(before: &State, after: &State) -> Vec<String> {
    let unknown = State::default();
    if *before == unknown || *after == unknown {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    if before.application != after.application {
        let [first, second] = [before, after].map(|state| &state.application);
        doubts.push(format!(
            "the two are of different programs, {first} and {second}: types that are called the same need not be the same"
        ));
    } else if before.process_id != after.process_id {
        doubts.push("the two are of different processes: what has changed has not grown in one of them".to_owned());
    }
    if after.taken_unix_nanoseconds < before.taken_unix_nanoseconds {
        doubts.push("the second was taken before the first: what is shown as grown has shrunk".to_owned());
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(application: &str, process_id: u32, taken_unix_nanoseconds: u64) -> State {
        let runtime = ".NET 8.0.4".to_owned();
        State { application: application.to_owned(), process_id, runtime, taken_unix_nanoseconds, ..State::default() }
    }

    #[test]
    fn a_snapshot_is_reported_with_when_it_was_taken_where_that_is_known() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let known = state("Shop", 4711, 1_767_319_445_999_000_000);
        assert_eq!(in_zone(&known, &zone), "Shop (4711), .NET 8.0.4, taken 2026-01-02 03:04:05 +01:00");
        assert_eq!(in_zone(&state("Shop", 4711, 0), &zone), "Shop (4711), .NET 8.0.4");
        assert_eq!(
            in_zone(&state("Shop", 4711, u64::MAX), &zone),
            "Shop (4711), .NET 8.0.4, taken 2554-07-22 00:34:33 +01:00"
        );
        assert!(in_zone(&State::default(), &zone).starts_with("of which process is not known"));
    }

    #[test]
    fn what_should_not_be_compared_is_reported() {
        let of = |before, after| doubts(&before, &after).join("; ");
        assert_eq!(of(state("Shop", 1, 5), state("Shop", 1, 6)), "");
        assert_eq!(of(state("Shop", 1, 5), State::default()), "", "of one it is not known");
        assert!(
            of(state("Shop", 1, 5), state("Orders", 2, 6))
                .starts_with("the two are of different programs, Shop and Orders:")
        );
        assert!(of(state("Shop", 1, 5), state("Shop", 2, 6)).starts_with("the two are of different processes"));
        assert!(of(state("Shop", 1, 6), state("Shop", 1, 5)).starts_with("the second was taken before the first"));
    }
}
