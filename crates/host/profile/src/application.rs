//! Time by application method: its own, and that of the code outside of the application that it calls.

use crate::code_kind::is_file_name;
use crate::{Attribution, CodeKind, Cost, Entry, Frame, FrameIx, Profile, Sample, State, StringIx, ThreadIx, Wait};
use remora_wire::{is_framework, matches_pattern};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

/// Which managed code belongs to the application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationRule {
    /// Names of assemblies, each with `*` for any text. Without one, every assembly belongs to it that neither comes with .NET nor is named
    /// `System.*` or `Microsoft.*`.
    pub assemblies: Vec<String>,
}

impl ApplicationRule {
    /// Whether the code of `frame` belongs to the application.
    pub fn includes(&self, profile: &Profile, frame: &Frame) -> bool {
        // A dynamic method is of no assembly: its caller, mostly a framework, has made it.
        let Some(module) = frame.module.filter(|_| frame.kind == crate::FrameKind::Managed) else { return false };
        let module = profile.text(module);
        if module == MADE_AT_RUN_TIME {
            // `Microsoft.Xml.Serialization.GeneratedAssembly` is the framework's, though its assembly has no name here.
            let name = profile.text(frame.name);
            if !name.contains('.') || is_framework(name) {
                return false;
            }
        }
        match self.assemblies.is_empty() {
            true => CodeKind::of(profile, frame) == CodeKind::Application,
            false => is_file_name(module) && self.names(module),
        }
    }

    /// Whether a type of this assembly belongs to the application. An assembly without a name is not known: then the type's name decides.
    pub fn includes_type(&self, assembly: &str, name: &str) -> bool {
        match self.assemblies.is_empty() {
            true => !is_framework(if assembly.is_empty() { name } else { assembly }),
            false => self.names(assembly),
        }
    }

    fn names(&self, assembly: &str) -> bool {
        self.assemblies.iter().any(|pattern| matches_pattern(without_ending(pattern), without_ending(assembly)))
    }
}

impl fmt::Display for ApplicationRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.assemblies[..] {
            [] => out.write_str("application: all assemblies but System.* and Microsoft.*"),
            patterns => write!(out, "application: the assemblies {}", patterns.join(", ")),
        }
    }
}

/// The module of code that a program makes while it runs. A dynamic method has no type: `lambda_method1`, unlike `Proxies.Cart.Add`.
const MADE_AT_RUN_TIME: &str = "RefEmit_InMemoryManifestModule";

fn without_ending(module: &str) -> &str {
    module.strip_suffix(".dll").or_else(|| module.strip_suffix(".exe")).unwrap_or(module)
}

/// Time by the code that starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPoint {
    /// What calls it.
    pub entry: Entry,
    /// A frame of the outermost application method, or the mark of missing outer frames.
    pub frame: FrameIx,
    /// Nanoseconds.
    pub weight: u64,
}

/// Time in a line of a method, and in what it calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// A frame with that file and line.
    pub frame: FrameIx,
    /// Nanoseconds.
    pub weight: u64,
}

/// Time in code outside of the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callee {
    /// A frame of the method that the application calls.
    pub frame: FrameIx,
    /// Nanoseconds in it and in what it calls, up to the next application method.
    pub weight: u64,
    /// The cost that most of it goes to, with its nanoseconds.
    pub cost: Option<(Cost, u64)>,
}

/// An application method and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationMethod {
    /// A frame of that method.
    pub frame: FrameIx,
    /// Nanoseconds in the method itself.
    pub self_weight: u64,
    /// Nanoseconds in code outside of the application that it calls.
    pub caused_weight: u64,
    /// The part of both from blocked samples.
    pub blocked_weight: u64,
    /// Samples of both.
    pub samples: u64,
    /// Its lines, the one with most time first. Empty without debug information.
    pub lines: Vec<Line>,
    /// What it calls outside of the application, the most expensive first.
    pub callees: Vec<Callee>,
}

