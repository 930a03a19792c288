//! Memory at the addresses of the model's objects and modules, for processes that load foreign libraries.
//!
//! A profiler that knows the offset of a string's length reads it directly. It finds zeros: strings without text, arrays of null. Objects
//! at higher addresses have no memory.

use super::code::PLACE_OF_BASES;
use super::heap::PLACES;
use crate::schedule;
use std::ffi::c_void;

/// Maps the heap's memory if the address range is free. Call it once in a process, before its first runtime.
pub fn give_the_heap_memory() {
    for (place, length) in PLACES.into_iter().chain([PLACE_OF_BASES]) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: maps only a free range, so no reference points into it.
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
        for (place, length) in PLACES.into_iter().chain([PLACE_OF_BASES]) {
            // SAFETY: this memory was just mapped, and stays mapped.
            let ends = unsafe { [(place as *const u8).read(), ((place + length - 1) as *const u8).read()] };
            assert_eq!(ends, [0, 0], "{place:#x}");
        }
    }
}
