//! The real [`Platform`]: Linux, this process.

use crate::followed_threads::{self, FollowedThreads, SLOT_BYTES};
use crate::fork_guard::ForkGuard;
use crate::futex::{futex_wait, futex_wake};
use crate::heap_tracking::HeapLookup;
use crate::roots;
use crate::sampler::Sampler;
use crate::signal::{OwnSignal, Sender};
use crate::snapshot::Snapshot;
use crate::threads::{lock, pause, this_thread};
use crate::unwind;
use crate::wake::Wake;
use corprof::detach::{OwnThread, RunningCallbacks};
use corprof::{AttachMask, HResult, HeapView, HighAttachMask, ObjectId};
use remora_connection::{Channel, MappedWords, Mapping};
use remora_ring::{HEADER_WORDS, Ring};
use remora_sampler::{HeapRange, HeapReader, HeapRoot, LINK_WORDS, Links, RawSample, Session, monotonic};
use remora_session::{
    Child, CodeKind, CpuTimes, HostedPlatform, Platform, ResourceKind, ResourceRegistry, Started, SupportedTasks, Words,
};
use remora_wire::Received;
use remora_wire::{AgentError, AgentErrorCode, Config, FromAgent, Task, ToAgent, layout};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The engine of a heap snapshot, as reported to the recorder.
const COPY: &str = "a copy of the process";

/// The sampling engine, as reported to the recorder.
const ENGINE: &str = "random instants";

/// The ring between the handlers and the worker, bytes: 2 MiB and its header.
const SAMPLE_RING_BYTES: usize = (HEADER_WORDS + (1 << 18)) * 8;

/// The C library starts a thread with every signal blocked. It unblocks them within this time, nanoseconds.
const BIRTH: u64 = 200_000;

/// The rest after a scan for threads: this many times its duration, at most [`LONGEST_SCAN_REST`] nanoseconds. It bounds the cost where
/// threads start and end all the time.
const SCAN_REST: u64 = 10;
const LONGEST_SCAN_REST: u64 = 5_000_000;

/// How often to check whether callbacks have ended, and the pause between two checks, nanoseconds. After the last check, the memory that
/// they may read stays mapped.
const LET_GO_TRIES: usize = 1000;
const LET_GO_PAUSE: u64 = 1_000_000;

/// The resources that one attach has from the operating system.
pub struct Linux {
    config: Config,
    wake: Wake,
    resources: Arc<ResourceRegistry>,
    shared: Mutex<Option<Mapping>>,
    sampling: Mutex<Option<Sampling>>,
    retired: Mutex<Option<Retired>>,
    /// Pointers to the session of `sampling` and the words of `shared`: for handlers and callbacks, which may not lock.
    fork_guard: ForkGuard,
    /// The memory of a heap snapshot, and its forked copy. The worker sets it once, before callbacks read it.
    snapshot: OnceLock<Snapshot>,
    /// Reads the heap for heap tracking; set once, in the same way.
    heap_lookup: OnceLock<HeapLookup>,
    /// An unwind table received before sampling began.
    early_table: Mutex<Option<Mapping>>,
    /// Whether a handler may still run after sampling stopped. Its memory is then leaked.
    handler_stays: AtomicBool,
    /// The handlers' link table, once sampling begins.
    links: OnceLock<Arc<[AtomicU64]>>,
    /// The next scan for threads is due then, monotonic nanoseconds.
    scan_due: AtomicU64,
    /// Dropped last: under musl, the closed socket shows the recorder that everything else is released.
    channel: Mutex<Option<Channel>>,
}

struct Sampling {
    session: *mut Session<'static>,
    signal: OwnSignal,
    followed: Arc<Mutex<FollowedThreads>>,
    sampler: Option<(Arc<Sampler>, OwnThread)>,
    ring: Mapping,
    slots: Mapping,
    links: Arc<[AtomicU64]>,
}

// SAFETY: `session` points to a boxed session. Only `Retired` frees it, once.
unsafe impl Send for Sampling {}