impl ApplicationMethod {
    /// Nanoseconds in the method and in code outside of the application that it calls.
    pub fn weight(&self) -> u64 {
        self.self_weight.saturating_add(self.caused_weight)
    }
}

/// A reason for blocked time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedTime {
    /// A frame of the nearest application method, with its line; `None` if no application method is on the stack, or if it is idle.
    pub frame: Option<FrameIx>,
    /// Without one, and not idle: the frame of the work itself.
    pub via: Option<FrameIx>,
    /// What it waits for.
    pub wait: Wait,
    /// Whether the threads are idle.
    pub is_idle: bool,
    /// Nanoseconds.
    pub weight: u64,
    /// Number of threads.
    pub threads: usize,
    /// Those of the thread pool.
    pub pool_threads: usize,
    /// Their part of the weight.
    pub pool_weight: u64,
}

/// Blocked time of one kind, of threads that are not idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitTime {
    /// What they wait for.
    pub wait: Wait,
    /// Nanoseconds.
    pub weight: u64,
    /// Number of threads. One that waits in several methods counts once.
    pub threads: usize,
    /// Those of the thread pool.
    pub pool_threads: usize,
    /// Their part of the weight.
    pub pool_weight: u64,
}

/// The time of the thread pool's threads, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolTime {
    /// Those that ran work of the pool.
    pub members: BTreeSet<ThreadIx>,
    /// Those that were there in the first tenth of the recording.
    pub threads_at_first: usize,
    /// All their time.
    pub total: u64,
    /// Blocked in the application, or in what it calls. Without waits for a CPU.
    pub blocked: u64,
    /// Blocked outside of it: they wait for work.
    pub idle: u64,
}

/// The time of a profile, by application code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationTime {
    /// All application methods on a stack nearest to its leaf, the one with most time first.
    pub methods: Vec<ApplicationMethod>,
    /// Nanoseconds of samples without any application method, and of idle threads.
    pub elsewhere: u64,
    /// What those without an application method run, without idle threads, most first.
    pub outside: Vec<Callee>,
    /// Nanoseconds of idle threads: blocked without an application method, or until the end of the program. Without waits for a CPU or a
    /// lock.
    pub idle: u64,
    /// Threads with such samples.
    pub idle_threads: usize,
    /// The outermost application methods, the one with most time first.
    pub entry_points: Vec<EntryPoint>,
    /// Why threads were blocked, the longest first.
    pub blocked: Vec<BlockedTime>,
    /// The same without idle threads, only by what they wait for.
    pub waits: Vec<WaitTime>,
    /// The threads of the pool.
    pub pool: PoolTime,
    /// Nanoseconds of samples on a CPU.
    pub running: u64,
    /// Those of a cost, by the nearest application method with its line, most first.
    pub costs: Vec<CostShare>,
    /// The part of `running` in the second half of the recording.
    pub running_late: u64,
}

/// CPU time of a cost, by the code that causes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostShare {
    /// The cost.
    pub cost: Cost,
    /// A frame of the nearest application method, with its line.
    pub frame: Option<FrameIx>,
    /// The frame that this one calls.
    pub callee: Option<FrameIx>,
    /// Nanoseconds.
    pub weight: u64,
    /// Those in the second half of the recording.
    pub late: u64,
}

impl ApplicationTime {
    /// All time but that of idle threads, nanoseconds.
    pub fn busy(&self) -> u64 {
        let elsewhere = self.elsewhere.saturating_sub(self.idle);
        self.methods.iter().fold(elsewhere, |sum, method| sum.saturating_add(method.weight()))
    }

    /// The time of `profile`, or only of one `thread`.
    pub fn of(profile: &Profile, rule: &ApplicationRule, thread: Option<ThreadIx>) -> ApplicationTime {
        let attributions = Attribution::of_stacks(profile, rule);
        let mut sums = Sums::default();
        for sample in profile.samples().iter().filter(|sample| thread.is_none_or(|only| only == sample.thread)) {
            sums.add(profile, &attributions[sample.stack.0 as usize], sample);
        }
        sums.finish(profile)
    }
}

