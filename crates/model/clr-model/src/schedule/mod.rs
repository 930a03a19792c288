//! Deterministic schedules: every thread of the modelled world is a coroutine, one runs at a time, and time is a number.
//!
//! # Purpose
//! [`run`] executes one schedule on the calling thread. Inside it, [`spawn`] starts a thread, [`point`] lets another thread run,
//! [`wait_until`] blocks, and [`now`] reads the time. A [`Chooser`] makes every choice and records it: the same choices give the same
//! schedule.
//!
//! # Design constraints
//! Code in the world uses these functions, and no clock, thread or lock of the system. It never holds a lock across a point. Time passes
//! when no thread can run, and sometimes although one could, so a time-out may expire before its event.
//!
//! # Rejected
//! Threads of the system that pass a baton: a switch costs microseconds instead of nanoseconds. Futures: the agent's code blocks, and must
//! run unchanged.

pub mod answer;
mod chooser;
mod signal_stack;
pub mod threads;
mod timeline;

pub use chooser::{Chooser, Exhaustive, Random};
pub use timeline::{Line, Timeline};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use threads::{OsThreads, os_threads};

/// Nanoseconds in a millisecond.
pub const MILLISECOND: u64 = 1_000_000;

/// Stack of a modelled thread, bytes.
const STACK: usize = 256 * 1024;

/// Resumptions before a schedule is abandoned as an endless loop.
const MAXIMUM_RESUMPTIONS: usize = 200_000;

/// How long, in a whole schedule, time may pass although a thread could run, nanoseconds: no thread loses its CPU for longer. It exceeds
/// every wait of the agent and the runtime in milliseconds.
pub const STARVATION: u64 = 1_000_000_000;

/// Resumptions in which a schedule's remaining threads may end on their own.
const MAXIMUM_DRAINING: usize = 2_000;

/// A modelled thread, by start order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task(pub usize);

/// How a schedule ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Every thread has ended, or the world was stopped.
    Complete,
    /// These threads wait forever.
    Stuck(Vec<String>),
    /// It did not end.
    Endless,
    /// A thread of the model or the agent panicked outside any handler.
    Panicked(String),
}

/// The result of a schedule.
#[derive(Debug)]
pub struct Schedule {
    /// How it ended.
    pub end: End,
    /// The recorded steps.
    pub timeline: Timeline,
    /// The choices, for [`Chooser::Replay`].
    pub choices: Vec<u16>,
    /// The chooser, for the next schedule of an exhaustive walk.
    pub chooser: Chooser,
    /// The final time, nanoseconds.
    pub time: u64,
}

type Body = Coroutine<(), (), (), DefaultStack>;
type Condition = *const dyn Fn() -> bool;
/// What a thread does at its end.
type Last = Box<dyn FnOnce()>;

enum Wait {
    Ready,
    Until { deadline: Option<u64>, ready: Condition },
    Ended,
}

struct Thread {
    name: String,
    body: Option<Body>,
    yielder: *const Yielder<(), ()>,
    wait: Wait,
}

struct World {
    threads: RefCell<Vec<Thread>>,
    current: Cell<usize>,
    /// The thread that runs after the current one yields.
    next: Cell<Option<usize>>,
    now: Cell<u64>,
    starved: Cell<u64>,
    chooser: RefCell<Chooser>,
    choices: RefCell<Vec<u16>>,
    timeline: RefCell<Timeline>,
    stopped: Cell<bool>,
    /// What threads do at their end.
    at_end: RefCell<Vec<(Task, Last)>>,
}

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Runs one schedule with `first` as its first thread. It cannot be nested.
pub fn run(chooser: Chooser, timeline: Timeline, first: impl FnOnce() + 'static) -> Schedule {
    let world = Rc::new(World {
        threads: RefCell::default(),
        current: Cell::new(0),
        next: Cell::new(None),
        now: Cell::new(0),
        starved: Cell::new(0),
        chooser: RefCell::new(chooser),
        choices: RefCell::default(),
        timeline: RefCell::new(timeline),
        stopped: Cell::new(false),
        at_end: RefCell::default(),
    });
    WORLD.with(|place| *place.borrow_mut() = Some(world.clone()));
    spawn_here("director", first);
    let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.drive()))
        .unwrap_or_else(|panic| End::Panicked(in_words(&*panic)));
    world.drain();
    WORLD.with(|place| *place.borrow_mut() = None);
    Schedule {
        end,
        timeline: world.timeline.take(),
        choices: world.choices.take(),
        chooser: world.chooser.replace(Chooser::Replay(Vec::new())),
        time: world.now.get(),
    }
}

