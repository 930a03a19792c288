//! Records the heap that the runtime reports in one GC, object by object and root by root. On request it also runs the product's own walk
//! in a copy of the process, forked at the end of the same GC.
//!
//! The files consist of little-endian words of 64 bits:
//! ```text
//! objects     each reported object: address, class, size, number of references, these
//! roots       address of the object, kind, flags, id
//! dependents  address of the primary, of the secondary, id of the handle
//! frozen      frozen segments: begin, length
//! stream      bytes of `remora_heap_stream`: the walk's output
//! ```

use crate::process_heap::ProcessHeap;
use corprof::{ClassId, FrozenRange, HandleId, HeapView, ObjectId, RootFlags, RootKind};
use remora_sampler::{ForkedCopy, HeapArea, HeapRange, Shape, StreamSink, Walked, walk_heap};
use remora_wire::Contents;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Maximum heap ranges in the walk's list.
const RANGES: usize = 1 << 14;
/// Table slots for classes in the walk.
const PLACES: usize = 1 << 16;
/// Bytes that the walk passes on at once.
const BUFFER: usize = 1 << 16;

/// A request to record a GC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The folder for the files.
    pub folder: PathBuf,
    /// Whether to walk the heap as the product does, too.
    pub walks: bool,
}

/// The reports in the recorded GC.
#[derive(Debug, Default)]
struct Reported {
    objects: Vec<u64>,
    roots: Vec<u64>,
    dependents: Vec<u64>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Waits(Wish),
    Watches(Wish, Reported),
}

/// Records one GC for each request.
#[derive(Debug, Default)]
pub struct Witness(Mutex<State>);

impl Witness {
    /// Requests to record the next induced full GC.
    pub fn wish(&self, wish: Wish) {
        self.with(|state| *state = State::Waits(wish));
    }

    /// Whether the requested files have been written.
    pub fn is_done(&self) -> bool {
        self.with(|state| matches!(state, State::Idle))
    }

    /// A GC starts.
    pub fn started(&self, is_wanted: bool) {
        self.with(|state| match state {
            State::Waits(wish) if is_wanted => *state = State::Watches(wish.clone(), Reported::default()),
            _ => {}
        });
    }

    /// An object, and its references.
    pub fn object(&self, heap: HeapView, object: ObjectId, class: ClassId, references: &[ObjectId]) {
        self.shown(|shown| {
            // SAFETY: called inside a GC callback, with an object of this heap.
            let size = unsafe { heap.size_of(object) }.unwrap_or(0);
            shown.objects.extend([object.0, class.0, size, references.len()].map(|word| word as u64));
            shown.objects.extend(references.iter().map(|reference| reference.0 as u64));
        });
    }

    /// Roots.
    pub fn roots(&self, roots: &[ObjectId], kinds: &[RootKind], flags: &[RootFlags], ids: &[usize]) {
        self.shown(|shown| {
            for (((root, kind), flags), id) in roots.iter().zip(kinds).zip(flags).zip(ids) {
                shown.roots.extend([root.0 as u64, u64::from(kind.0), u64::from(flags.0), *id as u64]);
            }
        });
    }

    /// The secondaries that dependent handles keep alive, with their primaries.
    pub fn dependents(&self, primaries: &[ObjectId], secondaries: &[ObjectId], ids: &[HandleId]) {
        self.shown(|shown| {
            for ((primary, secondary), id) in primaries.iter().zip(secondaries).zip(ids) {
                shown.dependents.extend([primary.0, secondary.0, id.0].map(|word| word as u64));
            }
        });
    }

    /// The GC is over; the program is still suspended.
    pub fn finished(&self, heap: HeapView) {
        let watched = self.with(|state| match std::mem::take(state) {
            State::Watches(wish, shown) => Some((wish, shown)),
            other => {
                *state = other;
                None
            }
        });
        let Some((wish, shown)) = watched else { return };
        if wish.walks {
            walk_in_copy(heap, &wish.folder.join("stream"));
        }
        let (Reported { objects, roots, dependents }, frozen) = (shown, frozen(heap));
        for (name, words) in [("roots", roots), ("dependents", dependents), ("frozen", frozen), ("objects", objects)] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            // A missing file fails the test.
            let _ = fs::write(wish.folder.join(name), bytes);
        }
    }

    fn shown(&self, add: impl FnOnce(&mut Reported)) {
        self.with(|state| {
            if let State::Watches(_, shown) = state {
                add(shown);
            }
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn frozen(heap: HeapView) -> Vec<u64> {
    let mut ranges = vec![FrozenRange::default(); RANGES];
    // SAFETY: called inside a GC callback.
    let count = unsafe { heap.frozen_bounds(&mut ranges) }.unwrap_or(0);
    ranges.iter().take(count).flat_map(|range| [range.start as u64, range.length as u64]).collect()
}

/// Forks a copy of the process that walks the heap, and waits for its end. Allocates everything for the walk before.
fn walk_in_copy(heap: HeapView, file: &Path) {
    let (mut ranges, mut table) = (vec![HeapRange::default(); RANGES], vec![[0; 2]; PLACES]);
    let (mut classes, mut shapes, mut buffer) = (vec![0; PLACES / 2], vec![Shape::default(); PLACES], vec![0; BUFFER]);
    let mut fields = [[0; 2]; 1];
    let Ok(file) = CString::new(file.as_os_str().as_bytes()) else { return };
    // SAFETY: the path is a C string that outlives the call.
    let descriptor = unsafe { libc::open(file.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, 0o644) };
    // SAFETY: the copy has its own memory, no exit signal, and this stack; it never returns from here.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } as i32;
    if pid == 0 {
        // SAFETY: this is the only thread of the copy.
        let fork = unsafe { ForkedCopy::new() };
        let area = HeapArea {
            ranges: &mut ranges,
            table: &mut table,
            classes: &mut classes,
            shapes: &mut shapes,
            fields: &mut fields,
            buffer: &mut buffer,
            roots: &[],
        };
        walk_heap(&fork, &ProcessHeap::new(&fork, heap, None), Contents::None, area, &mut Out(descriptor));
        // SAFETY: takes no pointers; ends the copy without running code of the C library.
        unsafe { libc::syscall(libc::SYS_exit_group, 0) };
    }
    // SAFETY: `pid` is our child that nobody else waits for, and `descriptor` is ours.
    unsafe {
        libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL);
        libc::close(descriptor);
    }
}

/// The file of the stream.
struct Out(i32);

impl StreamSink for Out {
    fn put(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            // SAFETY: `bytes` is a valid slice, and the descriptor is open in the copy.
            let written = unsafe { libc::write(self.0, bytes.as_ptr().cast(), bytes.len()) };
            match usize::try_from(written) {
                Ok(written @ 1..) => bytes = bytes.get(written..).unwrap_or_default(),
                _ => return false,
            }
        }
        true
    }

    fn put_aside(&mut self, _: &[u8]) -> bool {
        true
    }

    fn progress(&mut self, _: &Walked) {}
}
