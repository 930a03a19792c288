//! The copy of the process that walks its heap: made by a bare `clone`, so that no handler of the application's runs (`pthread_atfork`),
//! its end is no SIGCHLD, and whoever waits for any child of the process does not find it.
//!
//! What it must not keep of its parent it gives up first: descriptors, signals, the right to outlive it, a core file.

use crate::copy_answers::answer;
use crate::faults::skip_faults;
use crate::fork_guard::ForkGuard;
use crate::memory::Mapping;
use crate::memory_headroom;
use crate::private_pages::make_private;
use crate::process_heap::ProcessHeap;
use crate::roots::Roots;
use crate::sandbox::confine;
use crate::threads::{block_all, pause};
use corprof::{AppDomainId, HResult, HeapView, ObjectId};
use remora_ring::{HEADER_WORDS, MAXIMUM_RECORD_WORDS, Refused, Ring};
use remora_sampler::{
    ForkedCopy, HeapArea, HeapRange, HeapRoot, Shape, ShownWalk, StreamSink, Walked, monotonic, walk_heap,
};
use remora_session::Child;
use remora_wire::heap::{ANSWERS, BESIDE};
use remora_wire::{Contents, layout};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Parts of the heap that fit into the list.
const RANGES: usize = 1 << 14;
/// Places for classes: twice as many as there may be.
const PLACES: usize = 1 << 18;
/// Bytes that are handed over at once: a record of the ring, but for its length.
const CHUNK: usize = (MAXIMUM_RECORD_WORDS - 1) * 8;
/// Room for what the kernel says of mappings: some hundred bytes each, of tens of thousands.
const MAPS: usize = 4 << 20;
/// Between two looks whether there is room, nanoseconds.
const LOOK: u64 = 100_000;
/// How long questions about static fields are waited for when everything else has been told, nanoseconds.
const LONGEST_WAIT: u64 = 5_000_000_000;
/// Fields of a class that fit into their list.
const FIELDS: usize = 1 << 16;
/// How the copy is called.
const NAME: &[u8; 12] = b"remora-heap\0";
/// How much it gives way to others.
const NICENESS: i32 = 10;
/// The highest descriptor that is closed one by one, where the system cannot close them all.
const LAST_DESCRIPTOR: i32 = 65_536;
/// Not waited for yet.
const RUNNING: i32 = i32::MIN;

/// What the copy works on, made before it and touched by it alone; and what became of it.
pub struct Snapshot {
    ranges: Mapping,
    table: Mapping,
    classes: Mapping,
    shapes: Mapping,
    fields: Mapping,
    buffer: Mapping,
    maps: Mapping,
    room: Mapping,
    contents: Contents,
    roots: Option<Roots>,
    outer: &'static [AtomicU64],
    /// AppDomainID of the application, or 0.
    domain: AtomicUsize,
    /// Its number; 0 before, and less than that where the system refused with this error.
    pid: AtomicI32,
    took: AtomicU64,
    status: AtomicI32,
}

impl Snapshot {
    /// Memory for the walk. Nothing of it is there before it is touched, and only the copy touches it.
    ///
    /// # Errors
    /// The system's error number.
    pub fn new(outer: &'static [AtomicU64], contents: Contents, roots: remora_wire::Roots) -> Result<Snapshot, i32> {
        let roots = match roots {
            remora_wire::Roots::Inferred => None,
            remora_wire::Roots::Seen => Some(Roots::new()?),
        };
        Ok(Snapshot {
            ranges: Mapping::anonymous(RANGES * size_of::<HeapRange>())?,
            table: Mapping::anonymous(PLACES * 16)?,
            classes: Mapping::anonymous(PLACES / 2 * 8)?,
            shapes: Mapping::anonymous(PLACES * size_of::<Shape>())?,
            fields: Mapping::anonymous(FIELDS * size_of::<[u32; 2]>())?,
            buffer: Mapping::anonymous(CHUNK)?,
            maps: Mapping::anonymous(MAPS)?,
            room: Mapping::anonymous(size_of::<memory_headroom::MemoryHeadroom>())?,
            contents,
            roots,
            outer,
            domain: AtomicUsize::new(0),
            pid: AtomicI32::new(0),
            took: AtomicU64::new(0),
            status: AtomicI32::new(RUNNING),
        })
    }

    /// Where roots are kept, if they are wanted.
    pub fn roots(&self) -> Option<&Roots> {
        self.roots.as_ref()
    }

