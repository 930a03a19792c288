//! What the copy of the process does when it has walked: it answers questions about static fields, and ends.
//!
//! A question may end in a fault at an address near 0, where a class is known to the runtime's tables and not there: seen on 9.0.7 before
//! copies kept their own of what the runtime shares ([`crate::private_pages`]), in one of 12 snapshots of a program that makes types all the
//! time. Whoever asks does not come back from there; so the answering goes on behind that question, in the handler of the fault, and what
//! was abandoned below stays so until the copy ends.

use crate::faults::instead;
use crate::snapshot::end_of_copy;
use remora_sampler::{Cursor, ForkedCopy, HeapReader, StreamSink, write_statics};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// Questions that are given up: each leaves its frames on the stack. Less than the faults that are borne at all.
const MOST: u64 = 24;

struct AnswerLoop<'a> {
    fork: &'a ForkedCopy,
    heap: &'a dyn HeapReader,
    sink: &'a mut dyn StreamSink,
    cursor: Cursor,
    given_up: &'a AtomicU64,
}

/// Answers all questions, but those that end in a fault, which are counted in `given_up`; and ends the copy.
pub fn answer(fork: &ForkedCopy, heap: &dyn HeapReader, sink: &mut dyn StreamSink, given_up: &AtomicU64) -> ! {
    let mut answering = AnswerLoop { fork, heap, sink, cursor: Cursor::default(), given_up };
    let place = &raw mut answering;
    // SAFETY: this function never returns, so that what is in its frame lives as long as the copy, whose only thread this is.
    unsafe {
        instead(go_on_behind, place.cast());
        go_on(place)
    }
}

/// In the handler of a fault: the question that was asked last is given up.
///
/// # Safety
/// `place` is what [`answer`] made, and whoever used it before does not come back.
unsafe fn go_on_behind(place: *mut c_void) -> ! {
    let place = place.cast::<AnswerLoop<'_>>();
    // SAFETY: the caller's promise.
    unsafe {
        if (*place).given_up.fetch_add(1, Ordering::Relaxed) >= MOST {
            // Without the word that says that it was all.
            end_of_copy(0)
        }
        go_on(place)
    }
}

/// # Safety
/// As for [`go_on_behind`].
unsafe fn go_on(place: *mut AnswerLoop<'_>) -> ! {
    // SAFETY: the caller's promise.
    let AnswerLoop { fork, heap, sink, cursor, .. } = unsafe { &mut *place };
    write_statics(fork, *heap, *sink, cursor);
    end_of_copy(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::skip_faults;
    use remora_sampler::{HeapClass, HeapRange, MOST_ARGUMENTS, Walked};
    use remora_wire::heap::statics::{Asked, Owner, question};

    /// A heap in which one class leads to an address near 0, as one does that was not there when the copy was made.
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
                // SAFETY: it faults, in a copy of this process that forgives that.
                let _ = unsafe { near_zero.read_volatile() };
            }
            Some(module)
        }
        fn static_at(&self, class: u64, _: u32) -> Result<u64, u32> {
            Ok(class)
        }
    }

    /// Questions, and how many pieces of answers have come.
    struct Told<'a> {
        questions: Vec<u64>,
        pieces: u64,
        end: i32,
        given_up: &'a AtomicU64,
    }

    impl StreamSink for Told<'_> {
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
                let told = [self.pieces as u8, self.given_up.load(Ordering::Relaxed) as u8, record[1]];
                // SAFETY: live bytes and a descriptor that is open.
                unsafe { libc::write(self.end, told.as_ptr().cast(), told.len()) };
            }
            true
        }
    }

    #[test]
    fn regression_a_class_that_came_after_the_copy_ends_one_question_and_not_the_copy() {
        static GIVEN_UP: AtomicU64 = AtomicU64::new(0);
        static ABSENT: AtomicU64 = AtomicU64::new(0);
        let mut pipe = [0; 2];
        // SAFETY: places for two descriptors.
        assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) }, 0);
        let fields = [Asked { field: 0x0400_0001, reads: false }];
        let of = |module| question(Owner::OfMethod { module, method: 0x0600_0001 }, &fields).collect::<Vec<u64>>();
        let questions = [of(1), of(2), of(2), of(3)].concat();
        let mut told = Told { questions, pieces: 0, end: pipe[1], given_up: &GIVEN_UP };
        // SAFETY: the child calls nothing that allocates or locks, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            skip_faults(&ABSENT);
            // SAFETY: the child's only thread.
            answer(&unsafe { ForkedCopy::new() }, &Torn, &mut told, &GIVEN_UP);
        }
        let mut status = -1;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        let mut bytes = [0_u8; 3];
        // SAFETY: a descriptor that is open, and room for the bytes; what was told is there by now.
        let read = unsafe { libc::read(pipe[0], bytes.as_mut_ptr().cast(), 3) };
        assert_eq!((status, read, bytes), (0, 3, [3, 2, 4]), "two answers and the end, two given up, four read");
    }
}
