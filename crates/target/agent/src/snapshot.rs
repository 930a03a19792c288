//! The forked copy of the process, which walks the heap.
//!
//! A bare `clone` makes it. So no handler of the application runs (`pthread_atfork`), and its end sends no SIGCHLD. A wait for any child of
//! the process does not find it.
//!
//! First it gives up its parent's descriptors and signals. It ends with its parent, and writes no core file.

use crate::copy_answers::answer;
use crate::copy_end::end_of_copy;
use crate::faults::skip_faults;
use crate::fork_guard::ForkGuard;
use crate::memory_headroom;
use crate::private_pages::make_private;
use crate::process_heap::ProcessHeap;
use crate::roots::Roots;
use crate::sandbox::confine;
use crate::threads::pause;
use corprof::detach::SignalsBlocked;
use corprof::{AppDomainId, HResult, HeapView, ObjectId};
use remora_connection::Mapping;
use remora_heap_stream::{ANSWERS, BESIDE};
use remora_ring::{HEADER_WORDS, MAXIMUM_RECORD_WORDS, Refused, Ring};
use remora_sampler::{
    ForkedCopy, HeapArea, HeapRange, HeapRoot, Shape, ShownWalk, StreamSink, Walked, monotonic, walk_heap,
};
use remora_session::Child;
use remora_wire::{Contents, HeapSnapshot, layout};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Capacity of the list of heap ranges.
const RANGES: usize = 1 << 14;
/// Slots for classes: twice as many as there may be.
const PLACES: usize = 1 << 18;
/// Bytes sent at once: a record of the ring without its length.
const CHUNK: usize = (MAXIMUM_RECORD_WORDS - 1) * 8;
/// Room for the kernel's list of mappings: some hundred bytes each, for tens of thousands.
const MAPS: usize = 4 << 20;
/// Pause before the copy tries again: the ring is full, or the questions are missing. Nanoseconds.
const INTERVAL: u64 = 100_000;
/// How long the copy waits for questions about static fields while the collector shows no sign of life, nanoseconds. Between two signs the
/// collector reads an assembly's file, which may be slow, on a machine that may be busy. The collector has deadlines of its own for the
/// whole snapshot, and the agent ends the copy once the collector is gone.
const LONGEST_WAIT: u64 = 30_000_000_000;
/// Capacity of the field list of a class.
const FIELDS: usize = 1 << 16;
/// The copy's name.
const NAME: &[u8; 12] = b"remora-heap\0";
/// The copy's niceness: other processes get the CPU first.
const NICENESS: i32 = 10;
/// The highest descriptor to close where descriptors are closed one by one: the system cannot close them all at once.
const LAST_DESCRIPTOR: i32 = 65_536;
/// The status of a copy that was not reaped yet.
const RUNNING: i32 = i32::MIN;

/// The copy's memory and its outcome. The memory is mapped before the fork, and only the copy touches it.
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
    /// The copy's process id. 0 before the fork; a negative error number if the system refused it.
    pid: AtomicI32,
    took: AtomicU64,
    status: AtomicI32,
}

