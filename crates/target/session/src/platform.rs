//! The operating system as the agent needs it: the seam at which a model of the runtime can stand in for the real one.

use crate::supported_tasks::SupportedTasks;
use remora_wire::{FromAgent, Moment, Roots, ToAgent};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What the control channel holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(ToAgent),
    /// Nothing at the moment.
    Nothing,
    /// The other side is gone: whoever used the profiler has died or given up (DET-16).
    HungUp,
}

/// What the mappings say of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeKind {
    /// Not executable.
    None,
    /// Of the C library's family: built without frame pointers.
    Frameless,
    /// In no file: the runtime generated it. If it is no method, it is a stub or a write barrier.
    Generated,
    /// Any other code.
    Other,
}

/// How sampling began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The signal in use.
    pub signal: u32,
    /// The agent's thread.
    pub thread: u32,
    /// Threads followed, with their names.
    pub threads: Vec<(u32, String)>,
    /// What takes the samples, in words.
    pub engine: String,
}

/// CPU time during a recording, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Of each thread followed now, by its own clock.
    pub threads: Vec<(u32, u64)>,
    /// Of the process, including ended threads, the agent's threads and threads not followed.
    pub process: u64,
    /// Of the agent's own threads.
    pub agent: u64,
    /// Of threads that cannot be followed.
    pub unfollowed: u64,
}

/// What became of the copy of the process that walks its heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// There has been none.
    None,
    /// The system refused to make it, with this error.
    Refused(i32),
    /// It walks.
    Walks {
        /// Its number.
        pid: u32,
        /// Nanoseconds that making it took.
        took: u64,
    },
    /// It has ended.
    Ended {
        /// As `wait` tells it.
        status: i32,
        /// Nanoseconds that making it took.
        took: u64,
    },
}

/// Words that are zero at first, for callbacks, which allocate nothing.
pub type Words = Box<dyn AsRef<[AtomicU64]> + Send + Sync>;

/// So many, all there at once.
pub fn words(count: usize) -> Words {
    let all: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
    Box::new(all)
}

