//! A profile of the runtime's own samples: the fallback where no library may be loaded into the target.

use crate::event::{Event, Sink, StreamEnd, Trace};
use crate::il_text::method_name;
use crate::method_table::{MethodLookup, MethodTable};
use crate::parser::Parser;
use crate::payload::{Mode, Payload, payload};
use crate::samples::{DEPTH_LIMIT, RawSample, Samples};
use crate::{Error, Result};
use remora_profile::{Frame, FrameIx, FrameKind, LossCause, Meta, Profile, Sample, StackIx, State, Thread, ThreadIx};
use remora_symbols::Foreign;
use std::collections::{HashMap, HashSet};

/// Maximum nodes of the tree of stacks (some 200 MiB). If addresses belong to several methods over time, each sample can add a whole stack.
const NODE_LIMIT: usize = 4 << 20;
/// Maximum threads, as many as a recording holds. Linux numbers no more at a time.
const THREAD_LIMIT: usize = 4 << 20;
/// Maximum look-ups of addresses: some seconds.
const LOOKUP_LIMIT: u64 = 128 << 20;

/// From this many samples outside managed code for one inside, the marks are doubted: .NET 9, and .NET 10 before 10.0.4, mark nearly all as
/// outside (dotnet/runtime issue 123996; on 9.0.7, 2 samples of 4,173 were marked as managed in a program that does nothing else).
const UNMARKED: u64 = 100;
const MARKS_LEFT_OUT: &str = "The runtime marked nearly all samples as outside managed code, and those are left out. .NET 9, and .NET 10 before 10.0.4, do so even for managed code (dotnet/runtime issue 123996): on these, record with -e wall, or without --engine eventpipe. On others, the threads did wait.";
const MARKS_BLOCKED: &str = "The runtime marked nearly all samples as outside managed code, so they are shown as blocked. .NET 9, and .NET 10 before 10.0.4, do so even for managed code (dotnet/runtime issue 123996). On others, the threads did wait.";

/// Reads an EventPipe stream piece by piece, and makes a profile of its samples at the end.
#[derive(Debug)]
pub struct SampledProfile {
    parser: Parser,
    collector: Collector,
    failure: Option<Error>,
}

impl SampledProfile {
    /// A profile of `event`. [`remora_profile::Event::Wall`] uses all samples, and shows threads in native code as blocked;
    /// [`remora_profile::Event::Cpu`] uses only samples of threads in managed code.
    pub fn new(event: remora_profile::Event) -> SampledProfile {
        SampledProfile { parser: Parser::new(), collector: Collector { event, ..Collector::default() }, failure: None }
    }

    /// Reads the next piece of the stream. After an error it reads no more; [`SampledProfile::finish`] makes a profile of the earlier
    /// events.
    pub fn push(&mut self, bytes: Foreign<&[u8]>) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let outcome = match (self.parser.push(bytes, &mut self.collector), &self.collector.failure) {
            (Ok(()), Some(failure)) => Err(failure.clone()),
            (outcome, _) => outcome,
        };
        self.failure = outcome.clone().err();
        outcome
    }

    /// Samples so far.
    pub fn samples(&self) -> usize {
        self.collector.samples.len()
    }

    /// Samples the runtime has dropped so far.
    pub fn lost(&self) -> u64 {
        self.collector.lost()
    }

    /// Methods and modules named so far. When the session ends, the runtime names the others.
    pub fn named(&self) -> usize {
        self.collector.methods.len()
    }

    /// Whether the stream's end mark was read.
    pub fn ended(&self) -> bool {
        self.parser.ended()
    }

    /// The profile of all samples.
    /// Empty or zero fields of `meta` are set from the stream; event and engine are always set, and notes are added.
    pub fn finish(self, meta: Meta) -> Profile {
        let end = self.parser.finish();
        self.collector.into_profile(meta, end, self.failure)
    }
}

