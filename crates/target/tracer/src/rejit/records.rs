//! Records of slow calls: stack, arguments, result.
//!
//! The IL calls these functions by `calli` with the unmanaged convention. The thread is in preemptive mode, as in any P/Invoke, so they may
//! allocate and walk the stack. A record is put together in a slot of a fixed pool.

use super::shared::{count, ring};
use super::{names, origins, probes, runtime, shared};
use corprof::{HResult, sys};
use remora_wire::method_trace::memory::{RECORDS_LOST, STACK_TIME, STACKS_FAILED};
use remora_wire::method_trace::{LONGEST_TEXT, MOST_FRAMES, MOST_VALUES, TraceRecord, TraceValue};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Threads that can make a record at the same time.
const SLOTS: usize = 64;

struct Slot {
    is_taken: AtomicBool,
    record: UnsafeCell<Option<TraceRecord>>,
}

// SAFETY: only the thread that set `is_taken` uses the record.
unsafe impl Sync for Slot {}

static POOL: [Slot; SLOTS] =
    [const { Slot { is_taken: AtomicBool::new(false), record: UnsafeCell::new(None) } }; SLOTS];

/// Begins a record. Returns the number of its slot plus 1, or 0 if there is none.
pub(crate) extern "C" fn begin(id: u32, begin: u64, duration: u64, is_thrown: u32) -> usize {
    make(id, begin, duration, is_thrown != 0, stack)
}

/// Begins the record of an asynchronous call, by what a probe returned. Its callers are on the stack only in its first step.
pub(crate) extern "C" fn begin_async(id: u32, task: u64, duration: u64, is_first: u32) -> usize {
    let is_thrown = duration & probes::IS_THROWN != 0;
    let duration = duration & !probes::IS_THROWN;
    let begin = probes::now().saturating_sub(duration);
    make(id, begin, duration, is_thrown, || if is_first != 0 { stack() } else { origins::take(id, task) })
}

/// The first step of an asynchronous call is over: keeps its callers, if there is room.
pub(crate) extern "C" fn origin(id: u32, task: u64) {
    let _ = catch_unwind(|| {
        if origins::is_due() {
            origins::keep(id, task, stack());
        }
    });
}

fn make(id: u32, begin: u64, duration: u64, is_thrown: bool, stack: impl FnOnce() -> Vec<u64>) -> usize {
    let made = catch_unwind(AssertUnwindSafe(|| {
        let taken = POOL.iter().position(|slot| !slot.is_taken.swap(true, Ordering::Acquire));
        let Some(number) = taken else {
            count(RECORDS_LOST);
            return 0;
        };
        let record = TraceRecord {
            method: probes::method(id),
            is_thrown,
            // SAFETY: takes no arguments.
            thread: unsafe { libc::syscall(libc::SYS_gettid) } as u32,
            begin,
            duration,
            stack: stack(),
            values: Vec::new(),
        };
        // SAFETY: this thread has taken the slot.
        unsafe { *POOL[number].record.get() = Some(record) };
        number + 1
    }));
    made.unwrap_or(0)
}

/// Adds a number: the kind is that of [`TraceValue`] on the wire.
pub(crate) extern "C" fn number(slot: usize, position: u32, kind: u32, bits: u64) {
    add(slot, position, || match kind {
        0 => TraceValue::Bool(bits & 0xFF != 0),
        1 => TraceValue::Char(bits as u16),
        2 => TraceValue::Signed(bits as i64),
        _ => TraceValue::Unsigned(bits),
    });
}

/// Adds a floating-point number.
pub(crate) extern "C" fn float(slot: usize, position: u32, value: f64) {
    add(slot, position, || TraceValue::Float(value));
}