impl Snapshot {
    /// Maps memory for the walk. A page exists once it is touched, and only the copy touches it.
    ///
    /// # Errors
    /// The system's error number.
    pub fn new(outer: &'static [AtomicU64], wanted: HeapSnapshot) -> Result<Snapshot, i32> {
        let roots = match wanted.roots {
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
            contents: wanted.contents,
            roots,
            outer,
            domain: AtomicUsize::new(0),
            pid: AtomicI32::new(0),
            took: AtomicU64::new(0),
            status: AtomicI32::new(RUNNING),
        })
    }

    /// The stored roots, if they are wanted.
    pub fn roots(&self) -> Option<&Roots> {
        self.roots.as_ref()
    }

    /// Sets the AppDomain whose static fields the copy reads.
    pub fn domain_is(&self, domain: usize) {
        self.domain.store(domain, Ordering::SeqCst);
    }

    /// Forks the copy. Called in a callback of the runtime, while the application is suspended.
    pub fn fork(&self, heap: HeapView, fork_guard: &ForkGuard) {
        if let Some(parent) = self.copy(fork_guard) {
            self.walk(heap, parent);
        }
    }

    /// Forks the copy while the runtime enumerates its objects, outside of a GC. The process ends its enumeration after the first object;
    /// the copy gets all objects.
    ///
    /// The caller's thread has suspended the runtime. A runtime that suspends only for the enumeration would also resume in the copy, and
    /// 10.0.12 answers that a suspension is in progress.
    ///
    /// # Errors
    /// The runtime's answer.
    pub fn suspend_and_fork(&self, heap: HeapView, fork_guard: &ForkGuard) -> Result<(), HResult> {
        let mut side = Side::Undecided;
        let mut place = None;
        let mut shown = |object: ObjectId| {
            if matches!(side, Side::Undecided) {
                side = match self.copy(fork_guard) {
                    // SAFETY: in the copy this function never returns. So `place` and its whole frame live as long as the copy.
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
        // SAFETY: this is the worker, outside of callbacks, so it may suspend the runtime.
        let answer = unsafe { heap.enumerate(&mut shown) };
        if let Side::Copy(walk) = side {
            walk.end();
            place.map_or_else(|| end_of_copy(1), |mut walker| walker.answer());
        }
        answer
    }

    /// In the copy: prepares a walk and stores it in `place`.
    ///
    /// # Safety
    /// `place` lives until the copy ends, and nothing else accesses it.
    unsafe fn begin(&self, heap: HeapView, parent: i32, place: *mut Option<Walker>) -> Option<ShownWalk<'static>> {
        // SAFETY: only the copy calls this, once, on its only thread.
        let (walker, area) = unsafe { self.walker(heap, parent) }?;
        // SAFETY: the caller keeps `place` alive until the copy ends, for this function alone.
        let walker = unsafe { &mut *place }.insert(walker);
        Some(ShownWalk::new(&walker.fork, &walker.heap, self.contents, area, &mut walker.out))
    }

    /// Forks the copy. Returns the parent's process id in the copy, and `None` in the process.
    fn copy(&self, fork_guard: &ForkGuard) -> Option<i32> {
        let begun = monotonic();
        // SAFETY: takes no arguments. The C library's own function may return the cached id of a parent.
        let parent = unsafe { libc::syscall(libc::SYS_getpid) } as i32;
        let blocked = SignalsBlocked::new();
        let clone = || {
            // SAFETY: the copy has its own memory and this same stack, and never returns from it. Its end sends no signal.
            let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } as i32;
            let error = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN);
            if pid < 0 { -error() } else { pid }
        };
        let pid = fork_guard.shared_with(self.outer, clone).unwrap_or_else(|error| -error);
        if pid == 0 {
            // They stay blocked in the copy.
            std::mem::forget(blocked);
            return Some(parent);
        }
        drop(blocked);
        self.took.store(monotonic() - begun, Ordering::SeqCst);
        self.pid.store(pid, Ordering::SeqCst);
        None
    }

    /// Worker: prepares for another copy. The previous one has ended and was reaped.
    pub fn begin_anew(&self) {
        self.took.store(0, Ordering::SeqCst);
        self.status.store(RUNNING, Ordering::SeqCst);
        self.pid.store(0, Ordering::SeqCst);
    }

    /// The state of the copy. Reaps it once it has ended.
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

    /// Kills the copy.
    pub fn end(&self) {
        let pid = self.pid.load(Ordering::SeqCst);
        if pid > 0 && self.status.load(Ordering::SeqCst) == RUNNING {
            // SAFETY: an own child that was not reaped yet, so the process id is still its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }

    fn ended(&self, status: i32) -> Child {
        Child::Ended { status, took: self.took.load(Ordering::SeqCst) }
    }

    fn waited_for(&self, pid: i32) -> Child {
        let mut status = 0;
        // SAFETY: `status` is live. Without `__WALL`, the kernel does not wait for a child that ends without a signal.
        let answer = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::__WALL) };
        let error = std::io::Error::last_os_error().raw_os_error();
        match answer {
            0 => return Child::Walks { pid: pid as u32, took: self.took.load(Ordering::SeqCst) },
            ended if ended == pid => {}
            _ if error == Some(libc::EINTR) => return self.waited_for(pid),
            // Another component has reaped it, so its status is unknown.
            _ => status = -1,
        }
        self.status.store(status, Ordering::SeqCst);
        self.ended(status)
    }

    /// Runs the copy until it ends.
    fn walk(&self, heap: HeapView, parent: i32) -> ! {
        // SAFETY: only the copy calls this, once, on its only thread.
        let Some((mut walker, area)) = (unsafe { self.walker(heap, parent) }) else { end_of_copy(1) };
        walk_heap(&walker.fork, &walker.heap, self.contents, area, &mut walker.out);
        walker.answer()
    }

    /// The stored roots. Also reports how many there were, and how many found no room.
    ///
    /// # Safety
    /// Only in the copy.
    unsafe fn reported_roots(&self) -> &'static [HeapRoot] {
        let Some(roots) = &self.roots else { return &[] };
        for (counter, value) in [(layout::HEAP_ROOTS, roots.reported()), (layout::HEAP_ROOTS_LOST, roots.lost())] {
            if let Some(place) = self.outer.get(counter) {
                place.store(value, Ordering::Relaxed);
            }
        }
        // SAFETY: the copy has only this thread, so nothing adds roots. The mapping stays until the copy ends.
        unsafe { roots.all() }
    }

    /// Gives up what belongs to the parent, and prepares the walk. `None` if there is no ring.
    ///
    /// # Safety
    /// Only in the copy, and once.
    unsafe fn walker(&self, heap: HeapView, parent: i32) -> Option<(Walker, HeapArea<'static>)> {
        // First of all: the process runs on and may write to the shared pages.
        // SAFETY: the caller is the copy's only thread, and its descriptors are still open.
        let left = unsafe { make_private(self.maps.exclusive()) };
        if let Some(place) = self.outer.get(layout::HEAP_STAYS_SHARED) {
            place.store(left as u64, Ordering::Relaxed);
        }
        leave_parent(parent);
        if let Some(absent) = self.outer.get(layout::HEAP_PAGES_ABSENT) {
            skip_faults(absent);
        }
        // SAFETY: this is the copy's only thread, its descriptors are closed, and nothing else uses that memory.
        unsafe {
            memory_headroom::watch(
                self.room.exclusive::<MaybeUninit<memory_headroom::MemoryHeadroom>>().as_mut_ptr().cast(),
                self.outer,
            )
        };
        // SAFETY: this is the copy's only thread, and nothing else uses these mappings.
        let (fork, area) = unsafe {
            let area = HeapArea {
                ranges: self.ranges.exclusive(),
                table: self.table.exclusive(),
                classes: self.classes.exclusive(),
                shapes: self.shapes.exclusive(),
                fields: self.fields.exclusive(),
                buffer: self.buffer.exclusive(),
                roots: self.reported_roots(),
            };
            (ForkedCopy::new(), area)
        };
        // Last: the steps above need more system calls. If the kernel refuses the filter, the copy goes on: no known case needs it.
        confine();
        let ring = self.outer.get(layout::heap(HEADER_WORDS)).and_then(Ring::new)?;
        let domain = self.domain.load(Ordering::SeqCst);
        let heap = ProcessHeap::new(&fork, heap, (domain != 0).then_some(AppDomainId(domain)));
        let questions = self.outer.get(layout::questions(HEADER_WORDS)).unwrap_or_default();
        Some((Walker { fork, heap, out: Out { ring, counters: self.outer, questions, parent } }, area))
    }
}