    /// Whose static fields are asked about.
    pub fn domain_is(&self, domain: usize) {
        self.domain.store(domain, Ordering::SeqCst);
    }

    /// Makes the copy. In a callback of the runtime's, while the application is suspended.
    pub fn fork(&self, heap: HeapView, fork_guard: &ForkGuard) {
        if let Some(parent) = self.copy(fork_guard) {
            self.walk(heap, parent);
        }
    }

    /// Makes the copy while the runtime shows its objects, no collection being under way: the process wants no more of them after the
    /// first one, the copy all. Called while the program is stopped, by the thread that has stopped it: a runtime that stops it for this
    /// alone would let it go on in the copy, too, and 10.0.12 answers that a suspension is under way.
    ///
    /// # Errors
    /// The runtime's answer.
    pub fn suspend_and_fork(&self, heap: HeapView, fork_guard: &ForkGuard) -> Result<(), HResult> {
        let mut side = Side::Undecided;
        let mut place = None;
        let mut shown = |object: ObjectId| {
            if matches!(side, Side::Undecided) {
                side = match self.copy(fork_guard) {
                    // SAFETY: in the copy this function never returns, so that what is in its frame lives as long as the copy.
                    Some(parent) => match unsafe { self.begin(heap, parent, &raw mut place) } {
                        Some(walk) => Side::Copy(walk),
                        None => end_of_copy(1),
                    },
                    None => Side::Process,
                };
            }
            match &mut side {
                Side::Copy(walk) => walk.object(object.0 as u64),
                _ => false,
            }
        };
        // SAFETY: the agent's thread, outside of callbacks: it may stop the runtime.
        let answer = unsafe { heap.enumerate(&mut shown) };
        if let Side::Copy(walk) = side {
            walk.end();
            place.map_or_else(|| end_of_copy(1), |mut walker| walker.answer());
        }
        answer
    }