/// Adds a string: `text` is the address of the pinned object, or null.
pub(crate) extern "C" fn text(slot: usize, position: u32, text: *const u8) {
    add(slot, position, || {
        if text.is_null() {
            return TraceValue::Null;
        }
        // A string is a pointer to its type, its length, its UTF-16 units: `StringObject` of src/coreclr/vm/object.h. The tests see it on
        // every runtime.
        // SAFETY: the IL passes a pinned string.
        let length = unsafe { text.add(8).cast::<u32>().read() };
        let kept = (length as usize).min(LONGEST_TEXT);
        // SAFETY: the units follow the length, and there are at least `kept`.
        let units = unsafe { std::slice::from_raw_parts(text.add(12).cast::<u16>(), kept) };
        let mut shown = String::from_utf16_lossy(units);
        shown.truncate(remora_wire::floor_char_boundary(&shown, LONGEST_TEXT));
        TraceValue::Text(shown, length)
    });
}

/// Adds a structure of 16 bytes in a local.
pub(crate) extern "C" fn wide(slot: usize, position: u32, place: *const u8) {
    // SAFETY: the IL passes the address of a local of that size.
    add(slot, position, || TraceValue::Wide(u128::from_le_bytes(unsafe { place.cast::<[u8; 16]>().read() })));
}

/// Adds a structure of 8 bytes in a local.
pub(crate) extern "C" fn ticks(slot: usize, position: u32, place: *const u8) {
    // SAFETY: the IL passes the address of a local of that size.
    add(slot, position, || TraceValue::Unsigned(u64::from_le_bytes(unsafe { place.cast::<[u8; 8]>().read() })));
}

/// Ends a record, and sends it.
pub(crate) extern "C" fn commit(slot: usize) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let Some(slot) = slot.checked_sub(1).and_then(|number| POOL.get(number)) else { return };
        // SAFETY: `begin` gave the slot to this thread.
        let record = unsafe { (*slot.record.get()).take() };
        slot.is_taken.store(false, Ordering::Release);
        let Some(record) = record else { return };
        names::ask_for(&record.stack);
        let sent = ring().map(|ring| ring.push_bytes(1, &record.encode()));
        if !matches!(sent, Some(Ok(()))) {
            count(RECORDS_LOST);
        }
    }));
}

fn add(slot: usize, position: u32, value: impl FnOnce() -> TraceValue) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let Some(slot) = slot.checked_sub(1).and_then(|number| POOL.get(number)) else { return };
        // SAFETY: `begin` gave the slot to this thread.
        let record = unsafe { &mut *slot.record.get() };
        if let Some(record) = record.as_mut().filter(|record| record.values.len() < MOST_VALUES) {
            record.values.push((position as u8, value()));
        }
    }));
}

/// The managed functions on the calling thread's stack, innermost first.
fn stack() -> Vec<u64> {
    let begin = probes::now();
    let functions = walked();
    shared::add(STACK_TIME, probes::now().saturating_sub(begin));
    functions
}

fn walked() -> Vec<u64> {
    let mut functions: Vec<u64> = Vec::with_capacity(MOST_FRAMES);
    let Some(info) = runtime::info() else { return functions };
    // SAFETY: the object is valid; null stands for the calling thread; the callback only uses `functions`, which outlives the call.
    let answer = HResult(unsafe {
        sys::ICorProfilerInfo2::DoStackSnapshot(
            info.as_raw().cast(),
            0,
            Some(frame),
            0,
            (&raw mut functions).cast(),
            std::ptr::null(),
            0,
        )
    });
    if functions.is_empty() && !answer.is_success() {
        count(STACKS_FAILED);
    }
    functions
}

unsafe extern "C" fn frame(
    function: usize,
    _ip: usize,
    _frame: usize,
    _length: u32,
    _context: *mut u8,
    functions: *mut c_void,
) -> i32 {
    // SAFETY: the pointer that `stack` passed.
    let functions = unsafe { &mut *functions.cast::<Vec<u64>>() };
    if function != 0 && functions.len() < MOST_FRAMES {
        functions.push(function as u64);
    }
    // Any other answer than S_OK ends the walk.
    i32::from(functions.len() == MOST_FRAMES)
}