/// The memory of ended sampling. It is freed with the platform, once no callback can read it.
struct Retired {
    session: *mut Session<'static>,
    _followed: Arc<Mutex<FollowedThreads>>,
    _memory: (Mapping, Mapping, Arc<[AtomicU64]>),
}

// SAFETY: `session` points to a boxed session. Only this value frees it, once.
unsafe impl Send for Retired {}

impl Drop for Retired {
    fn drop(&mut self) {
        // SAFETY: `begin` made it with `Box::into_raw`. The handlers and callbacks that could read it have ended.
        drop(unsafe { Box::from_raw(self.session) });
    }
}

impl Linux {
    /// Creates one descriptor and one page. Nothing else in the process changes yet.
    ///
    /// # Errors
    /// A system error.
    pub fn new(config: Config, resources: Arc<ResourceRegistry>) -> Result<Linux, AgentError> {
        Ok(Linux {
            wake: Wake::new()?,
            config,
            resources,
            shared: Mutex::new(None),
            sampling: Mutex::new(None),
            retired: Mutex::new(None),
            fork_guard: ForkGuard::new().map_err(AgentError::system)?,
            snapshot: OnceLock::new(),
            heap_lookup: OnceLock::new(),
            early_table: Mutex::new(None),
            handler_stays: AtomicBool::new(false),
            links: OnceLock::new(),
            scan_due: AtomicU64::new(0),
            channel: Mutex::new(None),
        })
    }

    fn counters(&self) -> &'static [AtomicU64] {
        self.fork_guard.outer().and_then(|words| words.get(..layout::HEADER_WORDS)).unwrap_or_default()
    }

    /// Maps the shared memory that came with [`ToAgent::Welcome`].
    fn adopt(&self, descriptor: &OwnedFd) -> Result<(), AgentError> {
        let bytes = layout::size_in_bytes(self.config.task == Task::HeapTracking, HEADER_WORDS);
        let mapping = Mapping::shared(descriptor.as_raw_fd(), bytes)
            .map_err(|errno| AgentErrorCode::SharedMemory.with(errno as u64))?;
        let mapping = self.fork_guard.keep(mapping);
        // SAFETY: `self.shared` keeps the mapping. `release_recording` clears the pointer to the words before it drops the mapping.
        let words = unsafe { mapping.words() };
        if words.first().map(|word| word.load(Ordering::Relaxed)) != Some(layout::MAGIC) {
            return Err(AgentErrorCode::SharedMemoryVersion.into());
        }
        self.fork_guard.set_outer(words);
        *lock(&self.shared) = Some(mapping);
        Ok(())
    }

    /// Publishes the unwind table behind `descriptor`, now or when sampling begins.
    fn take_table(&self, descriptor: &OwnedFd) {
        let Ok(table) = unwind::mapped(descriptor) else { return self.count(layout::UNWIND_REFUSED, 1) };
        let mut table = Some(self.fork_guard.keep(table));
        self.while_sampling(|followed, session| table.take().map(|table| followed.publish_unwind(session, table)));
        if table.is_some() {
            *lock(&self.early_table) = table;
        }
    }

    /// Calls `act` if threads are sampled now.
    fn while_sampling<T>(&self, act: impl FnOnce(&mut FollowedThreads, &Session) -> T) -> Option<T> {
        Some(act(&mut lock(&lock(&self.sampling).as_ref()?.followed), self.session()?))
    }

    fn begin(&self) -> Result<(Sampling, Vec<(u32, String)>), AgentError> {
        let memory =
            |bytes| Mapping::anonymous(bytes).map(|made| self.fork_guard.keep(made)).map_err(AgentError::system);
        let (ring, slots) = (memory(SAMPLE_RING_BYTES)?, memory(SLOT_BYTES)?);
        let links = self.links();
        // SAFETY: `Sampling`, then `Retired`, keep table and mappings. `stop_sampling` leaks them if a handler may still run.
        let (ring_words, slot_values, link_words) = unsafe { (ring.words(), slots.values(), &*Arc::as_ptr(&links)) };
        let (raw, links_view) =
            (Ring::new(ring_words).ok_or(AgentError::system(libc::EINVAL))?, Links::new(link_words));
        let traced = crate::proc::tracing(this_thread()).traced;
        let session = Box::into_raw(Box::new(Session::new(raw, self.counters(), slot_values, links_view, traced)));
        let threads = crate::proc::everybody();
        self.resources.acquire(ResourceKind::SignalHandler);
        let signal = OwnSignal::claim(&self.fork_guard, &threads).inspect_err(|_| {
            self.resources.release(ResourceKind::SignalHandler);
            // SAFETY: no handler was registered, so only this function has the pointer.
            drop(unsafe { Box::from_raw(session) });
        })?;
        let followed = Arc::new(Mutex::new(FollowedThreads::new(Sender::new(signal.number))));
        // SAFETY: only `Retired` frees the session, and `Sampling` does not exist yet.
        let live = unsafe { &*session };
        let new = {
            let mut followed = lock(&followed);
            followed.publish_ranges(live);
            if let Some(table) = lock(&self.early_table).take() {
                followed.publish_unwind(live, table);
            }
            followed.begin(live, &self.resources, threads)
        };
        live.armed.store(true, Ordering::SeqCst);
        self.fork_guard.session.store(session, Ordering::Release);
        let sampling = Sampling { session, signal, followed, sampler: None, ring, slots, links };
        Ok((sampling, new))
    }

    fn start_sampler(
        &self,
        sampling: &mut Sampling,
        wall: bool,
        wanted: remora_wire::Sampling,
    ) -> Result<(), AgentError> {
        // SAFETY: only `Retired` frees the session. `stop_sampling` joins this thread before it makes one.
        let session = unsafe { &*sampling.session };
        let sender = Sender::new(sampling.signal.number);
        let sampler = Arc::new(Sampler::new(session, sampling.followed.clone(), sender, wall, wanted));
        self.resources.acquire(ResourceKind::Thread);
        let thread = sampler.clone().start().map_err(|error| {
            self.resources.release(ResourceKind::Thread);
            AgentError::system(error)
        })?;
        sampling.sampler = Some((sampler, thread));
        Ok(())
    }

    fn session(&self) -> Option<&Session<'static>> {
        // SAFETY: null, or a live session: `release_recording` clears this pointer before the session is freed.
        unsafe { self.fork_guard.session.load(Ordering::Acquire).as_ref() }.filter(|_| Self::TASKS.recordings)
    }
}

