//! Profiles to write in tests: a small one that has one of everything, a lifelike one, and one of a given size. All the same at each run.
#![allow(dead_code, reason = "each test file uses some of these")]

use remora_profile::{
    Event, Frame, FrameIx, FrameKind, LossCause, Meta, Profile, Sample, StackIx, State, Thread, ThreadIx, Unit,
};

/// Ends a script, opens one, and has everything that some format gives a meaning.
pub const HOSTILE: &str = "</script><script>alert(1)</script>;&\"'\u{2028}\n`${x}` {{title}}";

/// One of everything: two threads and a third without samples, both states, each kind of frame, lines, recursion, hostile names, loss, notes.
pub fn small() -> Profile {
    let mut profile = Profile::new(Meta {
        event: Event::Wall,
        unit: Unit::Nanoseconds,
        engine: "agent (signals)".into(),
        frequency: 100,
        started_unix_nanoseconds: 1_700_000_000_123_456_789,
        duration: 2_000_000_000,
        process_id: 4321,
        application: "Shop".into(),
        command_line: "dotnet Shop.dll --verbose".into(),
        runtime: ".NET 8.0.4".into(),
        target_cpu: Some(900_000_000),
        exceptions: None,
        notes: vec!["the recording ended early: the target exited".into(), HOSTILE.into()],
    });
    let main = frame(
        &mut profile,
        FrameKind::Managed,
        "Shop.Program.Main(string[])",
        Some("Shop.dll"),
        Some(("src/Program.cs", 10)),
    );
    let price = |profile: &mut Profile, line| {
        frame(profile, FrameKind::Managed, "Shop.Orders.Price<T>(int)", Some("Shop.dll"), Some(("src/Orders.cs", line)))
    };
    let (price_42, price_47) = (price(&mut profile, 42), price(&mut profile, 47));
    let concat = frame(
        &mut profile,
        FrameKind::Managed,
        "string.Concat(string, string)",
        Some("System.Private.CoreLib.dll"),
        None,
    );
    let jit = frame(&mut profile, FrameKind::Native, "libclrjit.so+0x1234", Some("libclrjit.so"), None);
    let futex = frame(&mut profile, FrameKind::Native, "pthread_cond_wait", Some("libc.so.6"), None);
    let unknown = frame(&mut profile, FrameKind::Unknown, "[unknown]", None, None);
    let truncated = frame(&mut profile, FrameKind::Synthetic, "[truncated]", None, None);
    let hostile = frame(&mut profile, FrameKind::Managed, HOSTILE, Some("</script>.dll"), Some(("a;b.cs", 1)));
    let first = profile.add_thread(Thread { id: 4321, name: "Main".into() });
    let second = profile.add_thread(Thread { id: 4330, name: HOSTILE.into() });
    profile.add_thread(Thread { id: 4331, name: String::new() });
    let mut add = |thread, time, frames: &[FrameIx], weight, state| {
        let stack = profile.stack_from_root(frames.iter().copied()).expect("a stack has frames");
        profile.add_sample(Sample { time, thread, stack, weight, state });
    };
    let running = State::Running;
    add(first, 10_000_000, &[main, price_42, concat], 30_000_400, running);
    add(first, 20_000_000, &[main, price_42, concat], 30_000_400, running);
    add(first, 30_000_000, &[main, price_47, price_42], 20_000_300, running);
    add(second, 12_000_000, &[truncated, futex], 100_000_000, State::Blocked);
    add(first, 40_000_000, &[main, jit], 10_000_001, running);
    add(second, 22_000_000, &[truncated, futex], 100_000_000, State::Blocked);
    add(second, 32_000_000, &[hostile, unknown], 5_000_000, running);
    add(second, 42_000_000, &[hostile, price_42], 300, running);
    add(first, 50_000_000, &[main, price_47], 7_500_000, State::Blocked);
    // A stack that no sample has: outputs need not hold it.
    let unused = frame(&mut profile, FrameKind::Managed, "Shop.Unused()", Some("Unused.dll"), None);
    profile.stack(None, unused);
    profile.loss.taken = 14;
    profile.loss.delivered = 9;
    profile.loss.lose(LossCause::RingFull, 4);
    profile.loss.lose(LossCause::ThreadSilent, 1);
    profile.loss.truncated_stacks = 2;
    profile.loss.broken_stacks = 1;
    profile.loss.repaired_stacks = 3;
    profile.loss.incomplete_stacks = 4;
    profile.loss.repeated_stacks = 1;
    profile.loss.stray_signals = 7;
    profile
}