/// The parts of a walk.
struct Walker {
    fork: ForkedCopy,
    heap: ProcessHeap,
    out: Out,
}

impl Walker {
    /// Answers questions until the copy ends.
    fn answer(&mut self) -> ! {
        match self.out.counters.get(layout::HEAP_QUESTIONS_GIVEN_UP) {
            Some(given_up) => answer(&self.fork, &self.heap, &mut self.out, given_up),
            None => end_of_copy(1),
        }
    }
}

/// The process that sees the enumerated objects.
#[allow(clippy::large_enum_variant, reason = "the copy allocates nothing")]
enum Side {
    /// No object was seen yet.
    Undecided,
    /// The process, which ends its enumeration.
    Process,
    /// Its copy.
    Copy(ShownWalk<'static>),
}

/// Gives up what belongs to the parent.
fn leave_parent(parent: i32) {
    // SAFETY: takes numbers only, and changes only the copy.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if has_lost(parent) {
        end_of_copy(1)
    }
    let path = c"/proc/self/oom_score_adj";
    // When memory runs out, the kernel kills the copy first.
    // SAFETY: `path` is a static C string.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if file >= 0 {
        // SAFETY: four live bytes; all descriptors are closed below.
        unsafe { libc::write(file, b"1000".as_ptr().cast(), 4) };
    }
    // Since Linux 5.9; before, one by one.
    // SAFETY: takes numbers only. The copy uses none of its parent's descriptors.
    if unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) } != 0 {
        for descriptor in 0..LAST_DESCRIPTOR {
            // SAFETY: takes a number; the kernel refuses an unused one.
            unsafe { libc::close(descriptor) };
        }
    }
    // A core dump of the whole process would fill a disk. A limit of one byte prevents the file, and is also the kernel's mark for no dump
    // through a pipe, which ignores other limits (`do_coredump` in fs/coredump.c).
    let one = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    // SAFETY: `one` is live.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const one) } != 0 {
        // The limit is 0 already. Now nobody but root can read how much memory the copy takes, and apply the user's limit.
        // SAFETY: takes numbers only.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    }
    // SAFETY: `NAME` is static and ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, NAME.as_ptr()) };
    // SAFETY: takes numbers only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}