/// The identity of a method: name and module, not the line.
type Key = (StringIx, Option<StringIx>);

fn key(profile: &Profile, frame: FrameIx) -> Key {
    let frame = profile.frame_at(frame);
    (frame.name, frame.module)
}

#[derive(Default)]
struct Sums {
    methods: HashMap<Key, MethodSum>,
    elsewhere: u64,
    idle: u64,
    idle_threads: HashSet<ThreadIx>,
    entry_points: HashMap<(Entry, Key), (FrameIx, u64)>,
    /// The weight of each thread.
    blocked: HashMap<BlockedKey, BlockedSum>,
    threads: HashMap<ThreadIx, ThreadSum>,
    running: u64,
    running_late: u64,
    costs: HashMap<(Cost, Option<FrameIx>, Option<Key>), CostShare>,
    outside: HashMap<Key, CalleeSum>,
}

/// The method and its line, what it waits for, and without a method the work.
type BlockedKey = (Option<FrameIx>, Wait, bool, Option<Key>);

#[derive(Default)]
struct BlockedSum {
    via: Option<FrameIx>,
    threads: HashMap<ThreadIx, u64>,
}

/// What counts for [`PoolTime`], if the thread is of the pool.
#[derive(Default)]
struct ThreadSum {
    is_of_pool: bool,
    first: Option<u64>,
    total: u64,
    blocked: u64,
    idle: u64,
}

struct MethodSum {
    method: ApplicationMethod,
    lines: HashMap<FrameIx, u64>,
    callees: HashMap<Key, CalleeSum>,
}

struct CalleeSum {
    frame: FrameIx,
    weight: u64,
    costs: HashMap<Cost, u64>,
}

impl Sums {
    fn add(&mut self, profile: &Profile, attribution: &Attribution, sample: &Sample) {
        // A thread that waits does not spin, whatever its callers do with the CPU.
        let cost = attribution.cost.filter(|cost| *cost != Cost::Spinning || sample.state == State::Running);
        let mut attribution = *attribution;
        attribution.cost = cost;
        let attribution = &attribution;
        let is_idle = sample.state == State::Blocked && attribution.is_idle();
        match attribution.nearest.filter(|_| !is_idle) {
            Some(frame) => self.add_method(profile, frame, attribution, sample),
            None => {
                self.elsewhere = self.elsewhere.saturating_add(sample.weight);
                if let Some(via) = attribution.via.filter(|_| !is_idle) {
                    CalleeSum::add(&mut self.outside, profile, via, attribution.cost, sample.weight);
                }
            }
        }
        if let Some(outermost) = attribution.outermost.filter(|_| !is_idle) {
            let sum = self.entry_points.entry((attribution.entry, key(profile, outermost))).or_insert((outermost, 0));
            sum.1 = sum.1.saturating_add(sample.weight);
        }
        let thread = self.threads.entry(sample.thread).or_default();
        thread.is_of_pool |= attribution.is_of_pool;
        thread.first = Some(thread.first.map_or(sample.time, |first| first.min(sample.time)));
        thread.total = thread.total.saturating_add(sample.weight);
        if sample.state == State::Running {
            self.add_running(profile, attribution, sample);
        } else if is_idle {
            thread.idle = thread.idle.saturating_add(sample.weight);
        } else if attribution.wait() != Wait::Cpu {
            thread.blocked = thread.blocked.saturating_add(sample.weight);
        }
        if sample.state == State::Blocked {
            let frame = attribution.nearest.filter(|_| !is_idle);
            let via = attribution.via.filter(|_| !is_idle);
            let row = (frame, attribution.wait(), is_idle, via.map(|via| key(profile, via)));
            let sum = self.blocked.entry(row).or_insert_with(|| BlockedSum { via, ..BlockedSum::default() });
            let weight = sum.threads.entry(sample.thread).or_default();
            *weight = weight.saturating_add(sample.weight);
            if is_idle {
                self.idle = self.idle.saturating_add(sample.weight);
                self.idle_threads.insert(sample.thread);
            }
        }
    }

