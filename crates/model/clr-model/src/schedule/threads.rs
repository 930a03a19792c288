//! The same functions on threads of the system, for code that cannot be a coroutine: a profiler's real library.
//!
//! # Purpose
//! In a process with [`OsThreads`], every function of [`super`] works on real threads. The seed decides what the runtime's side does at
//! each point: continue, yield, or wait a little. Threads of the profiler take part when they call the runtime.
//!
//! # Design constraints
//! Only the runtime's side is seeded. The profiler's threads and the system's scheduler are not, so the same seed probably gives the same
//! schedule, but never certainly. Time is compressed: in the laboratory, [`COMPRESSION`] nanoseconds of the model pass in one of the
//! system's.
//!
//! # Rejected
//! A baton that only one thread holds. The runtime would have to release it around each call of the profiler, which may block for any time.
//! So the baton would order nothing of interest.

use super::answer::Answer;
use super::signal_stack::SignalStack;
use super::{Random, Task};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The default factor by which model time passes faster.
pub const COMPRESSION: u32 = 100;

/// The interval between two checks of a waiting thread, unless it is woken.
const INTERVAL: Duration = Duration::from_micros(300);

/// How long the system may take a thread's CPU in the middle of the runtime's own instructions. That is no fault of the profiler.
const PREEMPTED: Duration = Duration::from_millis(100);

/// The longest wait for a thread that begins, in turns.
const TURN: Duration = Duration::from_millis(50);
const TURNS: u32 = 80;

/// The longest delay at a point, microseconds.
const LONGEST_POINT: u64 = 60;

/// Called if a thread does not begin. Gets the IDs of all threads of the runtime's side, the thread's ID, and whether it begins meanwhile.
pub type StuckStart = fn(Vec<u32>, u32, &dyn Fn() -> bool);

/// See the module documentation.
#[derive(Debug)]
pub struct OsThreads {
    began: Instant,
    seed: u64,
    compression: u32,
    tasks: AtomicUsize,
    ended: Mutex<Vec<Task>>,
    /// Threads of the runtime's side, by system thread ID. IDs are kept: the kernel shows a thread a little longer than it runs.
    own: Mutex<Vec<u32>>,
    /// Those that run a task.
    of_tasks: Mutex<Vec<(Task, u32)>>,
    /// Locked while a thread starts, until it is known.
    begins: Mutex<()>,
    stuck: OnceLock<StuckStart>,
    changed: (Mutex<u64>, Condvar),
    stopped: AtomicBool,
}

static CONDUCTOR: OnceLock<OsThreads> = OnceLock::new();

thread_local! {
    /// Without destructors: on a thread of the profiler they would run our code at its end.
    static TASK: Cell<Option<Task>> = const { Cell::new(None) };
    static DRAWN: Cell<u64> = const { Cell::new(0) };
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// What a thread does at its end. Only threads that need this have a destructor.
struct AtEnd(RefCell<Vec<Box<dyn FnOnce()>>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if os_threads().is_some_and(|threads| !threads.is_stopped()) {
            self.0.take().into_iter().for_each(|last| last());
        }
    }
}

thread_local! {
    static AT_END: AtEnd = const { AtEnd(RefCell::new(Vec::new())) };
}

pub(super) fn at_end(last: Box<dyn FnOnce()>) {
    AT_END.with(|at_end| at_end.0.borrow_mut().push(last));
}

/// The process's threads of the system, if it uses them.
pub fn os_threads() -> Option<&'static OsThreads> {
    CONDUCTOR.get()
}

/// Makes this process run one schedule on threads of the system. A second call changes nothing.
pub fn use_os_threads(seed: u64) -> &'static OsThreads {
    use_os_threads_at(seed, COMPRESSION)
}

/// The same with another time compression.
pub fn use_os_threads_at(seed: u64, compression: u32) -> &'static OsThreads {
    let os_threads = CONDUCTOR.get_or_init(|| OsThreads {
        began: Instant::now(),
        seed,
        compression,
        tasks: AtomicUsize::new(0),
        ended: Mutex::default(),
        own: Mutex::default(),
        of_tasks: Mutex::default(),
        begins: Mutex::default(),
        stuck: OnceLock::new(),
        changed: (Mutex::default(), Condvar::new()),
        stopped: AtomicBool::new(false),
    });
    os_threads.current();
    os_threads.join_in();
    // This thread keeps it.
    std::mem::forget(SignalStack::begin());
    os_threads
}

/// Waits a little for the system's scheduler. A world of coroutines has no such delays.
pub fn settle(settled: impl Fn() -> bool) {
    let begun = Instant::now();
    while !settled() && begun.elapsed() < PREEMPTED {
        std::thread::sleep(INTERVAL);
    }
}

impl OsThreads {
    /// From now on, `stuck` is called if a thread does not begin within four seconds, and then every four seconds.
    pub fn on_stuck_start(&self, stuck: StuckStart) {
        // The first one stays.
        let _ = self.stuck.set(stuck);
    }

    /// Calls `look` with the IDs of all threads so far of the runtime's side, while none of them starts.
    pub fn with_own_threads<T>(&self, look: impl FnOnce(&[u32]) -> T) -> T {
        let _none_begins = self.begins.lock().expect("no panic while locked");
        let own = self.own.lock().expect("no panic while locked").clone();
        look(&own)
    }