/// A profile of `samples` samples over some `nodes` stack nodes and `threads` threads, shaped like a web application's.
pub fn synthetic(samples: usize, nodes: usize, threads: u32) -> Profile {
    let mut profile = Profile::new(Meta {
        event: Event::Cpu,
        unit: Unit::Nanoseconds,
        engine: "agent (timers)".into(),
        frequency: 999,
        started_unix_nanoseconds: 1_780_000_000_000_000_000,
        duration: samples as u64 * 1_001_001 / 4,
        process_id: 31_337,
        application: "Contoso.Shop.Web".into(),
        command_line: "/usr/share/dotnet/dotnet /srv/shop/Contoso.Shop.Web.dll --urls http://0.0.0.0:8080".into(),
        runtime: ".NET 8.0.4".into(),
        target_cpu: Some(samples as u64 * 1_001_001 * 101 / 100),
        exceptions: None,
        notes: vec![],
    });
    let mut dice = Dice(0x5eed);
    let stacks = grow(&mut profile, nodes, &mut dice);
    for index in 0..threads {
        let name = if index % 5 == 4 { "Kestrel Timer" } else { ".NET TP Worker" };
        profile.add_thread(Thread { id: 31_340 + index, name: name.into() });
    }
    for index in 0..samples {
        let thread = dice.below(threads as usize).min(dice.below(threads as usize)) as u32;
        let share = dice.below(1 << 20) as f64 / f64::from(1 << 20);
        let leaf = stacks[(share.powi(6) * stacks.len() as f64) as usize];
        profile.add_sample(Sample {
            time: index as u64 * 250_250,
            thread: ThreadIx(thread),
            stack: leaf,
            weight: 1_001_001 * (1 + u64::from(dice.below(20) == 0)),
            state: State::Running,
        });
    }
    profile.loss.taken = samples as u64 + 317;
    profile.loss.delivered = samples as u64;
    profile.loss.lose(LossCause::RingFull, 292);
    profile.loss.lose(LossCause::ThreadSilent, 25);
    profile.loss.repaired_stacks = samples as u64 / 30;
    profile.loss.broken_stacks = samples as u64 / 900;
    profile
}

fn frame(
    profile: &mut Profile,
    kind: FrameKind,
    name: &str,
    module: Option<&str>,
    source: Option<(&str, u32)>,
) -> FrameIx {
    let frame = Frame {
        kind,
        name: profile.string(name),
        module: module.map(|module| profile.string(module)),
        file: source.map(|(file, _)| profile.string(file)),
        line: source.map(|(_, line)| line),
    };
    profile.frame(frame)
}

/// A small generator of repeatable numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
}

const TYPES: [&str; 16] = [
    "Catalog.ProductService",
    "Catalog.SearchIndex",
    "Orders.PriceCalculator",
    "Orders.DiscountRules",
    "Orders.OrderRepository",
    "Checkout.CartController",
    "Checkout.PaymentGateway",
    "Shipping.RoutePlanner",
    "Shipping.Geo.Grid<T>",
    "Shared.Json.Converter",
    "Shared.Caching.LruCache<TKey, TValue>",
    "Web.Middleware.TracingMiddleware",
    "Web.Views.ProductView",
    "Inventory.StockLevels",
    "Inventory.Reservations",
    "Identity.TokenValidator",
];
const METHODS: [&str; 12] = [
    "Handle(HttpContext)",
    "GetAsync(int, CancellationToken)",
    "Compute(Span<double>)",
    "Lookup(string)",
    "Merge(List<Item>, List<Item>)",
    "Validate(Order)",
    "Parse(ReadOnlySpan<char>)",
    "Render(StringBuilder)",
    "Apply(Rule)",
    "Score(double, double)",
    "Find(Predicate<Item>)",
    "ToString()",
];
const LIBRARY: [(&str, &str); 14] = [
    ("System.Collections.Generic.Dictionary<TKey, TValue>.FindValue(TKey)", "System.Private.CoreLib.dll"),
    (
        "System.Collections.Generic.Dictionary<TKey, TValue>.TryInsert(TKey, TValue, InsertionBehavior)",
        "System.Private.CoreLib.dll",
    ),
    ("string.Concat(string, string)", "System.Private.CoreLib.dll"),
    ("System.Linq.Enumerable.SelectListIterator<TSource, TResult>.ToList()", "System.Linq.dll"),
    (
        "System.Text.Json.JsonSerializer.Serialize<TValue>(Utf8JsonWriter, TValue, JsonSerializerOptions)",
        "System.Text.Json.dll",
    ),
    ("System.Text.Json.Utf8JsonWriter.WriteStringValue(ReadOnlySpan<char>)", "System.Text.Json.dll"),
    (
        "System.Text.RegularExpressions.RegexInterpreter.TryMatchAtCurrentPosition(ReadOnlySpan<char>)",
        "System.Text.RegularExpressions.dll",
    ),
    ("System.SpanHelpers.IndexOfValueType(ref short, short, int)", "System.Private.CoreLib.dll"),
    ("System.Buffer.Memmove(ref byte, ref byte, nuint)", "System.Private.CoreLib.dll"),
    ("Microsoft.AspNetCore.Routing.Matching.DfaMatcher.MatchAsync(HttpContext)", "Microsoft.AspNetCore.Routing.dll"),
    (
        "Microsoft.Extensions.Logging.Logger.Log<TState>(LogLevel, EventId, TState, Exception, Func<TState, Exception, string>)",
        "Microsoft.Extensions.Logging.dll",
    ),
    ("System.Threading.Tasks.Task.RunContinuations(object)", "System.Private.CoreLib.dll"),
    (
        "System.Collections.Generic.ArraySortHelper<T>.IntroSort(Span<T>, int, Comparison<T>)",
        "System.Private.CoreLib.dll",
    ),
    ("System.Number.UInt32ToDecStr(uint)", "System.Private.CoreLib.dll"),
];
const MACHINE: [(&str, &str); 6] = [
    ("JIT_New", "libcoreclr.so"),
    ("WKS::gc_heap::mark_object_simple(unsigned char**)", "libcoreclr.so"),
    ("libcoreclr.so+0x4f21c0", "libcoreclr.so"),
    ("__memmove_avx_unaligned_erms", "libc.so.6"),
    ("__GI___libc_write", "libc.so.6"),
    ("libclrjit.so+0x9a310", "libclrjit.so"),
];