/// Collects samples, methods and modules.
#[derive(Debug, Default)]
struct Collector {
    event: remora_profile::Event,
    trace: Trace,
    samples: Samples,
    methods: MethodTable,
    command_line: String,
    dropped_by: HashMap<u64, u64>,
    samplers: HashSet<u64>,
    /// Samples that the runtime marks as managed code, and as other code.
    marked: (u64, u64),
    misshapen: u64,
    failure: Option<Error>,
}

impl Sink for Collector {
    fn trace(&mut self, trace: &Trace) {
        self.trace = trace.clone();
    }

    fn event(&mut self, event: &Event<'_>) {
        if self.failure.is_some() {
            return;
        }
        let outcome = match payload(event) {
            Ok(Some(payload)) => self.take(event, payload),
            Ok(None) => Ok(()),
            Err(()) => {
                self.misshapen += 1;
                Ok(())
            }
        };
        self.failure = outcome.err();
    }

    fn dropped(&mut self, written_by: u64, count: u64) {
        let total = self.dropped_by.entry(written_by).or_default();
        *total = total.saturating_add(count);
    }
}

impl Collector {
    fn take(&mut self, event: &Event<'_>, payload: Payload) -> Result<()> {
        match payload {
            Payload::Sample(mode) => {
                self.samplers.insert(event.written_by);
                let mark = if mode == Mode::Managed { &mut self.marked.0 } else { &mut self.marked.1 };
                *mark += 1;
                self.samples.visit(event.time, event.thread as u32, self.trace.sampling_interval.into())?;
                if self.event == remora_profile::Event::Cpu && mode == Mode::External {
                    return Ok(());
                }
                self.samples.add(event.time, event.thread as u32, event.stack, mode)
            }
            Payload::Method { method, listed } => self.methods.add(method, event.time, listed),
            Payload::MethodUnloaded { start } => {
                self.methods.remove(start, event.time);
                Ok(())
            }
            Payload::Module { id, file } => self.methods.add_module(id, file),
            Payload::Process { command_line } => {
                self.command_line = command_line;
                Ok(())
            }
        }
    }

    /// Dropped events of the threads that write samples.
    fn lost(&self) -> u64 {
        self.samplers.iter().filter_map(|thread| self.dropped_by.get(thread)).sum()
    }

    fn into_profile(mut self, meta: Meta, end: StreamEnd, failure: Option<Error>) -> Profile {
        let lost = self.lost();
        let weighted = self.samples.weighted(self.trace.sampling_interval.into(), lost > 0);
        let mut profile = Profile::new(self.complete(meta, &weighted));
        let mut resolver = Resolver::new(std::mem::take(&mut self.methods).into_lookup());
        let mut threads: HashMap<u32, ThreadIx> = HashMap::new();
        let mut failure = failure;
        for (raw, weight) in weighted {
            if let Some(error) = resolver.limit(&profile) {
                failure = failure.or(Some(error));
                break;
            }
            let addresses = self.samples.stack(raw.stack);
            profile.loss.truncated_stacks += u64::from(addresses.len() >= DEPTH_LIMIT);
            let stack = resolver.stack(&mut profile, raw, addresses);
            let thread = *threads
                .entry(raw.thread)
                .or_insert_with(|| profile.add_thread(Thread { id: raw.thread, name: String::new() }));
            let state = if raw.mode == Mode::Managed { State::Running } else { State::Blocked };
            profile.add_sample(Sample { time: raw.time, thread, stack, weight, state });
        }
        profile.loss.delivered = profile.samples().len() as u64;
        profile.loss.taken = profile.loss.delivered.saturating_add(lost);
        profile.loss.lose(LossCause::RuntimeDropped, lost);
        let notes = self.notes(end, lost, resolver.unresolved, failure, &profile);
        profile.meta.notes.extend(notes);
        profile
    }