/// The operating system. Methods say on which thread they may be called; `wake` and `wait_in_callback` alone run in callbacks.
pub trait Platform: Send + Sync + 'static {
    /// What this library was built for. Known to the compiler, so that code for other orders is left out.
    const TASKS: SupportedTasks = SupportedTasks::ALL;

    /// Monotonic time, nanoseconds.
    fn now(&self) -> u64;

    /// Makes [`Platform::wait`] return. Any thread; never waits, allocates or locks.
    fn wake(&self);

    /// Agent's thread: returns when woken, when the control channel has something, or after `nanoseconds`.
    fn wait(&self, nanoseconds: u64);

    /// Agent's thread: returns after `nanoseconds`, whatever happens meanwhile.
    fn pause(&self, nanoseconds: u64);

    /// A callback's one allowed wait: until `counter` reaches `goal`, or `nanoseconds` have passed. Returns whether it has.
    fn wait_in_callback(&self, counter: &AtomicU64, goal: u64, nanoseconds: u64) -> bool;

    /// Agent's thread: wakes those who wait for `counter`.
    fn announce(&self, counter: &AtomicU64);

    /// Agent's thread: connects the control channel.
    ///
    /// # Errors
    /// Why not, in words.
    fn connect(&self) -> Result<(), String>;

    /// Agent's thread: the next message of the control channel.
    fn receive(&self) -> Received;

    /// Any thread of ours, and ProfilerDetachSucceeded: sends if that needs no waiting.
    fn send(&self, message: &FromAgent);

    /// Agent's thread: puts a message into the transport if there is room for it now; whether there was. Never waits.
    fn publish(&self, parts: &[&[u64]]) -> bool;

    /// Agent's thread: adds to a counter of [`remora_wire::layout`].
    fn count(&self, counter: usize, by: u64);

    /// Agent's thread: begins to sample.
    ///
    /// # Errors
    /// Why not, in words.
    fn start_sampling(&self) -> Result<Started, String>;

    /// Agent's thread: another frequency, hertz.
    fn set_frequency(&self, hertz: u32);

    /// Agent's thread: looks for threads that came and went; the new ones with their names. Called when a callback told of one, and
    /// every now and then.
    fn follow_threads(&self) -> Vec<(u32, String)>;

    /// Agent's thread: a sample's stack is incomplete. If the thread is blocked, it is sampled once more.
    fn sample_again(&self, _slot: u32, _thread: u32) {}

    /// Agent's thread: followed threads that ended since the last call, and the CPU time of each, nanoseconds.
    fn ended_threads(&self) -> Vec<(u32, u64)> {
        Vec::new()
    }

    /// Agent's thread: the followed threads, with the names that they have now.
    fn thread_names(&self) -> Vec<(u32, String)>;

    /// Agent's thread: the CPU time used since sampling began; `None` without sampling, or if unknown.
    fn cpu_times(&self) -> Option<CpuTimes> {
        None
    }

    /// Agent's thread: moves the oldest raw sample into `words`; false if there is none.
    fn next_sample(&self, words: &mut Vec<u64>) -> bool;

    /// Any thread: whether raw samples wait to be looked at.
    fn samples_pending(&self) -> bool;

    /// Agent's thread: tells the handlers where the stack of a slot's thread lies, now that its stack pointer is known.
    fn learn_stack(&self, slot: u32, thread: u32, stack_pointer: u64);

    /// Agent's thread: the walk's link table ([`remora_sampler::Links`]). Only this thread writes it.
    fn links(&self) -> Arc<[AtomicU64]>;

    /// Agent's thread: what kind of code is at an address.
    fn code_at(&self, address: u64) -> CodeKind;

    /// Agent's thread: the eight bytes before an address, read so that it cannot fault.
    fn bytes_before(&self, address: u64) -> Option<[u8; 8]>;

    /// Whether a snapshot of the heap is wanted, instead of samples.
    fn wants_snapshot(&self) -> bool {
        false
    }

    /// Whether nothing is wanted but that the agent is there: it stays, and does nothing.
    fn wants_nothing(&self) -> bool {
        false
    }

    /// What the snapshot is to say of roots.
    fn roots(&self) -> Roots {
        Roots::Inferred
    }

    /// In GarbageCollectionStarted: the roots of this collection are wanted, and of none before.
    fn roots_begin(&self) {}

    /// In a callback of that collection: something of this kind holds the object at `address`, as [`remora_wire::heap`] says. Never
    /// waits, allocates or locks; what finds no room is counted.
    fn keep_root(&self, _kind: u64, _address: u64, _detail: u64) {}

    /// Agent's thread, after that collection: the FunctionIDs of methods whose locals were told of as roots, each once.
    fn methods_with_roots(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Whether snapshots are taken until no other is wanted, and later collections told of.
    fn keeps_watch(&self) -> bool {
        false
    }

    /// Any thread, in callbacks of collections, several at once: hands a piece over that tells of a collection, if there is room. Never waits.
    fn tell_of_collection(&self, _piece: &[u8]) -> bool {
        false
    }

    /// Agent's thread: so many words, of which only those that are touched need memory; fewer, where no more are wanted.
    fn words(&self, count: usize) -> Option<Words> {
        Some(words(count))
    }

    /// How the snapshot is to be taken.
    fn moment(&self) -> Moment {
        Moment::Collected
    }

    /// Agent's thread: memory and place for the walk of a copy of the process; for another walk, if there was one.
    ///
    /// # Errors
    /// In words.
    fn prepare_snapshot(&self) -> Result<Started, String> {
        Err("this process cannot be copied".into())
    }

    /// Agent's thread: the application domain whose static fields the copy asks about.
    fn app_domain_is(&self, _domain: usize) {}

    /// Agent's thread: what has become of the copy.
    fn child(&self) -> Child {
        Child::None
    }

    /// Agent's thread: ends the copy, however far it is. [`Platform::child`] tells when that is so.
    fn end_child(&self) {}

    /// A counter of [`remora_wire::layout`].
    fn counter(&self, _counter: usize) -> u64 {
        0
    }

    /// Agent's thread: stops sampling *verifiably*: timers deleted, signals drained, no handler running, dispositions as before.
    ///
    /// # Errors
    /// What could not be closed, in words: the library must then stay mapped.
    fn stop_sampling(&self) -> Result<(), String>;
}