    /// In the copy: everything that a walk needs, kept in `place`.
    ///
    /// # Safety
    /// `place` is there until the copy ends, and nobody else looks at it.
    unsafe fn begin(&self, heap: HeapView, parent: i32, place: *mut Option<Walker>) -> Option<ShownWalk<'static>> {
        // SAFETY: this is the copy, and its only thread.
        let (walker, area) = unsafe { self.walker(heap, parent) }?;
        // SAFETY: the caller's promise.
        let walker = unsafe { &mut *place }.insert(walker);
        Some(ShownWalk::new(&walker.fork, &walker.heap, self.contents, area, &mut walker.out))
    }

    /// The copy, in which it is the number of its parent; `None` in the process.
    fn copy(&self, fork_guard: &ForkGuard) -> Option<i32> {
        let begun = monotonic();
        // SAFETY: takes nothing. Not by the C library, which may remember its parent's.
        let parent = unsafe { libc::syscall(libc::SYS_getpid) } as i32;
        let before = block_all();
        let clone = || {
            // SAFETY: a copy with its own memory, no signal at its end, and this very stack, from which it never returns.
            let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } as i32;
            let error = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN);
            if pid < 0 { -error() } else { pid }
        };
        let pid = fork_guard.shared_with(self.outer, clone).unwrap_or_else(|error| -error);
        if pid == 0 {
            return Some(parent);
        }
        // SAFETY: puts back the mask that was there a moment ago.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
        self.took.store(monotonic() - begun, Ordering::SeqCst);
        self.pid.store(pid, Ordering::SeqCst);
        None
    }

    /// Agent's thread: another copy is wanted. The one before has ended and was waited for.
    pub fn begin_anew(&self) {
        self.took.store(0, Ordering::SeqCst);
        self.status.store(RUNNING, Ordering::SeqCst);
        self.pid.store(0, Ordering::SeqCst);
    }

    /// What became of it. Waits for it, if it has ended, once.
    pub fn child(&self) -> Child {
        let status = self.status.load(Ordering::SeqCst);
        if status != RUNNING {
            return self.ended(status);
        }
        match self.pid.load(Ordering::SeqCst) {
            0 => Child::None,
            error @ ..0 => Child::Refused(-error),
            pid => self.waited_for(pid),
        }
    }

    /// Ends it.
    pub fn end(&self) {
        let pid = self.pid.load(Ordering::SeqCst);
        if pid > 0 && self.status.load(Ordering::SeqCst) == RUNNING {
            // SAFETY: a child of ours that nobody has waited for: the number is its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }

    fn ended(&self, status: i32) -> Child {
        Child::Ended { status, took: self.took.load(Ordering::SeqCst) }
    }

    fn waited_for(&self, pid: i32) -> Child {
        let mut status = 0;
        // SAFETY: a place for the status. A child that ends without a signal is waited for with this flag only.
        let answer = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::__WALL) };
        let error = std::io::Error::last_os_error().raw_os_error();
        match answer {
            0 => return Child::Walks { pid: pid as u32, took: self.took.load(Ordering::SeqCst) },
            ended if ended == pid => {}
            _ if error == Some(libc::EINTR) => return self.waited_for(pid),
            // Somebody else has waited for it: it is gone, and nobody knows how.
            _ => status = -1,
        }
        self.status.store(status, Ordering::SeqCst);
        self.ended(status)
    }

    /// The copy's whole life.
    fn walk(&self, heap: HeapView, parent: i32) -> ! {
        // SAFETY: this is the copy, and its only thread.
        let Some((mut walker, area)) = (unsafe { self.walker(heap, parent) }) else { end_of_copy(1) };
        walk_heap(&walker.fork, &walker.heap, self.contents, area, &mut walker.out);
        walker.answer()
    }

    /// What was told of roots; and says how much of it found no room.
    ///
    /// # Safety
    /// In the copy alone.
    unsafe fn told_roots(&self) -> &'static [HeapRoot] {
        let Some(roots) = &self.roots else { return &[] };
        for (counter, value) in [(layout::HEAP_ROOTS, roots.told()), (layout::HEAP_ROOTS_LOST, roots.lost())] {
            if let Some(place) = self.outer.get(counter) {
                place.store(value, Ordering::Relaxed);
            }
        }
        // SAFETY: nothing is told any more where this thread is the only one; the mapping is there until the copy ends.
        unsafe { roots.all() }
    }

    /// Gives up what is the parent's, and makes what a walk needs. `None` if there is no ring.
    ///
    /// # Safety
    /// In the copy alone, and once.
    unsafe fn walker(&self, heap: HeapView, parent: i32) -> Option<(Walker, HeapArea<'static>)> {
        // First of all, since the process goes on.
        // SAFETY: the caller's promise.
        let left = unsafe { make_private(self.maps.exclusive()) };
        if let Some(place) = self.outer.get(layout::HEAP_STAYS_SHARED) {
            place.store(left as u64, Ordering::Relaxed);
        }
        leave_parent(parent);
        if let Some(absent) = self.outer.get(layout::HEAP_PAGES_ABSENT) {
            skip_faults(absent);
        }
        // SAFETY: the only thread of the copy, whose descriptors are closed; nobody else touches that memory.
        unsafe {
            memory_headroom::watch(
                self.room.exclusive::<MaybeUninit<memory_headroom::MemoryHeadroom>>().as_mut_ptr().cast(),
                self.outer,
            )
        };
        // SAFETY: the only thread of the copy, which alone touches these.
        let (fork, area) = unsafe {
            let area = HeapArea {
                ranges: self.ranges.exclusive(),
                table: self.table.exclusive(),
                classes: self.classes.exclusive(),
                shapes: self.shapes.exclusive(),
                fields: self.fields.exclusive(),
                buffer: self.buffer.exclusive(),
                roots: self.told_roots(),
            };
            (ForkedCopy::new(), area)
        };
        // Last, since all the rest is still allowed before. Where it cannot be had, nothing that is known of needs it.
        confine();
        let ring = self.outer.get(layout::heap(HEADER_WORDS)).and_then(Ring::new)?;
        let domain = self.domain.load(Ordering::SeqCst);
        let heap = ProcessHeap::new(&fork, heap, (domain != 0).then_some(AppDomainId(domain)));
        let questions = self.outer.get(layout::questions(HEADER_WORDS)).unwrap_or_default();
        Some((Walker { fork, heap, out: Out { ring, counters: self.outer, questions, parent } }, area))
    }
}

/// What a walk goes by.
struct Walker {
    fork: ForkedCopy,
    heap: ProcessHeap,
    out: Out,
}

impl Walker {
    /// The rest of the copy's life.
    fn answer(&mut self) -> ! {
        match self.out.counters.get(layout::HEAP_QUESTIONS_GIVEN_UP) {
            Some(given_up) => answer(&self.fork, &self.heap, &mut self.out, given_up),
            None => end_of_copy(1),
        }
    }
}