    /// `meta` with its missing fields from the stream.
    fn complete(&mut self, meta: Meta, weighted: &[(RawSample, u64)]) -> Meta {
        fn or<T: Default + PartialEq>(known: T, found: T) -> T {
            if known == T::default() { found } else { known }
        }
        let frequency = 1_000_000_000_u32.checked_div(self.trace.sampling_interval).unwrap_or(0);
        Meta {
            event: self.event,
            engine: Meta::RUNTIME_SAMPLER.to_owned(),
            frequency: or(meta.frequency, frequency),
            started_unix_nanoseconds: or(meta.started_unix_nanoseconds, self.trace.started_unix_nanoseconds),
            duration: or(meta.duration, weighted.last().map_or(0, |(sample, _)| sample.time)),
            process_id: or(meta.process_id, self.trace.process_id),
            command_line: or(meta.command_line, std::mem::take(&mut self.command_line)),
            ..meta
        }
    }

    /// Notes for readers.
    fn notes(
        &self,
        end: StreamEnd,
        lost: u64,
        unresolved: u64,
        failure: Option<Error>,
        profile: &Profile,
    ) -> Vec<String> {
        let mut notes = limits_of_the_sampler(self.event);
        let mut note = |text: String| notes.push(text);
        if let Some(failure) = failure {
            note(format!("The recording ends early: {failure}."));
        } else if end.truncated {
            note("The stream was cut off before its end: the target ended, or the session was not stopped properly. Names that come with the end are missing.".to_owned());
        }
        if lost > 0 {
            note(format!("The runtime dropped {lost} samples, since its buffer was full."));
        }
        let others = end.dropped.saturating_sub(lost);
        if others > 0 {
            note(format!("The runtime dropped {others} other events: some methods may have no name."));
        }
        if self.misshapen + end.incomplete > 0 {
            note(format!("{} events were not understood.", self.misshapen + end.incomplete));
        }
        if unresolved > 0 {
            let addresses =
                if unresolved == 1 { "1 address belongs" } else { &format!("{unresolved} addresses belong") };
            note(format!("{addresses} to no method that the runtime named: shown as [unknown]."));
        }
        if self.marked.0 < self.marked.1 / UNMARKED {
            note(if self.event == remora_profile::Event::Cpu { MARKS_LEFT_OUT } else { MARKS_BLOCKED }.to_owned());
        }
        let asked = profile.meta.frequency;
        let seconds = profile.meta.duration as f64 / 1e9;
        let rounds = self.samples.rounds() as f64;
        if seconds > 0.0 && asked > 0 && rounds < 0.9 * f64::from(asked) * seconds {
            note(format!(
                "Of {asked} samples a second and thread, {:.0} came: stopping the runtime takes its time.",
                rounds / seconds
            ));
        }
        notes
    }
}

/// The limits of this sampler in every recording.
fn limits_of_the_sampler(event: remora_profile::Event) -> Vec<String> {
    let native = match event {
        remora_profile::Event::Wall => {
            "Native frames are missing: a thread in native code stands in the managed method that called it, and is shown as blocked even if it runs there."
        }
        remora_profile::Event::Cpu => {
            "This is not processor time: a thread counts while it is in managed code, even if it waits for a processor; time in native code and in the runtime is missing."
        }
    };
    vec![
        "Taken by the runtime's own sampler: it stops all threads for every sample, and they stop at safepoints only, so that time is charged to the nearest of those instead of where it was spent.".to_owned(),
        native.to_owned(),
        "Threads that never ran managed code are not seen.".to_owned(),
    ]
}

/// Resolves addresses to frames.
#[derive(Default)]
struct Resolver {
    lookup: MethodLookup,
    frames: HashMap<usize, FrameIx>,
    /// Cached only if no address was reused.
    stacks: HashMap<u32, StackIx>,
    cacheable: bool,
    unknown: HashSet<u64>,
    unresolved: u64,
    lookups: u64,
}

impl Resolver {
    fn new(lookup: MethodLookup) -> Resolver {
        Resolver { cacheable: lookup.is_unambiguous(), lookup, ..Resolver::default() }
    }