/// The time, nanoseconds since the schedule began.
pub fn now() -> u64 {
    os_threads().map_or_else(|| world().now.get(), OsThreads::now)
}

/// The running thread.
pub fn current() -> Task {
    os_threads().map_or_else(|| Task(world().current.get()), OsThreads::current)
}

/// Starts a thread.
pub fn spawn(name: impl Into<String>, body: impl FnOnce() + Send + 'static) -> Task {
    match os_threads() {
        Some(os_threads) => os_threads.spawn(body),
        None => spawn_here(name, body),
    }
}

fn spawn_here(name: impl Into<String>, body: impl FnOnce() + 'static) -> Task {
    let world = world();
    let index = world.threads.borrow().len();
    let stack = STACKS.with(|stacks| stacks.borrow_mut().pop()).unwrap_or_else(new_stack);
    let of_body = Rc::downgrade(&world);
    let body = Body::with_stack(stack, move |yielder, ()| {
        if let Some(world) = of_body.upgrade() {
            world.threads.borrow_mut()[index].yielder = yielder;
        }
        body();
        if let Some(world) = of_body.upgrade() {
            world.take_at_end(Task(index)).into_iter().for_each(|last| last());
        }
    });
    world.threads.borrow_mut().push(Thread {
        name: name.into(),
        body: Some(body),
        yielder: std::ptr::null(),
        wait: Wait::Ready,
    });
    Task(index)
}

/// The running thread calls this when its own code is over, as the C library calls destructors.
pub fn at_end(last: impl FnOnce() + 'static) {
    match os_threads() {
        Some(_) => threads::at_end(Box::new(last)),
        None => world().at_end.borrow_mut().push((current(), Box::new(last))),
    }
}

/// Whether a thread has ended.
pub fn has_ended(task: Task) -> bool {
    os_threads().map_or_else(|| world().has_ended(task), |os_threads| os_threads.has_ended(task))
}

/// Lets another thread run.
pub fn point() {
    os_threads().map_or_else(|| world().point(), OsThreads::point)
}

/// Waits until `ready`, or for this time. Returns whether it is ready. Without a time, it waits until the world is stopped.
pub fn wait_until(nanoseconds: Option<u64>, ready: impl Fn() -> bool) -> bool {
    let in_world = || world().wait_until(nanoseconds, &ready);
    os_threads().map_or_else(in_world, |os_threads| os_threads.wait_until(nanoseconds, &ready))
}

/// Lets this time pass.
pub fn sleep(nanoseconds: u64) {
    wait_until(Some(nanoseconds), || false);
}

/// The same, but ends early if `woken`. A thread of the system sleeps to the end without checks, like the runtime's own. So an outside
/// observer counts one sleep.
pub fn sleep_unless(nanoseconds: u64, woken: impl Fn() -> bool) {
    match os_threads() {
        Some(os_threads) => os_threads.sleep(nanoseconds),
        None => {
            world().wait_until(Some(nanoseconds), &woken);
        }
    }
}

/// How long threads have lost their CPUs so far, nanoseconds.
pub fn starved() -> u64 {
    os_threads().map_or_else(|| world().starved.get(), |_| 0)
}

/// Stops the world: every wait returns at once, and later steps do not count.
pub fn stop() {
    os_threads().map_or_else(|| world().stopped.set(true), OsThreads::stop)
}

/// Whether the world has been stopped.
pub fn is_stopped() -> bool {
    os_threads().map_or_else(|| world().stopped.get(), OsThreads::is_stopped)
}

/// Adds a line to the timeline. `{}` in the text is replaced by the value.
pub fn note(what: &'static str, value: u64) {
    if os_threads().is_some() {
        return;
    }
    let world = world();
    let task = world.current.get();
    let draining = world.stopped.get();
    if !draining {
        world.timeline.borrow_mut().add(Line { time: world.now.get(), task, what, value });
    }
}

fn world() -> Rc<World> {
    WORLD.with(|world| world.borrow().clone()).expect("inside a schedule")
}

fn new_stack() -> DefaultStack {
    DefaultStack::new(STACK).expect("memory for the stack of a modelled thread")
}

/// The words of a panic.
pub(crate) fn in_words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words").to_owned()
}

impl World {
    /// Runs until all threads have ended, none can run, or the world is stopped.
    fn drive(&self) -> End {
        for _ in 0..MAXIMUM_RESUMPTIONS {
            if self.stopped.get() {
                return End::Complete;
            }
            match self.next.take().or_else(|| self.pick()) {
                Some(thread) => self.resume(thread),
                None => return self.idle_end(),
            }
        }
        End::Endless
    }

