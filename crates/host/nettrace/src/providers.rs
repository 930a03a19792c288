//! What a session has to ask of the runtime for a sampled profile with names.

/// One provider, as CollectTracing names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: &'static str,
    /// Which of its events.
    pub keywords: u64,
    /// How detailed: 4 is informational, 5 verbose.
    pub level: u32,
}

/// The name of the provider of samples.
pub const SAMPLER: &str = "Microsoft-DotNETCore-SampleProfiler";
/// The name of the runtime's provider.
pub const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
/// The name of the provider that lists what there is when the session stops. It is not asked for: the session asks for rundown.
pub const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";
/// The name of the provider that tells the command line.
pub const EVENT_PIPE: &str = "Microsoft-DotNETCore-EventPipe";

/// Names of methods come with the verbose events only.
const VERBOSE: u32 = 5;
/// Modules and assemblies as they are loaded.
const LOADER: u64 = 0x8;
/// Methods as they are compiled, dynamic ones included, with their names.
const JIT: u64 = 0x10;
/// Precompiled methods as they are first used.
const PRECOMPILED: u64 = 0x20;

/// What a sampled profile needs: samples, and the names of methods and modules that come or go during the session.
/// The rest, what was there before, comes with the rundown at the end, which must be asked for as well.
pub const WANTED: [Wanted; 2] = [
    Wanted { name: SAMPLER, keywords: 0xf000_0000_0000, level: 4 },
    Wanted { name: RUNTIME, keywords: LOADER | JIT | PRECOMPILED, level: VERBOSE },
];

/// What `dotnet-trace collect` asks for: the same samples, and much that costs the target and is not needed for them.
/// For comparisons.
pub const DOTNET_TRACE: [Wanted; 2] = [
    Wanted { name: SAMPLER, keywords: 0xf000_0000_0000, level: 4 },
    Wanted { name: RUNTIME, keywords: 0x0014_c14f_ccbd, level: 4 },
];