    /// Why no more samples are resolved, if so.
    fn limit(&self, profile: &Profile) -> Option<Error> {
        if profile.stacks().len() > NODE_LIMIT {
            return Some(Error::TooMany { what: "different stacks", limit: NODE_LIMIT });
        }
        if profile.threads().len() >= THREAD_LIMIT {
            return Some(Error::TooMany { what: "threads", limit: THREAD_LIMIT });
        }
        let limit = Error::TooMany { what: "look-ups of reused addresses", limit: LOOKUP_LIMIT as usize };
        (self.lookups > LOOKUP_LIMIT).then_some(limit)
    }

    fn stack(&mut self, profile: &mut Profile, raw: RawSample, addresses: &[u64]) -> StackIx {
        if let Some(&known) = self.stacks.get(&raw.stack) {
            return known;
        }
        self.lookups += addresses.len() as u64;
        let mut frames: Vec<FrameIx> = Vec::with_capacity(addresses.len() + 1);
        if addresses.len() >= DEPTH_LIMIT {
            frames.push(profile.marker(remora_profile::TRUNCATED));
        }
        for (depth, &address) in addresses.iter().enumerate().rev() {
            // A return address may already be in the next method, so the lookup uses the byte before it.
            let within = if depth == 0 { address } else { address.saturating_sub(1) };
            frames.push(self.frame(profile, within, raw.time));
        }
        let stack = match profile.stack_from_root(frames) {
            Some(stack) => stack,
            None => {
                let nothing = profile.marker("[no managed frames]");
                profile.stack(None, nothing)
            }
        };
        if self.cacheable {
            self.stacks.insert(raw.stack, stack);
        }
        stack
    }

    fn frame(&mut self, profile: &mut Profile, address: u64, time: u64) -> FrameIx {
        let Some(index) = self.lookup.find(address, time) else {
            self.unresolved += u64::from(self.unknown.insert(address));
            let name = profile.string("[unknown]");
            return profile.frame(Frame::unknown(name));
        };
        if let Some(&known) = self.frames.get(&index) {
            return known;
        }
        let method = self.lookup.method(index);
        let name = profile.string(&method_name(&method.type_name, &method.name, &method.signature));
        let module = self.lookup.module(index).map(|file| profile.string(file));
        let frame = profile.frame(Frame { kind: FrameKind::Managed, name, module, file: None, line: None });
        self.frames.insert(index, frame);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_samples_of_more_threads_than_a_recording_holds_made_one_that_could_not_be_written() {
        let resolver = Resolver::new(MethodTable::default().into_lookup());
        let mut profile = Profile::new(Meta::default());
        (1..THREAD_LIMIT as u32).for_each(|id| _ = profile.add_thread(Thread { id, name: String::new() }));
        assert_eq!(resolver.limit(&profile), None);
        profile.add_thread(Thread { id: 0, name: String::new() });
        assert_eq!(resolver.limit(&profile), Some(Error::TooMany { what: "threads", limit: THREAD_LIMIT }));
    }

    #[test]
    fn a_stream_whose_samples_add_too_many_stacks_or_lookups_is_resolved_no_further() {
        let mut resolver = Resolver::new(MethodTable::default().into_lookup());
        let mut profile = Profile::new(Meta::default());
        let frame = profile.marker("[deep]");
        let mut stack = None;
        (0..NODE_LIMIT).for_each(|_| stack = Some(profile.stack(stack, frame)));
        assert_eq!(resolver.limit(&profile), None);
        profile.stack(stack, frame);
        assert!(matches!(resolver.limit(&profile), Some(Error::TooMany { what: "different stacks", .. })));
        resolver.lookups = LOOKUP_LIMIT + 1;
        assert!(matches!(
            resolver.limit(&Profile::new(Meta::default())),
            Some(Error::TooMany { what: "look-ups of reused addresses", .. })
        ));
    }
}
