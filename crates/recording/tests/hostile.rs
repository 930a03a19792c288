//! A short file that unpacks to very much: it is refused before it takes the memory.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_profile::{Frame, Profile, Sample, State, Thread};
use remora_recording::{Error, Writer, limits, read};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is allocated, and the most that was at a time.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Samples of which each takes four bytes of the content, and all are the same.
const SAMPLES: usize = 6 << 20;

#[test]
fn samples_that_are_all_the_same_do_not_fill_the_memory_from_a_file_of_some_kilobytes() {
    let file = {
        let mut profile = Profile::default();
        let name = profile.string("Busy.Work()");
        let frame = profile.frame(Frame::unknown(name));
        let stack = profile.stack(None, frame);
        let thread = profile.add_thread(Thread { id: 1, name: String::new() });
        let sample = Sample { time: 0, thread, stack, weight: 0, state: State::Running };
        (0..SAMPLES).for_each(|_| profile.add_sample(sample));
        Writer::create(Vec::new()).unwrap().finish(&profile).unwrap()
    };
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let refused = read(&file[..]);
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{} bytes were read", file.len());
    // What may be unpacked takes eight times as much as samples, and an array that grows is three times as long for a moment.
    let may_unpack = (8 << 20) + limits::RATIO as usize * file.len();
    assert!(most < 24 * may_unpack, "{} MiB for {} KiB", most >> 20, file.len() >> 10);
}
