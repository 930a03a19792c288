//! Advice of the crates beneath, where it does not lead to what was wanted: a heap is told by the agent alone, and not recorded.

/// A way out that is none for a heap.
const OTHER_ENGINE: &str = "--engine eventpipe";
/// And one that makes a recording.
const OTHER_COMMAND: &str = "`remora record -- CMD`";

/// Advice is a list of ways after a semicolon: what is left of it where some ways are not open.
pub(super) fn of_a_heap(message: &str) -> String {
    message.split("; ").map(part).collect::<Vec<_>>().join("; ")
}

fn part(part: &str) -> String {
    let is_open = |way: &&str| !way.contains(OTHER_ENGINE) && !way.contains(OTHER_COMMAND);
    if is_open(&part) {
        return part.to_owned();
    }
    let open: Vec<&str> = part.split(", or ").filter(is_open).collect();
    match (open.is_empty(), part.contains(OTHER_ENGINE)) {
        (false, _) => open.join(", or "),
        (true, true) => "only the agent can tell a heap".to_owned(),
        (true, false) => "if it will do so later, take the snapshot then".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::failure::Failure;
    use remora_trigger::{Error, Reason};

    #[test]
    fn a_heap_has_no_other_engine_and_nobody_is_sent_to_it() {
        let cases = [
            ("found; use `--engine eventpipe`", "found; only the agent can tell a heap"),
            ("no memory: 7; free 8 MiB of memory, or use --engine eventpipe", "no memory: 7; free 8 MiB of memory"),
            ("found; use `--engine eventpipe`, or start it anew; besides, more", "found; start it anew; besides, more"),
            ("found; do this, or that", "found; do this, or that"),
        ];
        for (message, left) in cases {
            assert_eq!(of_a_heap(message), left);
        }
        let failure = || Failure::Precondition {
            process_id: 7,
            found: "musl".into(),
            remedy: "the agent is made for glibc; use `--engine eventpipe`".into(),
            exit: Exit::CannotLoad,
        };
        let told = failure().of_a_heap();
        assert_eq!((told.exit(), told.to_string().contains("eventpipe")), (Exit::CannotLoad, false));
        let told = Failure::LeftBehind(Box::new(failure())).of_a_heap();
        assert_eq!((told.exit(), told.to_string().contains("eventpipe")), (Exit::Unclean, false));
    }

    #[test]
    fn who_records_with_the_other_engine_is_named() {
        let holder = "process 9 (remora record --engine eventpipe -p 7)".to_owned();
        let found = Failure::Precondition {
            process_id: 7,
            found: format!("it is being recorded by {holder}"),
            remedy: "wait for that recording to end, or end it".into(),
            exit: Exit::Held,
        };
        for failure in [found, Failure::Held { process_id: 7, holder }] {
            let told = failure.of_a_heap().to_string();
            assert!(told.contains("process 9 (remora record"), "{told}");
        }
    }

    #[test]
    fn whoever_wants_a_snapshot_is_not_told_to_record() {
        let not_dotnet = Error::NotDotNet { pid: 1, name: "init".into() };
        let reason = Reason::NoSocket { name: "dotnet-diagnostic-7".into(), searched: "/tmp".into() };
        for error in [not_dotnet, Error::NotAttachable { pid: 7, reason }] {
            let (before, exit) = (error.to_string(), Failure::from(error));
            let told = exit.of_a_heap();
            assert!(matches!(told, Failure::OfAHeap(_)) && before.contains("remora record"), "{before}");
            assert!(!told.to_string().contains("remora record"), "{told}");
        }
    }
}