    fn idle_end(&self) -> End {
        let threads = self.threads.borrow();
        let waiting: Vec<String> = threads
            .iter()
            .filter(|thread| !matches!(thread.wait, Wait::Ended))
            .map(|thread| thread.name.clone())
            .collect();
        if waiting.is_empty() { End::Complete } else { End::Stuck(waiting) }
    }

    /// Chooses among the threads that can run; lets time pass if there are none. `None` if nothing can happen any more.
    fn pick(&self) -> Option<usize> {
        loop {
            let ready = self.ready(None);
            let deadline = self.earliest_deadline();
            if ready.is_empty() && deadline.is_none() {
                return None;
            }
            let early = deadline.map_or(u64::MAX, |deadline| deadline.saturating_sub(self.now.get()));
            let can_pass = early <= STARVATION - self.starved.get();
            let choice = match (ready.len(), deadline) {
                (0, _) => 0,
                (1, _) if !can_pass => 0,
                (ready, _) => self.chosen(|chooser, at| chooser.pick(at, ready, can_pass)),
            };
            match ready.get(usize::from(choice)) {
                Some(thread) => return Some(*thread),
                None => {
                    if !ready.is_empty() {
                        self.starved.set(self.starved.get() + early);
                    }
                    self.now.set(self.now.get().max(deadline.unwrap_or_default()));
                }
            }
        }
    }

    fn chosen(&self, choose: impl FnOnce(&mut Chooser, usize) -> u16) -> u16 {
        let mut choices = self.choices.borrow_mut();
        let choice = choose(&mut self.chooser.borrow_mut(), choices.len());
        choices.push(choice);
        choice
    }

    /// A stopped schedule has no ends of threads.
    fn take_at_end(&self, task: Task) -> Vec<Last> {
        let mut all = self.at_end.borrow_mut();
        let own = all.extract_if(.., |(of, _)| *of == task).map(|(_, last)| last).collect();
        if self.stopped.get() { Vec::new() } else { own }
    }

    fn has_ended(&self, task: Task) -> bool {
        self.threads.borrow().get(task.0).is_none_or(|thread| matches!(thread.wait, Wait::Ended))
    }

    fn ready(&self, but: Option<usize>) -> Vec<usize> {
        let now = self.now.get();
        let threads = self.threads.borrow();
        let can_go_on = |thread: &Thread| match thread.wait {
            Wait::Ready => true,
            // SAFETY: the condition is on the stack of the waiting thread, which is suspended.
            Wait::Until { deadline, ready } => deadline.is_some_and(|at| at <= now) || unsafe { (*ready)() },
            Wait::Ended => false,
        };
        let others = threads.iter().enumerate().filter(|(index, _)| Some(*index) != but);
        others.filter(|(_, thread)| can_go_on(thread)).map(|(index, _)| index).collect()
    }

    fn earliest_deadline(&self) -> Option<u64> {
        let now = self.now.get();
        let deadline = |thread: &Thread| match thread.wait {
            Wait::Until { deadline, .. } => deadline.filter(|at| *at > now),
            _ => None,
        };
        self.threads.borrow().iter().filter_map(deadline).min()
    }

    fn resume(&self, thread: usize) {
        let Some(mut body) = self.threads.borrow_mut()[thread].body.take() else { return };
        self.current.set(thread);
        self.threads.borrow_mut()[thread].wait = Wait::Ready;
        match body.resume(()) {
            CoroutineResult::Yield(()) => self.threads.borrow_mut()[thread].body = Some(body),
            CoroutineResult::Return(()) => {
                self.threads.borrow_mut()[thread].wait = Wait::Ended;
                STACKS.with(|stacks| stacks.borrow_mut().push(body.into_stack()));
            }
        }
    }

    fn point(&self) {
        if self.stopped.get() {
            return;
        }
        let this = self.current.get();
        let mut others = Vec::new();
        let choice = self.chosen(|chooser, at| {
            chooser.preempt(at, || {
                others = self.ready(Some(this));
                others.len()
            })
        });
        if let Some(next) = usize::from(choice).checked_sub(1).and_then(|index| others.get(index)) {
            self.next.set(Some(*next));
            self.suspend(Wait::Ready);
        }
    }

