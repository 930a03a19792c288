//! The schedule's functions on threads of the system. A process uses them for good, so this is a separate test program.

use remora_clr_model::schedule::threads::{COMPRESSION, use_os_threads};
use remora_clr_model::schedule::{self, Task};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[test]
fn threads_of_the_system_take_part_in_a_schedule_and_time_is_compressed() {
    let os_threads = use_os_threads(7);
    assert!(os_threads.is_own());
    let steps = Arc::new(AtomicU32::new(0));
    let of_threads = steps.clone();
    let begin = || {
        let steps = of_threads.clone();
        schedule::spawn("steps", move || {
            schedule::point();
            steps.fetch_add(1, Ordering::SeqCst);
        })
    };
    let tasks: Vec<Task> = (0..4).map(|_| begin()).collect();
    assert!(schedule::wait_until(None, || tasks.iter().all(|task| schedule::has_ended(*task))));
    assert_eq!(steps.load(Ordering::SeqCst), 4);
    assert_eq!(os_threads.with_own_threads(<[u32]>::len), 5, "each is known, this one too");

    let (begun, before) = (Instant::now(), schedule::now());
    schedule::sleep(1_000_000_000);
    assert!(schedule::now() - before >= 1_000_000_000, "a second of the model has passed");
    assert!(begun.elapsed() >= Duration::from_secs(1) / COMPRESSION);

    let foreign = std::thread::spawn(move || (schedule::current(), os_threads.is_own()));
    let (task, is_own) = foreign.join().expect("it ends");
    assert!(!is_own, "nobody began it");
    assert_ne!(task, schedule::current(), "a thread of somebody else's has a place of its own");

    schedule::stop();
    assert!(schedule::is_stopped());
    assert!(!schedule::wait_until(None, || false), "who waits for ever goes on when the world is stopped");
}