/// Who sees the objects that a runtime shows.
#[allow(clippy::large_enum_variant, reason = "the copy allocates nothing")]
enum Side {
    /// Nobody has seen one.
    Undecided,
    /// The process, which wants no more.
    Process,
    /// Its copy.
    Copy(ShownWalk<'static>),
}

/// Ends the copy, without a word to the C library.
pub fn end_of_copy(status: i32) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::syscall(libc::SYS_exit_group, status) };
    unreachable()
}

/// Nothing comes after the end.
fn unreachable() -> ! {
    loop {
        pause(u64::from(u32::MAX));
    }
}

/// Gives up what is the parent's.
fn leave_parent(parent: i32) {
    // SAFETY: plain numbers. The same below, all in a process of our own.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if has_lost(parent) {
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_exit_group, 1) };
    }
    let path = c"/proc/self/oom_score_adj";
    // SAFETY: a name that lives. When memory runs out, the copy goes first.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if file >= 0 {
        // SAFETY: four live bytes; the descriptor is closed with all others.
        unsafe { libc::write(file, b"1000".as_ptr().cast(), 4) };
    }
    // SAFETY: as above. Since Linux 5.9; before, one by one.
    if unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) } != 0 {
        for descriptor in 0..LAST_DESCRIPTOR {
            // SAFETY: a number; who has no such descriptor answers an error.
            unsafe { libc::close(descriptor) };
        }
    }
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live struct.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    // SAFETY: as above. A core file of the whole process would fill a disk.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    // SAFETY: a name that lives, ended by a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, NAME.as_ptr()) };
    // SAFETY: as above.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}

fn has_lost(parent: i32) -> bool {
    // SAFETY: takes nothing.
    (unsafe { libc::syscall(libc::SYS_getppid) }) as i32 != parent
}

/// The ring that the collector reads.
struct Out {
    ring: Ring<'static>,
    counters: &'static [AtomicU64],
    /// What is asked about static fields.
    questions: &'static [AtomicU64],
    parent: i32,
}

impl Out {
    /// How many words of questions there are. Waits until the collector has put them: it may still have to read files, and which these are
    /// the process tells, which may be halted.
    fn asked(&self) -> Option<usize> {
        let (place, begun) = (self.counters.get(layout::STATICS_ASKED)?, monotonic());
        loop {
            match place.load(Ordering::Acquire) {
                0 if has_lost(self.parent) || monotonic() - begun > LONGEST_WAIT => return None,
                0 => pause(LOOK),
                asked => return usize::try_from(asked - 1).ok(),
            }
        }
    }

    /// Hands a piece over; `mark` is in the word of its length.
    fn push(&mut self, bytes: &[u8], mark: u64) -> bool {
        let length = bytes.len() as u64 | mark;
        loop {
            match self.ring.push_bytes(length, bytes) {
                Ok(()) => return true,
                Err(Refused::Full | Refused::Contended) if has_lost(self.parent) => return false,
                Err(_) => pause(LOOK),
            }
        }
    }
}

impl StreamSink for Out {
    fn put(&mut self, bytes: &[u8]) -> bool {
        self.push(bytes, 0)
    }

    fn put_aside(&mut self, record: &[u8]) -> bool {
        self.push(record, BESIDE)
    }

    fn question(&mut self, index: usize) -> Option<u64> {
        let questions = self.questions.get(..self.asked()?)?;
        questions.get(index).map(|word| word.load(Ordering::Relaxed))
    }

    fn answer(&mut self, record: &[u8]) -> bool {
        self.push(record, ANSWERS)
    }

    fn progress(&mut self, walked: &Walked) {
        let counts = [
            (layout::HEAP_OBJECTS, walked.objects),
            (layout::HEAP_BYTES, walked.bytes),
            (layout::HEAP_BYTES_IN_ALL, walked.bytes_in_all),
            (layout::HEAP_REFERENCES, walked.references),
            (layout::HEAP_BROKEN, walked.broken),
            (layout::HEAP_LEFT_OUT, walked.left_out),
            (layout::HEAP_WITHOUT_CLASS, walked.without_class),
            (layout::HEAP_CONTRADICTED, walked.contradicted),
        ];
        for (counter, value) in counts {
            if let Some(place) = self.counters.get(counter) {
                place.store(value, Ordering::Relaxed);
            }
        }
    }
}