fn has_lost(parent: i32) -> bool {
    // SAFETY: takes no arguments.
    (unsafe { libc::syscall(libc::SYS_getppid) }) as i32 != parent
}

/// The ring that the collector reads.
struct Out {
    ring: Ring<'static>,
    counters: &'static [AtomicU64],
    /// Questions about static fields.
    questions: &'static [AtomicU64],
    parent: i32,
}

impl Out {
    /// The number of question words. Waits until the collector has written them. It reads a hundred files before, which takes many seconds
    /// beside a busy application, and it may be halted.
    fn asked(&self) -> Option<usize> {
        let [asked, prepared] =
            [layout::STATICS_ASKED, layout::STATICS_PREPARED].map(|counter| self.counters.get(counter));
        let (asked, prepared) = (asked?, prepared?);
        let mut patience = Patience { seen: 0, since: monotonic() };
        loop {
            match asked.load(Ordering::Acquire) {
                0 if has_lost(self.parent) => return None,
                0 if patience.is_over(prepared.load(Ordering::Relaxed), monotonic()) => return None,
                0 => pause(INTERVAL),
                asked => return usize::try_from(asked - 1).ok(),
            }
        }
    }

    /// Sends a piece, with `mark` in its length word. Waits for room.
    fn push(&mut self, bytes: &[u8], mark: u64) -> bool {
        let length = bytes.len() as u64 | mark;
        loop {
            match self.ring.push_bytes(length, bytes) {
                Ok(()) => return true,
                Err(Refused::Full | Refused::Contended) if has_lost(self.parent) => return false,
                Err(_) => pause(INTERVAL),
            }
        }
    }
}

/// The wait for a collector that shows signs of life.
struct Patience {
    /// The last sign.
    seen: u64,
    /// When it was new.
    since: u64,
}

impl Patience {
    /// Whether the last sign of life is too old.
    fn is_over(&mut self, sign: u64, now: u64) -> bool {
        if sign != self.seen {
            *self = Patience { seen: sign, since: now };
        }
        now.saturating_sub(self.since) > LONGEST_WAIT
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_still_reads_files_is_waited_for_and_a_halted_one_is_not() {
        let mut patience = Patience { seen: 0, since: 1_000 };
        let late = LONGEST_WAIT - 1;
        assert!(!patience.is_over(0, 1_000 + late));
        // A hundred files take longer than one wait.
        for file in 1..=100 {
            assert!(!patience.is_over(file, 1_000 + late * (file + 1)), "{file} files were read");
        }
        let last = 1_000 + late * 101;
        assert!(!patience.is_over(100, last + LONGEST_WAIT));
        assert!(patience.is_over(100, last + LONGEST_WAIT + 1));
    }
}