    fn add_running(&mut self, profile: &Profile, attribution: &Attribution, sample: &Sample) {
        let Attribution { nearest: frame, callee, .. } = *attribution;
        let late = if sample.time.saturating_mul(2) > profile.meta.duration { sample.weight } else { 0 };
        self.running = self.running.saturating_add(sample.weight);
        self.running_late = self.running_late.saturating_add(late);
        // Other threads of the runtime spin, too: only of the pool it is known why.
        let is_known = |cost: &Cost| *cost != Cost::Spinning || frame.is_some() || attribution.is_of_pool;
        if let Some(cost) = attribution.cost.filter(is_known) {
            let row = (cost, frame, callee.map(|callee| key(profile, callee)));
            let sum = self.costs.entry(row).or_insert(CostShare { cost, frame, callee, weight: 0, late: 0 });
            sum.weight = sum.weight.saturating_add(sample.weight);
            sum.late = sum.late.saturating_add(late);
        }
    }

    fn add_method(&mut self, profile: &Profile, frame: FrameIx, attribution: &Attribution, sample: &Sample) {
        let callee = attribution.callee;
        let sum = self.methods.entry(key(profile, frame)).or_insert_with(|| MethodSum::new(frame));
        let method = &mut sum.method;
        let weight = if callee.is_some() { &mut method.caused_weight } else { &mut method.self_weight };
        *weight = weight.saturating_add(sample.weight);
        if sample.state == State::Blocked {
            method.blocked_weight = method.blocked_weight.saturating_add(sample.weight);
        }
        method.samples += 1;
        let line = sum.lines.entry(frame).or_default();
        *line = line.saturating_add(sample.weight);
        if let Some(callee) = callee {
            CalleeSum::add(&mut sum.callees, profile, callee, attribution.cost, sample.weight);
        }
    }

    fn finish(self, profile: &Profile) -> ApplicationTime {
        let mut methods: Vec<ApplicationMethod> =
            self.methods.into_values().map(|method| method.finish(profile)).collect();
        methods.sort_by_key(|method| by_weight(profile, method.weight(), method.frame));
        let mut entry_points: Vec<EntryPoint> = self
            .entry_points
            .into_iter()
            .map(|((entry, _), (frame, weight))| EntryPoint { entry, frame, weight })
            .collect();
        entry_points.sort_by_key(|point| (by_weight(profile, point.weight, point.frame), point.entry));
        let is_of_pool = |thread: &ThreadIx| self.threads.get(thread).is_some_and(|sum| sum.is_of_pool);
        let mut of_waits: BTreeMap<Wait, HashMap<ThreadIx, u64>> = BTreeMap::new();
        for ((_, wait, ..), sum) in self.blocked.iter().filter(|((_, _, is_idle, _), _)| !is_idle) {
            for (thread, weight) in &sum.threads {
                let of_wait = of_waits.entry(*wait).or_default().entry(*thread).or_default();
                *of_wait = of_wait.saturating_add(*weight);
            }
        }
        let waits = of_waits.into_iter().map(|(wait, threads)| {
            let (weight, pool_threads, pool_weight) = with_pool(&threads, is_of_pool);
            WaitTime { wait, weight, threads: threads.len(), pool_threads, pool_weight }
        });
        let waits = waits.collect();
        let mut blocked: Vec<BlockedTime> = self
            .blocked
            .into_iter()
            .map(|((frame, wait, is_idle, _), BlockedSum { via, threads })| {
                let (weight, pool_threads, pool_weight) = with_pool(&threads, is_of_pool);
                BlockedTime { frame, via, wait, is_idle, weight, threads: threads.len(), pool_threads, pool_weight }
            })
            .collect();
        blocked.sort_by_key(|row| (std::cmp::Reverse(row.weight), row.frame, row.wait, row.via));
        let (elsewhere, idle, idle_threads) = (self.elsewhere, self.idle, self.idle_threads.len());
        let pool = PoolTime::of(&self.threads, profile.meta.duration / 10);
        let mut costs: Vec<CostShare> = self.costs.into_values().collect();
        costs.sort_by_key(|share| (std::cmp::Reverse(share.weight), share.frame, share.cost, share.callee));
        let outside = CalleeSum::finish(self.outside, profile);
        let (running, running_late) = (self.running, self.running_late);
        ApplicationTime {
            methods,
            elsewhere,
            outside,
            idle,
            idle_threads,
            entry_points,
            blocked,
            waits,
            pool,
            running,
            costs,
            running_late,
        }
    }
}

