//! What the runtime tells of a heap in one collection, object by object and root by root, written down; and, if that is asked for, what the
//! product's own walk finds in a copy of the process that is made at the end of the same collection.
//!
//! The files are of little-endian words of 64 bits:
//! ```text
//! objects     each object that was told of: address, class, size, number of references, these
//! roots       address of the object, kind, flags, id
//! dependents  address of what is referred to from, of what is referred to, id of the handle
//! frozen      parts of the heap that are never collected: begin, length
//! stream      bytes of `remora_wire::heap`: what the walk told
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

/// Parts of the heap that fit into the list of the walk.
const RANGES: usize = 1 << 14;
/// Places for classes in the walk.
const PLACES: usize = 1 << 16;
/// Bytes that the walk hands over at once.
const BUFFER: usize = 1 << 16;

/// Where it is told of, and what else is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The folder for the files.
    pub folder: PathBuf,
    /// Whether the heap is walked as the product does it, too.
    pub walks: bool,
}

/// What has been told of in the collection that is watched.
#[derive(Debug, Default)]
struct Told {
    objects: Vec<u64>,
    roots: Vec<u64>,
    dependents: Vec<u64>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Waits(Wish),
    Watches(Wish, Told),
}

/// See the module's text. It watches one collection for each wish.
#[derive(Debug, Default)]
pub struct Witness(Mutex<State>);

impl Witness {
    /// The next whole collection that somebody asks for is watched.
    pub fn wish(&self, wish: Wish) {
        self.with(|state| *state = State::Waits(wish));
    }

    /// Whether what was wished for has been written.
    pub fn is_done(&self) -> bool {
        self.with(|state| matches!(state, State::Idle))
    }

    /// A collection begins.
    pub fn started(&self, is_wanted: bool) {
        self.with(|state| match state {
            State::Waits(wish) if is_wanted => *state = State::Watches(wish.clone(), Told::default()),
            _ => {}
        });
    }

    /// An object, and what it refers to.
    pub fn object(&self, heap: HeapView, object: ObjectId, class: ClassId, references: &[ObjectId]) {
        self.told(|told| {
            // SAFETY: inside a callback of a collection, about an object of this heap.
            let size = unsafe { heap.size_of(object) }.unwrap_or(0);
            told.objects.extend([object.0, class.0, size, references.len()].map(|word| word as u64));
            told.objects.extend(references.iter().map(|reference| reference.0 as u64));
        });
    }

    /// Roots.
    pub fn roots(&self, roots: &[ObjectId], kinds: &[RootKind], flags: &[RootFlags], ids: &[usize]) {
        self.told(|told| {
            for (((root, kind), flags), id) in roots.iter().zip(kinds).zip(flags).zip(ids) {
                told.roots.extend([root.0 as u64, u64::from(kind.0), u64::from(flags.0), *id as u64]);
            }
        });
    }

    /// What a dependent handle keeps alive, and with what.
    pub fn dependents(&self, primaries: &[ObjectId], secondaries: &[ObjectId], ids: &[HandleId]) {
        self.told(|told| {
            for ((primary, secondary), id) in primaries.iter().zip(secondaries).zip(ids) {
                told.dependents.extend([primary.0, secondary.0, id.0].map(|word| word as u64));
            }
        });
    }

    /// The collection is over; the program still stands.
    pub fn finished(&self, heap: HeapView) {
        let watched = self.with(|state| match std::mem::take(state) {
            State::Watches(wish, told) => Some((wish, told)),
            other => {
                *state = other;
                None
            }
        });
        let Some((wish, told)) = watched else { return };
        if wish.walks {
            walk_in_copy(heap, &wish.folder.join("stream"));
        }
        let (Told { objects, roots, dependents }, frozen) = (told, frozen(heap));
        for (name, words) in [("roots", roots), ("dependents", dependents), ("frozen", frozen), ("objects", objects)] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            // A file that is not there fails the test.
            let _ = fs::write(wish.folder.join(name), bytes);
        }
    }

    fn told(&self, add: impl FnOnce(&mut Told)) {
        self.with(|state| {
            if let State::Watches(_, told) = state {
                add(told);
            }
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn frozen(heap: HeapView) -> Vec<u64> {
    let mut ranges = vec![FrozenRange::default(); RANGES];
    // SAFETY: inside a callback of a collection.
    let count = unsafe { heap.frozen_bounds(&mut ranges) }.unwrap_or(0);
    ranges.iter().take(count).flat_map(|range| [range.start as u64, range.length as u64]).collect()
}

/// Makes a copy of the process, in which the heap is walked, and waits for its end. What the walk needs is made before.
fn walk_in_copy(heap: HeapView, file: &Path) {
    let (mut ranges, mut table) = (vec![HeapRange::default(); RANGES], vec![[0; 2]; PLACES]);
    let (mut classes, mut shapes, mut buffer) = (vec![0; PLACES / 2], vec![Shape::default(); PLACES], vec![0; BUFFER]);
    let mut fields = [[0; 2]; 1];
    let Ok(file) = CString::new(file.as_os_str().as_bytes()) else { return };
    // SAFETY: a name that lives.
    let descriptor = unsafe { libc::open(file.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, 0o644) };
    // SAFETY: a copy with its own memory, no signal at its end, and this very stack; it never returns from here.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } as i32;
    if pid == 0 {
        // SAFETY: the only thread of the copy.
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
        // SAFETY: ends the copy, without a word to the C library.
        unsafe { libc::syscall(libc::SYS_exit_group, 0) };
    }
    // SAFETY: a child of ours that nobody else waits for, and a descriptor of ours.
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
            // SAFETY: live bytes, and a descriptor that is open in the copy.
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
