//! Providers that a session needs for a sampled profile with names.

/// One provider, as CollectTracing names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: &'static str,
    /// Its event keywords.
    pub keywords: u64,
    /// Its level: 4 is informational, 5 verbose.
    pub level: u32,
}

/// The name of the provider of samples.
pub const SAMPLER: &str = "Microsoft-DotNETCore-SampleProfiler";
/// The name of the runtime's provider.
pub const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
/// The name of the rundown provider, which lists loaded code when the session stops. It is not requested: the session requests rundown.
pub const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";
/// The name of the provider of the command line event.
pub const EVENT_PIPE: &str = "Microsoft-DotNETCore-EventPipe";

/// Only verbose events have method names.
const VERBOSE: u32 = 5;
/// Modules and assemblies when loaded.
const LOADER: u64 = 0x8;
/// Methods when compiled, dynamic ones included, with names.
const JIT: u64 = 0x10;
/// Precompiled methods at first use.
const PRECOMPILED: u64 = 0x20;

/// The providers of a sampled profile: samples, and names of methods and modules loaded or unloaded during the session.
/// Earlier ones are in the rundown at the end, which the session must request as well.
pub const WANTED: [Wanted; 2] = [
    Wanted { name: SAMPLER, keywords: 0xf000_0000_0000, level: 4 },
    Wanted { name: RUNTIME, keywords: LOADER | JIT | PRECOMPILED, level: VERBOSE },
];

/// The providers of `dotnet-trace collect`: the same samples, and many events that are not needed and burden the target.
/// For comparisons.
pub const DOTNET_TRACE: [Wanted; 2] = [
    Wanted { name: SAMPLER, keywords: 0xf000_0000_0000, level: 4 },
    Wanted { name: RUNTIME, keywords: 0x0014_c14f_ccbd, level: 4 },
];