impl HostedPlatform for Linux {
    fn release_recording(&self, callbacks: &RunningCallbacks) {
        self.hang_up();
        self.fork_guard.session.store(std::ptr::null_mut(), Ordering::SeqCst);
        let wake = self.wake.forget();
        let handler_stays = self.handler_stays.load(Ordering::SeqCst) || lock(&self.sampling).is_some();
        for _ in 0..LET_GO_TRIES {
            if callbacks.count() != 0 {
                pause(LET_GO_PAUSE);
                continue;
            }
            wake.close();
            if !handler_stays {
                *lock(&self.retired) = None;
                self.fork_guard.forget_outer();
                *lock(&self.shared) = None;
            }
            return;
        }
    }

    fn call(&self) -> Result<(), AgentError> {
        let mut channel = Channel::connect(&self.config.socket_path)?;
        channel.send(&FromAgent::Hello { version: remora_wire::VERSION, nonce: self.config.nonce });
        *lock(&self.channel) = Some(channel);
        Ok(())
    }

    fn remove_abandoned_files(&self) {
        remora_connection::remove_abandoned(&self.config.socket_path);
    }

    fn hang_up(&self) {
        *lock(&self.channel) = None;
        *lock(&self.early_table) = None;
    }

    fn tell_detached(&self) {
        if let Ok(channel) = self.channel.try_lock()
            && let Some(channel) = channel.as_ref()
        {
            channel.send_at_once(&FromAgent::Detached);
        }
    }

    fn suspend_and_fork(&self, heap: HeapView) -> Result<(), u32> {
        let snapshot = self.snapshot.get().ok_or(HResult::E_UNEXPECTED.0 as u32)?;
        snapshot.suspend_and_fork(heap, &self.fork_guard).map_err(|code| code.0 as u32)
    }

