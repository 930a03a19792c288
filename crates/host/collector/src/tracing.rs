//! A trace of calls: orders for the tracer, and its table read at the end.

use crate::attach::{Prepared, monotonic, start_of_hooks, welcome};
use crate::control::Control;
use crate::shared_memory::SharedMemory;
use crate::target::Target;
use crate::{Error, Startup};
use remora_attach::Process;
use remora_call_table::layout;
use remora_calls::{Calls, Instant};
use remora_wire::Task;
use std::ffi::OsString;
use std::time::Duration;

/// What to trace.
#[derive(Debug, Clone, Default)]
pub struct TracingOrder {
    /// Patterns of the methods; empty for the application's.
    pub methods: Vec<String>,
    /// Patterns of those to leave out.
    pub excluded: Vec<String>,
    /// The shortest call that is listed by itself.
    pub long: Duration,
    /// So many of the listed calls have their arguments and results.
    pub arguments: Option<u32>,
    /// Whether to count allocated objects, too.
    pub allocations: bool,
}

impl TracingOrder {
    /// Whether a pattern names methods of the framework.
    fn names_framework(&self) -> bool {
        self.methods.iter().any(|pattern| {
            let lower = pattern.to_ascii_lowercase();
            ["system.", "microsoft."].iter().any(|start| lower.starts_with(start))
        })
    }
}

/// Switch tiers of compilation off with `0`. Every runtime reads the second one, only .NET 6 and later the first (inc/clrconfignames.h).
const TIERS: [&str; 2] = ["DOTNET_TieredCompilation", "COMPlus_TieredCompilation"];

/// A trace in progress.
pub struct Tracing {
    memory: SharedMemory,
    target: Target,
}

impl Startup {
    /// Places library and socket for a command whose calls are traced.
    ///
    /// # Errors
    /// [`Error::MainSlotTaken`], or no place for the files.
    pub fn prepare_tracing(
        ourselves: &Process,
        library: &[u8],
        order: &TracingOrder,
        known: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Startup, Error> {
        // Code that is not optimised allocates what optimised code does not: boxes, and stubs of reflection. With hooks there is no
        // precompiled code, and tiers would begin with such code.
        let chosen = TIERS.iter().any(|name| known(name).is_some());
        let tiers = [(TIERS[1], "0")];
        let more = if order.allocations && !chosen { &tiers[..] } else { &[] };
        let startup =
            Startup::prepare(ourselves, library, Task::Tracing { arguments: order.arguments.is_some() }, more, known)?;
        let table = startup.memory().calls().ok_or(Error::SharedMemory(std::io::ErrorKind::OutOfMemory.into()))?;
        let has_counter = trusts_time_stamp_counter();
        let ticks = if has_counter { ticks_a_nanosecond() } else { 1.0 };
        table.set_header(layout::TIME_STAMP_COUNTER, u64::from(has_counter));
        table.set_header(layout::LONG_TICKS, (order.long.as_nanos() as f64 * ticks).max(1.0) as u64);
        table.set_header(layout::WITH_FRAMEWORK, u64::from(order.names_framework()));
        table.set_header(layout::ALLOCATIONS, u64::from(order.allocations));
        table.set_header(layout::VALUES_LEFT, u64::from(order.arguments.unwrap_or(0)));
        // The first record is the calibration's.
        table.add_method(0, 0, "");
        table.add_module("");
        for (word, patterns) in [(layout::WANTED, &order.methods), (layout::EXCLUDED, &order.excluded)] {
            let text = table.add_text(&patterns.join("\n")).unwrap_or_default();
            table.set_header(word, text.packed());
        }
        Ok(startup)
    }
}

impl Tracing {
    pub(crate) fn begin(prepared: Prepared, process: &Process, agent: &mut Control) -> Result<Tracing, Error> {
        let target = Target::of(process.pid);
        welcome(agent, &prepared.memory, None)?;
        start_of_hooks(agent, &target)?;
        let Prepared { memory, .. } = prepared;
        Ok(Tracing { memory, target })
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.target.has_ended()
    }

    /// Whether so many calls have been counted that the tree is full.
    pub fn stop(&self) {
        if let Some(table) = self.memory.calls() {
            table.set_header(layout::STOPPED, 1);
        }
    }

    /// Reads what has been counted until now.
    pub fn read(&self) -> Calls {
        let now = instant();
        self.memory.calls().map(|table| Calls::read(&table, now)).unwrap_or_default()
    }
}

/// Whether the kernel itself takes the time from the processor's counter: then it is the same on all CPUs, and never stops.
fn trusts_time_stamp_counter() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(SOURCE).unwrap_or_default();
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| flags.lines().find(|line| line.starts_with("flags")).is_some_and(|line| line.contains(flag));
    ["tsc", "kvm-clock"].contains(&source.trim()) && has("constant_tsc") && has("nonstop_tsc")
}

fn ticks_a_nanosecond() -> f64 {
    let (first, begun) = (ticks(), monotonic());
    std::thread::sleep(Duration::from_millis(2));
    (ticks() - first) as f64 / (monotonic() - begun).max(1) as f64
}

/// Both clocks at one time. Something else can run between two readings, and the share of that would be in every time of the trace: the
/// closest readings of several count.
fn instant() -> Instant {
    const READINGS: usize = 16;
    let reading = |_| {
        let before = monotonic();
        let ticks = ticks();
        (monotonic() - before, Instant { ticks, monotonic: before })
    };
    let closest = (0..READINGS).map(reading).min_by_key(|(apart, _)| *apart);
    closest.map_or(Instant { ticks: 0, monotonic: 0 }, |(_, instant)| instant)
}

fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and needs no rights for it.
    unsafe { core::arch::x86_64::_rdtsc() }
}