/// Stacks that share callers, the leaves of a tree of about `nodes` nodes.
fn grow(profile: &mut Profile, nodes: usize, dice: &mut Dice) -> Vec<StackIx> {
    let framework =
        |name: &str, module: &str, profile: &mut Profile| frame(profile, FrameKind::Managed, name, Some(module), None);
    let mut base = Vec::new();
    for (name, module) in [
        ("System.Threading.Thread.StartCallback()", "System.Private.CoreLib.dll"),
        ("System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart()", "System.Private.CoreLib.dll"),
        ("System.Threading.ThreadPoolWorkQueue.Dispatch()", "System.Private.CoreLib.dll"),
        (
            "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http.HttpProtocol.ProcessRequests<TContext>(IHttpApplication<TContext>)",
            "Microsoft.AspNetCore.Server.Kestrel.Core.dll",
        ),
        (
            "Microsoft.AspNetCore.Hosting.HostingApplication.ProcessRequestAsync(Context)",
            "Microsoft.AspNetCore.Hosting.dll",
        ),
    ] {
        base.push(framework(name, module, profile));
    }
    let root = profile.stack_from_root(base).expect("there is a base");
    let mut open = vec![(root, 5usize)];
    let mut stacks = Vec::new();
    while profile.stacks().len() < nodes {
        let pick =
            if dice.below(3) == 0 { dice.below(open.len()) } else { open.len() - 1 - dice.below(open.len().min(12)) };
        let (parent, depth) = open[pick];
        let leaf = depth > 8 && dice.below(3) == 0;
        let frame = random_frame(profile, dice, leaf);
        let stack = profile.stack(Some(parent), frame);
        stacks.push(stack);
        if !leaf && depth < 70 {
            open.push((stack, depth + 1));
        }
    }
    stacks
}

fn random_frame(profile: &mut Profile, dice: &mut Dice, leaf: bool) -> FrameIx {
    let choice = dice.below(10);
    if leaf && choice < 3 {
        let (name, module) = MACHINE[dice.below(MACHINE.len())];
        return frame(profile, FrameKind::Native, name, Some(module), None);
    }
    if leaf && choice == 3 && dice.below(6) == 0 {
        return frame(profile, FrameKind::Unknown, "[unknown]", None, None);
    }
    if choice < 7 {
        let kind = TYPES[dice.below(TYPES.len())];
        let name = format!("Contoso.Shop.{kind}.{}", METHODS[dice.below(METHODS.len())]);
        let file = format!("/src/{}.cs", kind.split('<').next().unwrap_or(kind).replace('.', "/"));
        let line = 20 + dice.below(3) as u32 * 7;
        return frame(profile, FrameKind::Managed, &name, Some("Contoso.Shop.dll"), Some((&file, line)));
    }
    let (name, module) = LIBRARY[dice.below(LIBRARY.len())];
    frame(profile, FrameKind::Managed, name, Some(module), None)
}