    fn look(&self, heap: HeapView, visit: &mut dyn FnMut(&dyn HeapReader, &mut [HeapRange])) {
        if let Some(heap_lookup) = self.heap_lookup.get() {
            heap_lookup.look(heap, visit);
        }
    }

    fn set_event_mask(&self, heap: HeapView, low: AttachMask, high: HighAttachMask) -> Result<(), u32> {
        // SAFETY: this runs in a GC callback, and the runtime allows the call in any callback.
        unsafe { heap.set_event_mask2(low, high) }.map_err(|code| code.0 as u32)
    }

    fn fork_snapshot(&self, heap: HeapView) {
        // A child of the target has no shared memory.
        if let (Some(snapshot), Some(_)) = (self.snapshot.get(), self.fork_guard.outer()) {
            snapshot.fork(heap, &self.fork_guard);
        }
    }

    fn read_checked(&self, address: u64) -> Option<[u8; 8]> {
        remora_sampler::read_checked(address)
    }

    fn is_file(&self, path: &str) -> bool {
        std::path::Path::new(path).is_file()
    }
}

impl Platform for Linux {
    const TASKS: SupportedTasks =
        SupportedTasks { recordings: cfg!(feature = "recordings"), heap: cfg!(feature = "heap") };

    fn now(&self) -> u64 {
        monotonic()
    }

    fn wake(&self) {
        self.wake.up();
    }

    fn wait(&self, nanoseconds: u64) {
        let channel = lock(&self.channel).as_ref().map_or(-1, Channel::descriptor);
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polls = [entry(self.wake.number()), entry(channel)];
        let milliseconds = nanoseconds.div_ceil(1_000_000).min(60_000) as i32;
        // SAFETY: two live pollfds. The kernel ignores a negative descriptor.
        unsafe { libc::poll(polls.as_mut_ptr(), 2, milliseconds) };
        self.wake.is_heard();
    }

    fn pause(&self, nanoseconds: u64) {
        pause(nanoseconds);
    }

    fn wait_in_callback(&self, counter: &AtomicU64, goal: u64, nanoseconds: u64) -> bool {
        let deadline = monotonic() + nanoseconds;
        loop {
            let value = counter.load(Ordering::SeqCst);
            if value >= goal {
                return true;
            }
            let now = monotonic();
            if now >= deadline {
                return false;
            }
            futex_wait(counter, value as u32, deadline - now);
        }
    }

    fn announce(&self, counter: &AtomicU64) {
        futex_wake(counter);
    }

    fn connect(&self) -> Result<(), AgentError> {
        if lock(&self.channel).is_some() { Ok(()) } else { self.call() }
    }

    fn receive(&self) -> Received {
        let mut guard = lock(&self.channel);
        let Some(channel) = guard.as_mut() else { return Received::HungUp };
        let received = channel.receive();
        if !matches!(received, Received::Message(ToAgent::Welcome | ToAgent::Unwind)) {
            return received;
        }
        let is_table = received == Received::Message(ToAgent::Unwind);
        let Some(descriptor) = channel.take_descriptor() else {
            // The target has no free descriptor. Sampling works without a table.
            self.count(layout::UNWIND_REFUSED, u64::from(is_table));
            return if is_table { received } else { Received::HungUp };
        };
        drop(guard);
        if received == Received::Message(ToAgent::Unwind) {
            self.take_table(&descriptor);
            return received;
        }
        match self.adopt(&descriptor) {
            Ok(()) => received,
            Err(error) => {
                self.send(&FromAgent::Failed(error));
                Received::HungUp
            }
        }
    }

    fn send(&self, message: &FromAgent) {
        if let Some(channel) = lock(&self.channel).as_mut() {
            channel.send(message);
        }
    }

    fn publish(&self, parts: &[&[u64]]) -> bool {
        let place = layout::messages(self.config.task.is_of_heap(), HEADER_WORDS);
        let Some(ring) = self.fork_guard.outer().and_then(|words| Ring::new(words.get(place)?)) else {
            return false;
        };
        ring.push(parts).is_ok()
    }

