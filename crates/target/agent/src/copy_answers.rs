//! The forked copy after its heap walk: it answers questions about static fields, and ends.
//!
//! A question may fault at an address near 0: the runtime's tables have a class, and its memory is not there. Seen on 9.0.7, in one of 12
//! snapshots of a program that made types all the time. Copies did not yet have their own of the runtime's shared pages
//! ([`crate::private_pages`]). The runtime's code cannot return from such a fault. So the fault handler goes on with the next question. The
//! abandoned frames below stay until the copy ends.

use crate::copy_end::end_of_copy;
use crate::faults::instead;
use remora_sampler::{Cursor, ForkedCopy, HeapReader, StreamSink, write_statics};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum of abandoned questions: each leaves its frames on the stack. Less than the maximum of abandoned faults.
const MOST: u64 = 24;

struct AnswerLoop<'a> {
    fork: &'a ForkedCopy,
    heap: &'a dyn HeapReader,
    sink: &'a mut dyn StreamSink,
    cursor: Cursor,
    given_up: &'a AtomicU64,
}

/// Answers all questions, and ends the copy. Questions that end in a fault are counted in `given_up`.
pub fn answer(fork: &ForkedCopy, heap: &dyn HeapReader, sink: &mut dyn StreamSink, given_up: &AtomicU64) -> ! {
    let mut answering = AnswerLoop { fork, heap, sink, cursor: Cursor::default(), given_up };
    let place = &raw mut answering;
    // SAFETY: this function never returns, so its frame lives as long as the copy. This is the copy's only thread.
    unsafe {
        instead(go_on_behind, place.cast());
        go_on(place)
    }
}

/// In the fault handler: abandons the last question.
///
/// # Safety
/// [`answer`] made `place`, and the code that used it before never returns.
unsafe fn go_on_behind(place: *mut c_void) -> ! {
    let place = place.cast::<AnswerLoop<'_>>();
    // SAFETY: `answer` made `place`. The faulted code that used it never returns.
    unsafe {
        if (*place).given_up.fetch_add(1, Ordering::Relaxed) >= MOST {
            // Without the end record.
            end_of_copy(0)
        }
        go_on(place)
    }
}

/// # Safety
/// As for [`go_on_behind`].
unsafe fn go_on(place: *mut AnswerLoop<'_>) -> ! {
    // SAFETY: `answer` made `place`, and only this call uses it.
    let AnswerLoop { fork, heap, sink, cursor, .. } = unsafe { &mut *place };
    write_statics(fork, *heap, *sink, cursor);
    end_of_copy(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::skip_faults;
    use remora_heap_stream::statics::{Asked, Owner, question};
    use remora_sampler::{HeapClass, HeapRange, MOST_ARGUMENTS, Walked};

    /// A heap in which one class leads to an address near 0, like a class that was made after the copy.
    struct Torn;

    impl HeapReader for Torn {
        fn ranges(&self, _: &mut [HeapRange]) -> usize {
            0
        }
        fn class_of(&self, _: u64) -> Option<u64> {
            None
        }
        fn size_of(&self, _: u64) -> Option<u64> {
            None
        }
        fn references(&self, _: u64, _: &mut dyn FnMut(u64)) {}
        fn class(&self, _: u64, _: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
            HeapClass::Unknown(0)
        }
        fn class_with(&self, module: u64, _: u32) -> Option<u64> {
            let near_zero = std::ptr::without_provenance::<u64>(if module == 2 { 0x18 } else { 0 });
            if !near_zero.is_null() {
                // SAFETY: it faults, and the copy of this process handles that fault.
                let _ = unsafe { near_zero.read_volatile() };
            }
            Some(module)
        }
        fn static_at(&self, class: u64, _: u32) -> Result<u64, u32> {
            Ok(class)
        }
    }

    /// Questions, and the number of answer records so far.
    struct Sent<'a> {
        questions: Vec<u64>,
        pieces: u64,
        end: i32,
        given_up: &'a AtomicU64,
    }

    impl StreamSink for Sent<'_> {
        fn put(&mut self, _: &[u8]) -> bool {
            true
        }
        fn put_aside(&mut self, _: &[u8]) -> bool {
            true
        }
        fn progress(&mut self, _: &Walked) {}
        fn question(&mut self, index: usize) -> Option<u64> {
            self.questions.get(index).copied()
        }
        fn answer(&mut self, record: &[u8]) -> bool {
            self.pieces += 1;
            if record.first() == Some(&0) {
                let sent = [self.pieces as u8, self.given_up.load(Ordering::Relaxed) as u8, record[1]];
                // SAFETY: live bytes and an open descriptor.
                unsafe { libc::write(self.end, sent.as_ptr().cast(), sent.len()) };
            }
            true
        }
    }

    #[test]
    fn regression_a_class_that_came_after_the_copy_ends_one_question_and_not_the_copy() {
        static GIVEN_UP: AtomicU64 = AtomicU64::new(0);
        static ABSENT: AtomicU64 = AtomicU64::new(0);
        let mut pipe = [0; 2];
        // SAFETY: `pipe` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) }, 0);
        let fields = [Asked { field: 0x0400_0001, reads: false }];
        let of = |module| question(Owner::OfMethod { module, method: 0x0600_0001 }, &fields).collect::<Vec<u64>>();
        let questions = [of(1), of(2), of(2), of(3)].concat();
        let mut sent = Sent { questions, pieces: 0, end: pipe[1], given_up: &GIVEN_UP };
        // SAFETY: the child neither allocates nor locks, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            skip_faults(&ABSENT);
            // SAFETY: the child's only thread.
            answer(&unsafe { ForkedCopy::new() }, &Torn, &mut sent, &GIVEN_UP);
        }
        let mut status = -1;
        // SAFETY: an own child; `status` is live.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        let mut bytes = [0_u8; 3];
        // SAFETY: an open descriptor, and room for the bytes. The child has written them before its end.
        let read = unsafe { libc::read(pipe[0], bytes.as_mut_ptr().cast(), 3) };
        assert_eq!((status, read, bytes), (0, 3, [3, 2, 4]), "two answers and the end, two given up, four read");
    }
}