    /// The system thread ID of a task. The kernel may give it to another thread when this one has ended.
    pub fn thread_of(&self, task: Task) -> Option<u32> {
        let of_tasks = self.of_tasks.lock().expect("no panic while locked");
        of_tasks.iter().find(|(known, _)| *known == task).map(|(_, thread)| *thread)
    }

    /// Whether the running thread belongs to the runtime's side.
    pub fn is_own(&self) -> bool {
        self.own.lock().expect("no panic while locked").contains(&this_thread())
    }

    pub(super) fn now(&self) -> u64 {
        let passed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        passed.saturating_mul(u64::from(self.compression))
    }

    pub(super) fn current(&self) -> Task {
        TASK.with(|task| match task.get() {
            Some(task) => task,
            None => {
                let new = Task(self.tasks.fetch_add(1, Ordering::SeqCst));
                task.set(Some(new));
                new
            }
        })
    }

    pub(super) fn spawn(&'static self, body: impl FnOnce() + Send + 'static) -> Task {
        self.try_spawn(body).expect("the system gives threads")
    }

    /// Returns when the thread is known, so that it is never mistaken for one of the profiler's.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn try_spawn(&'static self, body: impl FnOnce() + Send + 'static) -> io::Result<Task> {
        let _begins = self.begins.lock().expect("no panic while locked");
        let answer = Answer::default();
        let begun = answer.clone();
        // Without a name, since threads that a profiler starts on it would inherit it.
        let started = std::thread::Builder::new().spawn(move || {
            also_end_with_parent();
            let _for_handlers = SignalStack::begin();
            let task = self.current();
            self.join_in();
            self.of_tasks.lock().expect("no panic while locked").push((task, this_thread()));
            begun.give(task);
            body();
            self.ended.lock().expect("no panic while locked").push(task);
            self.wake();
        });
        let started = started?;
        loop {
            // In turns: while the whole machine is suspended, only one turn passes.
            if let Some(task) = (0..TURNS).find_map(|_| answer.wait(TURN)) {
                return Ok(task);
            }
            if let Some(stuck) = self.stuck.get() {
                // Not locked any more during the call: the thread needs it when it begins.
                let own = self.own.lock().expect("no panic while locked").clone();
                stuck(own, number_of(&started), &|| answer.is_given());
            }
        }
    }

    pub(super) fn has_ended(&self, task: Task) -> bool {
        self.ended.lock().expect("no panic while locked").contains(&task)
    }

    pub(super) fn point(&self) {
        self.wake();
        match self.draw() % 16 {
            0..=9 => {}
            10..=13 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(self.draw() % LONGEST_POINT)),
        }
    }

    pub(super) fn wait_until(&self, nanoseconds: Option<u64>, ready: &dyn Fn() -> bool) -> bool {
        let deadline =
            nanoseconds.map(|time| Instant::now() + Duration::from_nanos(time / u64::from(self.compression)));
        loop {
            let seen = *self.changed.0.lock().expect("no panic while locked");
            if ready() {
                return true;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) || self.is_stopped() {
                return ready();
            }
            let guard = self.changed.0.lock().expect("no panic while locked");
            if *guard == seen {
                let (guard, _) = self
                    .changed
                    .1
                    .wait_timeout(guard, left.map_or(INTERVAL, |left| left.min(INTERVAL)))
                    .expect("no panic while locked");
                drop(guard);
            }
        }
    }

    pub(super) fn sleep(&self, nanoseconds: u64) {
        if !self.is_stopped() {
            std::thread::sleep(Duration::from_nanos(nanoseconds / u64::from(self.compression)));
        }
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn join_in(&self) {
        IS_OWN.with(|is_own| is_own.set(true));
        self.own.lock().expect("no panic while locked").push(this_thread());
    }

    fn wake(&self) {
        *self.changed.0.lock().expect("no panic while locked") += 1;
        self.changed.1.notify_all();
    }

    /// The running thread's next number. Each thread has its own sequence, by start order.
    fn draw(&self) -> u64 {
        DRAWN.with(|drawn| {
            let index = self.current().0 as u64;
            drawn.set(drawn.get() + 1);
            Random::new(self.seed ^ index.rotate_left(32) ^ drawn.get().wrapping_mul(0x9e37_79b9_7f4a_7c15)).draw()
        })
    }
}

/// Whether the running thread belongs to the runtime's side. A signal handler may ask.
pub fn is_own_thread() -> bool {
    IS_OWN.with(Cell::get)
}

/// The system thread ID of a thread that may not run its own code yet: the kernel's number of its CPU clock contains it.
fn number_of(thread: &JoinHandle<()>) -> u32 {
    let mut clock = 0;
    // SAFETY: the thread has not been joined, and the place for the number is a local.
    unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) };
    (!(clock >> 3)).cast_unsigned()
}

/// Whether the process ends with its parent.
static ENDS_WITH_PARENT: AtomicBool = AtomicBool::new(false);

/// SIGKILL for this process when its parent ends.
pub fn end_with_parent() {
    ENDS_WITH_PARENT.store(true, Ordering::SeqCst);
    also_end_with_parent();
}

/// The same setting for this thread, if the process has it. A thread that becomes another program (exec) keeps only its own.
pub fn also_end_with_parent() {
    if ENDS_WITH_PARENT.load(Ordering::SeqCst) {
        // The kernel takes every signal's number.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
}

/// The running thread's system thread ID.
pub fn this_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}