/// The weight of these threads, how many are of the pool, and the weight of those.
fn with_pool(threads: &HashMap<ThreadIx, u64>, is_of_pool: impl Fn(&ThreadIx) -> bool) -> (u64, usize, u64) {
    let sum = |of: &[u64]| of.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight));
    let of_pool: Vec<u64> =
        threads.iter().filter(|(thread, _)| is_of_pool(thread)).map(|(_, weight)| *weight).collect();
    let all: Vec<u64> = threads.values().copied().collect();
    (sum(&all), of_pool.len(), sum(&of_pool))
}

impl PoolTime {
    fn of(threads: &HashMap<ThreadIx, ThreadSum>, at_first: u64) -> PoolTime {
        let mut pool = PoolTime::default();
        for (index, thread) in threads.iter().filter(|(_, thread)| thread.is_of_pool) {
            pool.members.insert(*index);
            pool.threads_at_first += usize::from(thread.first <= Some(at_first));
            pool.total = pool.total.saturating_add(thread.total);
            pool.blocked = pool.blocked.saturating_add(thread.blocked);
            pool.idle = pool.idle.saturating_add(thread.idle);
        }
        pool
    }
}

/// Most time first, then by name.
fn by_weight(profile: &Profile, weight: u64, frame: FrameIx) -> (std::cmp::Reverse<u64>, &[u8], FrameIx) {
    (std::cmp::Reverse(weight), profile.order(frame), frame)
}

impl MethodSum {
    fn new(frame: FrameIx) -> MethodSum {
        let method = ApplicationMethod {
            frame,
            self_weight: 0,
            caused_weight: 0,
            blocked_weight: 0,
            samples: 0,
            lines: Vec::new(),
            callees: Vec::new(),
        };
        MethodSum { method, lines: HashMap::new(), callees: HashMap::new() }
    }

    fn finish(mut self, profile: &Profile) -> ApplicationMethod {
        let lines = self.lines.into_iter().filter(|(frame, _)| profile.frame_at(*frame).line.is_some());
        self.method.lines = lines.map(|(frame, weight)| Line { frame, weight }).collect();
        self.method.lines.sort_by_key(|line| (std::cmp::Reverse(line.weight), line.frame));
        self.method.callees = CalleeSum::finish(self.callees, profile);
        self.method
    }
}

impl CalleeSum {
    fn add(sums: &mut HashMap<Key, CalleeSum>, profile: &Profile, frame: FrameIx, cost: Option<Cost>, weight: u64) {
        let new = || CalleeSum { frame, weight: 0, costs: HashMap::new() };
        let sum = sums.entry(key(profile, frame)).or_insert_with(new);
        sum.weight = sum.weight.saturating_add(weight);
        if let Some(cost) = cost {
            let of_cost = sum.costs.entry(cost).or_default();
            *of_cost = of_cost.saturating_add(weight);
        }
    }

    /// Most time first. A cost is named if it has at least half of it.
    fn finish(sums: HashMap<Key, CalleeSum>, profile: &Profile) -> Vec<Callee> {
        let callee = |sum: CalleeSum| {
            let most = sum.costs.into_iter().max_by_key(|(cost, weight)| (*weight, std::cmp::Reverse(*cost)));
            let cost = most.filter(|(_, weight)| weight.saturating_mul(2) >= sum.weight);
            Callee { frame: sum.frame, weight: sum.weight, cost }
        };
        let mut callees: Vec<Callee> = sums.into_values().map(callee).collect();
        callees.sort_by_key(|callee| by_weight(profile, callee.weight, callee.frame));
        callees
    }
}
