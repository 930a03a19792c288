//! Memory where objects of the model are said to lie, in processes into which foreign libraries are loaded.
//!
//! A profiler that knows where a string's length lies goes and reads it. It finds zeros: strings without text, arrays of null. What lies
//! further up than this is said to be there and is not.

use super::heap::PLACES;
use crate::schedule;
use std::ffi::c_void;

/// Gives the heap its memory, where nothing else has taken the place; once in a process, before its first runtime.
pub fn give_the_heap_memory() {
    for (place, length) in PLACES {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: memory at a place that is free, or else it is not given; nobody has a reference into it.
        let given = unsafe { libc::mmap(place as *mut c_void, length, libc::PROT_READ, flags, -1, 0) };
        if given as usize != place {
            schedule::note("The heap has no memory of its own at {}", place as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_heap_is_read_as_zeros() {
        give_the_heap_memory();
        for (place, length) in PLACES {
            // SAFETY: memory that was given a moment ago, and stays.
            let ends = unsafe { [(place as *const u8).read(), ((place + length - 1) as *const u8).read()] };
            assert_eq!(ends, [0, 0], "{place:#x}");
        }
    }
}