    fn wait_until(&self, nanoseconds: Option<u64>, ready: &dyn Fn() -> bool) -> bool {
        if self.stopped.get() {
            self.suspend(Wait::Ready);
            return ready();
        }
        let deadline = nanoseconds.map(|time| self.now.get().saturating_add(time));
        // SAFETY: only the lifetime is erased. The condition outlives the suspension, and is used only during it.
        let ready_for_ever: Condition =
            unsafe { std::mem::transmute::<&dyn Fn() -> bool, &'static dyn Fn() -> bool>(ready) };
        self.suspend(Wait::Until { deadline, ready: ready_for_ever });
        ready()
    }

    fn suspend(&self, wait: Wait) {
        let this = self.current.get();
        let yielder = {
            let mut threads = self.threads.borrow_mut();
            threads[this].wait = wait;
            threads[this].yielder
        };
        // SAFETY: the yielder of the running coroutine, which lives as long as its body.
        unsafe { (*yielder).suspend(()) };
    }

    /// The world is stopped, and its threads end on their own, as in a process without waiters. A thread that does not end is abandoned,
    /// with everything on its stack.
    fn drain(&self) {
        self.stopped.set(true);
        for _ in 0..MAXIMUM_DRAINING {
            let is_alive = |thread: &Thread| thread.body.is_some();
            if !self.threads.borrow().iter().any(|thread| is_alive(thread) && !matches!(thread.wait, Wait::Ended)) {
                return;
            }
            let count = self.threads.borrow().len();
            let alive: Vec<usize> = (0..count).filter(|index| is_alive(&self.threads.borrow()[*index])).collect();
            for thread in alive {
                let resumed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.resume(thread)));
                if resumed.is_err() {
                    self.threads.borrow_mut()[thread].wait = Wait::Ended;
                }
            }
        }
        for thread in self.threads.borrow_mut().iter_mut() {
            if let Some(mut body) = thread.body.take() {
                // SAFETY: nothing on that stack is used any more; it is leaked.
                unsafe { body.force_reset() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(seed: u64, first: impl FnOnce() + 'static) -> Schedule {
        run(Chooser::Random(Random::new(seed)), Timeline::recording(), first)
    }

    fn three_steps_each() {
        for name in ["a", "b"] {
            spawn(name, move || {
                for step in 0..3 {
                    note("step {}", step);
                    point();
                }
            });
        }
    }

    #[test]
    fn one_seed_is_one_schedule_and_seeds_differ() {
        let of = |seed| seeded(seed, three_steps_each).timeline.hash();
        let hashes: std::collections::BTreeSet<u64> = (0..64).map(of).collect();
        assert!(hashes.len() > 5, "{hashes:?}");
        assert!((0..64).all(|seed| of(seed) == of(seed)));
    }

    #[test]
    fn the_choices_of_a_run_repeat_it() {
        for seed in 0..64 {
            let ran = seeded(seed, three_steps_each);
            let again = run(Chooser::Replay(ran.choices.clone()), Timeline::recording(), three_steps_each);
            assert_eq!(ran.timeline.lines(), again.timeline.lines());
        }
    }

    #[test]
    fn every_schedule_of_a_small_world_is_walked_once() {
        let mut walk = Chooser::Exhaustive(Exhaustive::new(9));
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let ran = run(walk, Timeline::recording(), three_steps_each);
            let steps: Vec<(usize, u64)> = ran.timeline.lines().iter().map(|line| (line.task, line.value)).collect();
            seen.insert(steps);
            let Chooser::Exhaustive(mut state) = ran.chooser else { panic!("the chooser comes back") };
            if !state.advance() {
                break;
            }
            walk = Chooser::Exhaustive(state);
        }
        // Two sequences of three steps interleave in 6! / (3! 3!) ways.
        assert_eq!(seen.len(), 20);
    }

    #[test]
    fn ten_minutes_cost_nothing_and_pass_in_order() {
        let ran = seeded(1, || {
            spawn("later", || {
                sleep(600_000_000_000);
                note("later", 0);
            });
            sleep(1);
            note("sooner", 0);
        });
        assert_eq!(ran.time, 600_000_000_000);
        assert_eq!(ran.timeline.lines().iter().map(|line| line.what).collect::<Vec<_>>(), ["sooner", "later"]);
    }

    #[test]
    fn who_waits_for_what_never_comes_is_named() {
        let ran = seeded(1, || {
            spawn("forgotten", || {
                wait_until(None, || false);
            });
        });
        assert_eq!(ran.end, End::Stuck(vec!["forgotten".into()]));
    }

    #[test]
    fn a_panic_is_the_end_of_the_schedule_and_not_of_the_test() {
        let ran = seeded(1, || panic!("said so"));
        assert_eq!(ran.end, End::Panicked("said so".into()));
    }
}
