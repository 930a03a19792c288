//! Time by application method: its own, and that of the code outside of the application that it calls.

use crate::code_kind::{is_file_name, is_framework};
use crate::{CodeKind, Cost, Frame, FrameIx, Profile, Sample, State, StringIx, ThreadIx, Wait};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use strum::IntoStaticStr;

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
        self.assemblies.iter().any(|pattern| matches(without_ending(pattern), without_ending(assembly)))
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

fn without_ending(module: &str) -> &str {
    module.strip_suffix(".dll").or_else(|| module.strip_suffix(".exe")).unwrap_or(module)
}

/// Whether `text` is `pattern`, in which `*` stands for any text. Case does not matter.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// What starts the work of a thread: what calls the outermost application method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Entry {
    /// A thread of its own, among them the main thread.
    #[default]
    Thread,
    /// A thread of the pool: a task, or the continuation of an async method.
    Pool,
    /// A timer.
    Timer,
    /// A hosted service, at its start.
    HostedService,
    /// A request of ASP.NET Core.
    Request,
}

impl Entry {
    /// Its name in reports: `request`, `hosted-service`.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// Time by the code that starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPoint {
    /// What calls it.
    pub entry: Entry,
    /// A frame of the outermost application method.
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
    /// A frame of the nearest application method, with its line; `None` if no application method is on the stack.
    pub frame: Option<FrameIx>,
    /// What it waits for.
    pub wait: Wait,
    /// Nanoseconds.
    pub weight: u64,
    /// Number of threads.
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
    /// Nanoseconds of samples without any application method, idle threads among them.
    pub elsewhere: u64,
    /// Nanoseconds of blocked samples without any application method: idle threads. Without waits for a CPU.
    pub idle: u64,
    /// Threads with such samples.
    pub idle_threads: usize,
    /// The outermost application methods, the one with most time first.
    pub entry_points: Vec<EntryPoint>,
    /// Why threads were blocked, the longest first.
    pub blocked: Vec<BlockedTime>,
    /// The threads of the pool.
    pub pool: PoolTime,
    /// Nanoseconds of samples on a CPU.
    pub running: u64,
    /// Those of a cost, by the nearest application method with its line, most first.
    pub costs: Vec<(Cost, Option<FrameIx>, u64)>,
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
            sums.add(profile, attributions[sample.stack.0 as usize], sample);
        }
        sums.finish(profile)
    }
}

/// The application's part in a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Attribution {
    /// A frame of the application method nearest to the leaf.
    pub nearest: Option<FrameIx>,
    /// The frame that it calls, outside of the application.
    pub callee: Option<FrameIx>,
    /// A frame of the outermost application method.
    pub outermost: Option<FrameIx>,
    /// What calls that one.
    pub entry: Entry,
    /// What the frames between `nearest` and the leaf wait for.
    known_wait: Option<Wait>,
    /// The first cost that one of them shows.
    cost: Option<Cost>,
    /// Whether a thread of the pool runs it.
    pub is_of_pool: bool,
    /// Whether the host that starts services is among the callers, up to the next application method.
    starts_service: bool,
}