    fn count(&self, counter: usize, by: u64) {
        if let Some(counter) = self.counters().get(counter) {
            counter.fetch_add(by, Ordering::Relaxed);
        }
    }

    fn start_sampling(&self) -> Result<Started, AgentError> {
        let (wall, wanted) = match self.config.task {
            Task::CpuSampling(wanted) => (false, wanted),
            Task::WallSampling(wanted) => (true, wanted),
            // The callback check needs no samples.
            _ => return Ok(without_samples()),
        };
        let (mut sampling, threads) = self.begin()?;
        let started = self.start_sampler(&mut sampling, wall, wanted);
        let signal = sampling.signal.number as u32;
        *lock(&self.sampling) = Some(sampling);
        started?;
        Ok(Started { signal, thread: this_thread(), threads, engine: ENGINE.into() })
    }

    fn set_frequency(&self, hertz: u32) {
        if let Some((sampler, _)) = lock(&self.sampling).as_ref().and_then(|sampling| sampling.sampler.as_ref()) {
            sampler.set_frequency(hertz);
        }
    }

    fn cpu_times(&self) -> Option<CpuTimes> {
        lock(&self.sampling).as_ref().map(|sampling| {
            let sampler = sampling.sampler.as_ref().map_or(0, |(sampler, _)| sampler.thread.load(Ordering::Relaxed));
            lock(&sampling.followed).cpu_times(sampler)
        })
    }

    fn follow_threads(&self) -> Vec<(u32, String)> {
        let guard = lock(&self.sampling);
        let (Some(sampling), Some(session)) = (guard.as_ref(), self.session()) else { return Vec::new() };
        pause(self.scan_due.load(Ordering::Relaxed).saturating_sub(monotonic()));
        let begun = monotonic();
        let scan = |followed: &mut FollowedThreads| followed.scan(session, &self.resources);
        let (mut new, expects_more) = {
            let mut followed = lock(&sampling.followed);
            followed.publish_ranges(session);
            (scan(&mut followed), followed.expects_more())
        };
        if expects_more {
            pause(BIRTH);
            new.extend(scan(&mut lock(&sampling.followed)));
        }
        let rest = ((monotonic() - begun) * SCAN_REST).min(LONGEST_SCAN_REST);
        self.scan_due.store(monotonic() + rest, Ordering::Relaxed);
        new
    }

    fn collects(&self, is_begun: bool) {
        if let Some(session) = self.session() {
            session.collecting.store(if is_begun { this_thread() } else { 0 }, Ordering::Relaxed);
        }
    }

    fn thrown(&self, view: HeapView, exception: ObjectId) {
        if let Some(session) = self.session() {
            remora_sampler::thrown(session, || {
                // SAFETY: the runtime passes a valid object to ExceptionThrown, and allows the question there. The agent has not detached:
                // it waits for its callbacks before that.
                let class = unsafe { view.class_of(exception) }.map_or(0, |class| class.0 as u64);
                (this_thread(), class)
            });
        }
    }

    fn sample_again(&self, slot: u32, thread: u32) {
        self.while_sampling(|_, session| followed_threads::sample_again(session, slot, thread));
    }

    fn ended_threads(&self) -> Vec<(u32, u64)> {
        self.while_sampling(|followed, _| followed.take_ended()).unwrap_or_default()
    }

    fn thread_names(&self) -> Vec<(u32, String)> {
        self.while_sampling(|followed, _| followed.names()).unwrap_or_default()
    }

    fn next_sample(&self, words: &mut Vec<u64>) -> bool {
        words.clear();
        let found = self.session().is_some_and(|session| session.ring.pop(|word| words.push(word)).is_some());
        if let Some(leaf) = RawSample::decode(words).filter(|_| found).and_then(|sample| sample.addresses.first()) {
            self.while_sampling(|followed, _| followed.code_runs_at(*leaf));
        }
        found
    }

    fn samples_pending(&self) -> bool {
        self.session().is_some_and(|session| !session.ring.is_empty())
    }

    fn learn_stack(&self, slot: u32, thread: u32, stack_pointer: u64) {
        self.while_sampling(|followed, session| followed.learn_stack(session, slot, thread, stack_pointer));
    }

