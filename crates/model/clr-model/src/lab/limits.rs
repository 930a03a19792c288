//! Limits of the process that a run needs: memory, threads and descriptors for the model.
//!
//! A limit that a profiler lowers would end the run, and not the profiler. So it is raised again as far as the system allows, and noted.

use super::page::Line;
use std::array::from_fn;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

type Resource = libc::__rlimit_resource_t;

/// What the model needs a limit for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    None,
    Memory,
    /// Descriptors or threads.
    Other,
}

/// Every limit, with its name.
const LIMITS: [(Resource, &str, Need); 16] = [
    (libc::RLIMIT_AS, "RLIMIT_AS", Need::Memory),
    (libc::RLIMIT_CORE, "RLIMIT_CORE", Need::None),
    (libc::RLIMIT_CPU, "RLIMIT_CPU", Need::None),
    (libc::RLIMIT_DATA, "RLIMIT_DATA", Need::Memory),
    (libc::RLIMIT_FSIZE, "RLIMIT_FSIZE", Need::None),
    (libc::RLIMIT_LOCKS, "RLIMIT_LOCKS", Need::None),
    (libc::RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", Need::None),
    (libc::RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE", Need::None),
    (libc::RLIMIT_NICE, "RLIMIT_NICE", Need::None),
    (libc::RLIMIT_NOFILE, "RLIMIT_NOFILE", Need::Other),
    (libc::RLIMIT_NPROC, "RLIMIT_NPROC", Need::Other),
    (libc::RLIMIT_RSS, "RLIMIT_RSS", Need::None),
    (libc::RLIMIT_RTPRIO, "RLIMIT_RTPRIO", Need::None),
    (libc::RLIMIT_RTTIME, "RLIMIT_RTTIME", Need::None),
    (libc::RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING", Need::None),
    (libc::RLIMIT_STACK, "RLIMIT_STACK", Need::None),
];

/// In a message of the model's that it has no memory, thread or descriptor: error codes as Rust shows them, in two ways.
const WANTS: [&str; 7] =
    ["code: 11,", "code: 12,", "code: 24,", "os error 11)", "os error 12)", "os error 24)", "failed to spawn thread"];

/// The limits before the profiler.
static BEFORE: OnceLock<[libc::rlimit; LIMITS.len()]> = OnceLock::new();
/// What the profiler first lowered each limit to.
static LOWERED: [AtomicU64; LIMITS.len()] = [const { AtomicU64::new(libc::RLIM_INFINITY) }; LIMITS.len()];
/// The limits of which [`newly_lowered`] has told, as bits.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// The limits from now on are not the profiler's.
pub fn begin() {
    // The first call counts.
    let _ = BEFORE.set(now());
}

/// The soft value of every limit, with its name.
pub fn soft() -> [(&'static str, u64); LIMITS.len()] {
    from_fn(|place| (LIMITS[place].1, limit(LIMITS[place].0).rlim_cur))
}

/// Raises needed limits that the profiler has lowered, and notes them.
pub fn raise_lowered() {
    for place in lowered() {
        let value = limit(LIMITS[place].0).rlim_cur;
        // The first value counts.
        let _ = LOWERED[place].compare_exchange(libc::RLIM_INFINITY, value, Ordering::SeqCst, Ordering::SeqCst);
        raise(place);
    }
}

/// What was noted since the last call, with the value.
pub fn newly_lowered() -> Vec<(&'static str, u64)> {
    let is_new = |place: &usize| is_noted(*place) && TOLD.fetch_or(1 << place, Ordering::SeqCst) & 1 << place == 0;
    let new = (0..LIMITS.len()).filter(is_new);
    new.map(|place| (LIMITS[place].1, LOWERED[place].load(Ordering::SeqCst))).collect()
}

/// Whether the profiler has lowered this needed limit.
pub fn was_lowered(name: &str) -> bool {
    LIMITS.iter().position(|(_, known, _)| *known == name).is_some_and(is_noted)
}

/// Whether the profiler has lowered a limit that the run needs. A signal handler may ask.
pub fn is_limited() -> bool {
    (0..LIMITS.len()).any(is_noted) || lowered().next().is_some()
}

/// Whether the system does not let a limit of memory be raised again: then nothing more can be loaded.
pub fn forbid_memory() -> bool {
    raise_lowered();
    lowered().any(|place| LIMITS[place].2 == Need::Memory)
}

/// Whether this is a message of the model's that it has no memory, thread or descriptor.
pub fn is_want(message: &str) -> bool {
    WANTS.iter().any(|want| message.contains(want))
}

/// What is said of a run that ends early because the model lacks what a limit forbids: nothing about the profiler's own end.
pub fn of_early_end() -> [Line; 2] {
    let message = "the profiler lowers a limit of the process, and then the process died for want of memory, threads or descriptors";
    let unjudged = "a run ended early: the profiler had lowered a limit that the run needs";
    [Line::Seen(message.to_owned()), Line::Unjudged { clause: "MOD-01".into(), message: unjudged.into() }]
}

fn is_noted(place: usize) -> bool {
    LOWERED[place].load(Ordering::SeqCst) != libc::RLIM_INFINITY
}

fn now() -> [libc::rlimit; LIMITS.len()] {
    LIMITS.map(|(resource, ..)| limit(resource))
}

fn lowered() -> impl Iterator<Item = usize> {
    let before = BEFORE.get();
    let is_lower =
        move |place: &usize| before.is_some_and(|before| limit(LIMITS[*place].0).rlim_cur < before[*place].rlim_cur);
    (0..LIMITS.len()).filter(|place| LIMITS[*place].2 != Need::None).filter(is_lower)
}

/// As high as before, or as high as the system allows.
fn raise(place: usize) {
    let (resource, wanted) = (LIMITS[place].0, BEFORE.get().map(|before| before[place]));
    let Some(wanted) = wanted else { return };
    // SAFETY: a local value.
    if unsafe { libc::setrlimit(resource, &raw const wanted) } == 0 {
        return;
    }
    let most = limit(resource).rlim_max;
    let possible = libc::rlimit { rlim_cur: most.min(wanted.rlim_cur), rlim_max: most };
    // SAFETY: a local value. A failure leaves the limit.
    unsafe { libc::setrlimit(resource, &raw const possible) };
}

fn limit(resource: Resource) -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a local place.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_models_is_about_a_limit_only_if_it_says_so() {
        let full = "called `Result::unwrap()` on an `Err` value: Os { code: 24, kind: Uncategorized, message: \"Too many open files\" }";
        assert!(is_want(full));
        assert!(is_want("failed to allocate an alternative stack: Cannot allocate memory (os error 12)"));
        assert!(!is_want("index out of bounds: the len is 3 but the index is 3"));
    }
}