impl Attribution {
    /// The attributions of all stacks of `profile`, in index order.
    pub fn of_stacks(profile: &Profile, rule: &ApplicationRule) -> Vec<Attribution> {
        let is_application: Vec<bool> = profile.frames().iter().map(|frame| rule.includes(profile, frame)).collect();
        let waits: Vec<Option<Wait>> = profile.frames().iter().map(|frame| Wait::of(profile, frame)).collect();
        let is_of_pool = |frame: &Frame| POOL.iter().any(|start| profile.text(frame.name).starts_with(start));
        let costs: Vec<Option<Cost>> = profile.frames().iter().map(|frame| Cost::of(profile, frame)).collect();
        let pool: Vec<bool> = profile.frames().iter().map(is_of_pool).collect();
        let entries: Vec<Entry> = profile.frames().iter().map(|frame| entry(profile, frame)).collect();
        let name = |frame: &Frame| profile.text(frame.name);
        let resumes: Vec<bool> = profile.frames().iter().map(|frame| name(frame).contains(STATE_MACHINE)).collect();
        let services = profile.frames().iter().map(|frame| SERVICES.iter().any(|start| name(frame).starts_with(start)));
        let services: Vec<bool> = services.collect();
        let mut known: Vec<Attribution> = Vec::with_capacity(profile.stacks().len());
        for stack in profile.stacks() {
            let frame = stack.frame.0 as usize;
            let parent = stack.parent.and_then(|parent| known.get(parent.0 as usize)).copied().unwrap_or_default();
            let is_of_pool = parent.is_of_pool || pool[frame];
            known.push(if is_application[frame] {
                // `Main` calls the host, which starts the services: what they do is not `Main`'s.
                let is_service = parent.starts_service;
                Attribution {
                    nearest: Some(stack.frame),
                    outermost: parent.outermost.filter(|_| !is_service).or(Some(stack.frame)),
                    entry: if is_service { Entry::HostedService } else { parent.entry },
                    is_of_pool,
                    ..Attribution::default()
                }
            } else {
                Attribution {
                    callee: parent.callee.or_else(|| parent.nearest.map(|_| stack.frame)),
                    entry: match parent.outermost {
                        // A timer that completes a task: the continuation can be of anything.
                        None if resumes[frame] && parent.entry == Entry::Timer => Entry::Pool,
                        None => parent.entry.max(entries[frame]),
                        Some(_) => parent.entry,
                    },
                    starts_service: parent.starts_service || services[frame],
                    known_wait: match waits[frame] {
                        // The mark of a thread that is ready to run comes last, and says more than its callers. But a thread that gives
                        // up its CPU in a loop waits for what the loop waits for.
                        Some(Wait::Cpu) if parent.cost != Some(Cost::Spinning) => Some(Wait::Cpu),
                        wait => parent.known_wait.or(wait),
                    },
                    cost: parent.cost.or(costs[frame]),
                    is_of_pool,
                    ..parent
                }
            });
        }
        known
    }

    /// Whether a blocked thread with that stack is idle. One that is ready to run is not.
    pub fn is_idle(&self) -> bool {
        self.nearest.is_none() && self.known_wait != Some(Wait::Cpu)
    }

    /// What a blocked thread with that stack waits for.
    pub fn wait(&self) -> Wait {
        self.known_wait.unwrap_or(if self.nearest.is_some() { Wait::Runtime } else { Wait::IdleRuntime })
    }
}

/// What a frame outside of the outermost application method says about its start.
fn entry(profile: &Profile, frame: &Frame) -> Entry {
    const STARTS: [(&str, Entry); 5] = [
        ("Microsoft.AspNetCore.", Entry::Request),
        ("Microsoft.Extensions.Hosting.", Entry::HostedService),
        ("System.Threading.TimerQueue", Entry::Timer),
        ("System.Threading.ThreadPoolWorkQueue.", Entry::Pool),
        ("System.Threading.PortableThreadPool.", Entry::Pool),
    ];
    let name = profile.text(frame.name);
    STARTS.iter().find(|(start, _)| name.starts_with(start)).map_or(Entry::Thread, |(_, entry)| *entry)
}

/// Beginnings of the names of methods that start hosted services.
const SERVICES: [&str; 2] =
    ["Microsoft.Extensions.Hosting.BackgroundService.", "Microsoft.Extensions.Hosting.Internal.Host."];

/// In the names of methods that continue an async method after an `await`.
const STATE_MACHINE: &str = "StateMachineBox";

/// Beginnings of the names of methods that run on threads of the pool only.
const POOL: [&str; 2] = ["System.Threading.ThreadPoolWorkQueue.", "System.Threading.PortableThreadPool.WorkerThread."];

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
    blocked: HashMap<(Option<FrameIx>, Wait), HashMap<ThreadIx, u64>>,
    threads: HashMap<ThreadIx, ThreadSum>,
    running: u64,
    costs: HashMap<(Cost, Option<FrameIx>), u64>,
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
    callees: HashMap<Key, (FrameIx, u64)>,
}