    fn links(&self) -> Arc<[AtomicU64]> {
        self.links.get_or_init(|| std::iter::repeat_with(|| AtomicU64::new(0)).take(LINK_WORDS).collect()).clone()
    }

    fn code_at(&self, address: u64) -> CodeKind {
        self.while_sampling(|followed, _| followed.code_at(address)).unwrap_or(CodeKind::None)
    }

    fn bytes_before(&self, address: u64) -> Option<[u8; 8]> {
        remora_sampler::read_checked(address.checked_sub(8)?)
    }

    fn task(&self) -> Task {
        self.config.task
    }

    fn words(&self, count: usize) -> Option<Words> {
        Some(Box::new(MappedWords::new(count).ok()?))
    }

    fn tell_of_collection(&self, piece: &[u8]) -> bool {
        crate::heap_tracking::tell(self.fork_guard.outer().unwrap_or_default(), piece)
    }

    fn roots_begin(&self) {
        if let Some(roots) = self.snapshot.get().and_then(Snapshot::roots) {
            roots.begin();
        }
    }

    fn methods_with_roots(&self) -> Vec<u64> {
        self.snapshot.get().and_then(Snapshot::roots).map(roots::Roots::methods).unwrap_or_default()
    }

    fn keep_root(&self, kind: u64, address: u64, detail: u64) {
        if let Some(roots) = self.snapshot.get().and_then(Snapshot::roots) {
            roots.keep(HeapRoot { kind, address, detail });
        }
    }

    fn prepare_snapshot(&self) -> Result<Started, AgentError> {
        if let Some(snapshot) = self.snapshot.get() {
            snapshot.begin_anew();
        } else {
            let outer = self.fork_guard.outer().ok_or(AgentErrorCode::SharedMemory)?;
            let wanted = self.config.task.snapshot().unwrap_or_default();
            let snapshot = Snapshot::new(outer, wanted).map_err(AgentError::system)?;
            // Only this thread sets it, and only once.
            let _ = self.snapshot.set(snapshot);
        }
        if self.config.task.monitors_gcs() && self.heap_lookup.get().is_none() {
            let _ = self.heap_lookup.set(HeapLookup::new().map_err(AgentError::system)?);
        }
        Ok(without_samples())
    }

    fn app_domain_is(&self, domain: usize) {
        if let Some(snapshot) = self.snapshot.get() {
            snapshot.domain_is(domain);
        }
    }

    fn child(&self) -> Child {
        self.snapshot.get().map_or(Child::None, Snapshot::child)
    }

    fn end_child(&self) {
        if let Some(snapshot) = self.snapshot.get() {
            snapshot.end();
        }
    }

    fn counter(&self, counter: usize) -> u64 {
        self.counters().get(counter).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    fn stop_sampling(&self) -> Result<(), AgentError> {
        let taken = Self::TASKS.recordings.then(|| lock(&self.sampling).take()).flatten();
        let Some(mut sampling) = taken else { return Ok(()) };
        if let Some((sampler, thread)) = sampling.sampler.take() {
            sampler.end();
            thread.join();
            self.resources.release(ResourceKind::Thread);
        }
        // SAFETY: only `Retired`, made below, frees the session.
        let session = unsafe { &*sampling.session };
        session.armed.store(false, Ordering::SeqCst);
        let sampled = lock(&sampling.followed).leave_all(session, &self.resources);
        let Sampling { session: pointer, signal, followed, ring, slots, links, .. } = sampling;
        let retired = Retired { session: pointer, _followed: followed, _memory: (ring, slots, links) };
        if let Err(why) = signal.release(session, &sampled) {
            // A handler may still start and needs its memory: leak it.
            std::mem::forget(retired);
            self.handler_stays.store(true, Ordering::SeqCst);
            return Err(why);
        }
        self.resources.release(ResourceKind::SignalHandler);
        *lock(&self.retired) = Some(retired);
        Ok(())
    }
}

/// The answer if an attach sends no signal.
fn without_samples() -> Started {
    Started { signal: 0, thread: this_thread(), threads: Vec::new(), engine: COPY.into() }
}