impl Sums {
    fn add(&mut self, profile: &Profile, attribution: Attribution, sample: &Sample) {
        let nearest = attribution.nearest;
        match nearest {
            Some(frame) => self.add_method(profile, frame, attribution.callee, sample),
            None => self.elsewhere = self.elsewhere.saturating_add(sample.weight),
        }
        if let Some(outermost) = attribution.outermost {
            let sum = self.entry_points.entry((attribution.entry, key(profile, outermost))).or_insert((outermost, 0));
            sum.1 = sum.1.saturating_add(sample.weight);
        }
        let thread = self.threads.entry(sample.thread).or_default();
        thread.is_of_pool |= attribution.is_of_pool;
        thread.first = Some(thread.first.map_or(sample.time, |first| first.min(sample.time)));
        thread.total = thread.total.saturating_add(sample.weight);
        if sample.state == State::Running {
            self.running = self.running.saturating_add(sample.weight);
            // Other threads of the runtime spin, too: only of the pool it is known why.
            let is_known = |cost: &Cost| *cost != Cost::Spinning || nearest.is_some() || attribution.is_of_pool;
            if let Some(cost) = attribution.cost.filter(is_known) {
                let weight = self.costs.entry((cost, nearest)).or_default();
                *weight = weight.saturating_add(sample.weight);
            }
        } else if attribution.is_idle() {
            thread.idle = thread.idle.saturating_add(sample.weight);
        } else if attribution.known_wait != Some(Wait::Cpu) {
            thread.blocked = thread.blocked.saturating_add(sample.weight);
        }
        if sample.state == State::Blocked {
            let threads = self.blocked.entry((nearest, attribution.wait())).or_default();
            let weight = threads.entry(sample.thread).or_default();
            *weight = weight.saturating_add(sample.weight);
            if attribution.is_idle() {
                self.idle = self.idle.saturating_add(sample.weight);
                self.idle_threads.insert(sample.thread);
            }
        }
    }

    fn add_method(&mut self, profile: &Profile, frame: FrameIx, callee: Option<FrameIx>, sample: &Sample) {
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
            let (_, weight) = sum.callees.entry(key(profile, callee)).or_insert((callee, 0));
            *weight = weight.saturating_add(sample.weight);
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
        let mut blocked: Vec<BlockedTime> = self
            .blocked
            .into_iter()
            .map(|((frame, wait), threads)| {
                let sum = |weights: &mut dyn Iterator<Item = &u64>| {
                    weights.fold(0, |sum: u64, weight| sum.saturating_add(*weight))
                };
                let of_pool = || threads.iter().filter(|(thread, _)| is_of_pool(thread)).map(|(_, weight)| weight);
                BlockedTime {
                    frame,
                    wait,
                    weight: sum(&mut threads.values()),
                    threads: threads.len(),
                    pool_threads: of_pool().count(),
                    pool_weight: sum(&mut of_pool()),
                }
            })
            .collect();
        blocked.sort_by_key(|row| (std::cmp::Reverse(row.weight), row.frame, row.wait));
        let (elsewhere, idle, idle_threads) = (self.elsewhere, self.idle, self.idle_threads.len());
        let pool = PoolTime::of(&self.threads, profile.meta.duration / 10);
        let mut costs: Vec<_> = self.costs.into_iter().map(|((cost, frame), weight)| (cost, frame, weight)).collect();
        costs.sort_by_key(|(cost, frame, weight)| (std::cmp::Reverse(*weight), *frame, *cost));
        let running = self.running;
        ApplicationTime { methods, elsewhere, idle, idle_threads, entry_points, blocked, pool, running, costs }
    }
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
        self.method.callees = self.callees.into_values().map(|(frame, weight)| Callee { frame, weight }).collect();
        self.method.callees.sort_by_key(|callee| by_weight(profile, callee.weight, callee.frame));
        self.method
    }
}
