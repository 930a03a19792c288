//! Assembles the agent's messages into a [`Profile`]: keeps each description, turns each sample into a stack, counts every loss.

use crate::names::Names;
use crate::scaling::Used;
use crate::symbol_files::NoSymbols;
use remora_profile::{
    CodeKind, FrameIx, GC, INCOMPLETE, LOCK_WAIT, LossCause, NumberMap, Profile, Sample, StackIx, State, TRUNCATED,
    Thread, ThreadIx, Thrown, WAITING_FOR_CPU,
};
use remora_wire::{Foreign, Message, Place, sample_flags};
use std::collections::HashMap;
use std::time::Instant;

/// Upper bound for the time of all samples together, nanoseconds: 146 years. Anything beyond counts as damaged. A hostile agent could
/// otherwise overflow the sum of weights, and the recording could not be read again.
pub(crate) const MOST_TIME: u64 = 1 << 62;

/// The type of an exception whose class is not known.
const UNKNOWN_TYPE: &str = "[unknown exception]";

/// Managed methods of the runtime that find the handler of an exception (.NET 9 and later).
const CARRIERS: [&str; 2] = ["System.Runtime.EH.", "System.Runtime.StackFrameIterator."];

/// The flags of a thread off the CPU.
const OFF_CPU: u8 = sample_flags::BLOCKED | sample_flags::RUNNABLE;

/// The profile under construction.
#[derive(Default)]
pub struct Assembler {
    /// What has been assembled so far.
    pub profile: Profile,
    names: Names,
    /// Monotonic time of the profile's zero, nanoseconds.
    started: u64,
    addresses: NumberMap<u64, Known>,
    /// Number of frames by address, for addresses that only the runtime's description makes native.
    on_the_runtimes_word: NumberMap<u64, u64>,
    threads: HashMap<u32, ThreadIx>,
    last: HashMap<ThreadIx, (StackIx, State)>,
    /// Monotonic time of the first sample.
    pub first_sample: Option<u64>,
    managed_frames: u64,
    managed_frames_named: u64,
    /// CPU time that the agent reported at its end; `None` if it did not report any.
    pub used: Option<Used>,
    by_clock: HashMap<ThreadIx, u64>,
    /// Sum of all weights.
    sampled: u64,
}

/// Everything known about an address.
#[derive(Clone, Copy)]
struct Known {
    frame: FrameIx,
    kind: Kind,
    /// Otherwise it is resolved again in the next sample.
    is_settled: bool,
    /// Native code of the runtime.
    is_runtime: bool,
    /// A managed statement that enters a `lock`.
    enters_lock: bool,
}

/// Whether an address is managed code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Managed, and described.
    Managed,
    /// Native: by its description, and by the file that it is in.
    Native,
    /// Native by its description only. The description also says so after a failed lookup.
    SaidToBeNative,
    /// Unknown: its description was lost, and no native file contains it.
    Undescribed,
}

impl Assembler {
    /// Creates an empty assembler; `started` is the monotonic time that becomes the profile's zero.
    pub fn new(profile: Profile, names: Names, started: u64) -> Assembler {
        Assembler { profile, names, started, ..Assembler::default() }
    }

    /// Starts another pass over the ring.
    pub fn begin_pass(&mut self, now: Instant) {
        self.names.files.begin_pass(now);
    }

    /// Decodes one record of the ring, and adds it.
    pub fn take(&mut self, words: Foreign<&[u64]>) {
        match Message::decode(words) {
            Ok(message) => self.message(message),
            Err(_) => self.profile.loss.lose(LossCause::Damaged, 1),
        }
    }

    /// Notes about files that were not read or not used.
    pub fn notes(&self) -> Vec<String> {
        let files = &self.names.files;
        files.note().into_iter().chain(files.notes_on_symbols()).collect()
    }

    /// The assemblies whose lines are missing, and why.
    pub fn without_lines(&self) -> Vec<(String, NoSymbols)> {
        self.names.files.without_lines()
    }

    /// Managed frames in all samples, and how many of them have a name. Frames that may be managed code count as unnamed.
    ///
    /// The agent describes addresses as native when the runtime's lookup failed, and counts these failures. At most that many native
    /// addresses are really managed. This assumes the worst case: the most frequent ones.
    pub fn managed_frames(&self, failed_lookups: u64) -> (u64, u64) {
        let mut doubtful: Vec<u64> = self.on_the_runtimes_word.values().copied().collect();
        doubtful.sort_unstable_by(|a, b| b.cmp(a));
        let unnamed: u64 = doubtful.iter().take(usize::try_from(failed_lookups).unwrap_or(usize::MAX)).sum();
        (self.managed_frames + unnamed, self.managed_frames_named)
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Module { index, path, mvid } => self.names.module(index, path, mvid),
            Message::Type { index, kind } => self.names.type_(index, kind),
            Message::Method { index, kind } => self.names.method(index, kind),
            Message::Address { address, place } => self.address(address, place),
            Message::Thread { thread, name } => {
                let index = self.profile.add_thread(Thread { id: thread, name });
                self.threads.insert(thread, index);
            }
            Message::ThreadName { thread, name } => {
                let index = self.thread(thread);
                self.profile.thread_mut(index).name = name;
            }
            Message::ThreadTime { thread, used } => {
                let index = self.thread(thread);
                self.by_clock.insert(index, used);
            }
            Message::ProcessTime { time, is_last, process, agent, unfollowed } => {
                let (threads, until) = (self.by_clock.clone(), time.saturating_sub(self.started));
                self.used = Some(Used { until, is_last, threads, process: process.saturating_sub(agent), unfollowed });
            }
            Message::Sample { thread, time, weight, flags, addresses } => {
                self.sample(thread, time, weight, flags, &addresses);
            }
            Message::Repeat { thread, time, weight } => self.repeat(thread, time, weight),
            Message::Thrown { thread, time, class, addresses, .. } => self.thrown(thread, time, class, &addresses),
            // Only for snapshots, never for recordings.
            Message::ModuleId { .. } | Message::FunctionId { .. } => self.profile.loss.lose(LossCause::Damaged, 1),
        }
    }

    fn address(&mut self, address: u64, place: Place) {
        let known = match place {
            Place::Managed { method, il_offset } => {
                let frame = self.names.managed(&mut self.profile, method, il_offset);
                let enters_lock = self.names.enters_lock(method, il_offset);
                Known { frame, kind: Kind::Managed, is_settled: true, is_runtime: false, enters_lock }
            }
            Place::Native => self.native(address, Kind::SaidToBeNative),
        };
        self.addresses.insert(address, known);
    }

    /// Resolves an address as native code. `otherwise` is its kind if that settles nothing.
    fn native(&mut self, address: u64, otherwise: Kind) -> Known {
        let is_settled = self.names.files.is_settled(address);
        let frame = self.names.native(&mut self.profile, address);
        let kind = if self.names.files.is_certainly_native(address) { Kind::Native } else { otherwise };
        let is_runtime = CodeKind::of(&self.profile, self.profile.frame_at(frame)) == CodeKind::Runtime;
        Known { frame, kind, is_settled, is_runtime, enters_lock: false }
    }

    fn sample(&mut self, thread: u32, time: u64, weight: u64, flags: u8, addresses: &[u64]) {
        let thread = self.thread(thread);
        let mut frames: Vec<FrameIx> = Vec::with_capacity(addresses.len() + 1);
        // The call of the managed method nearest to the leaf.
        let mut call: Option<(usize, bool)> = None;
        let mut is_runtime = false;
        for address in addresses {
            let known = self.known(*address);
            if known.kind == Kind::Managed && call.is_none() {
                call = Some((frames.len(), known.enters_lock && is_runtime));
            }
            is_runtime = known.is_runtime;
            frames.push(known.frame);
        }
        let (calls, enters_lock) = call.unwrap_or((frames.len(), false));
        let purpose = match (flags & sample_flags::COLLECTING != 0, flags & OFF_CPU == sample_flags::BLOCKED) {
            (true, _) => Some(GC),
            (false, true) if enters_lock => Some(LOCK_WAIT),
            _ => None,
        };
        if let Some(purpose) = purpose.filter(|_| calls > 0) {
            frames.insert(calls, self.profile.marker(purpose));
        }
        let cut = [(sample_flags::TRUNCATED, TRUNCATED), (sample_flags::BROKEN, INCOMPLETE)];
        let cut = cut.into_iter().find(|(flag, _)| !frames.is_empty() && flags & flag != 0);
        let cut = cut.map(|(_, mark)| self.profile.marker(mark));
        let waits = (flags & sample_flags::RUNNABLE != 0).then(|| self.profile.marker(WAITING_FOR_CPU));
        let from_root = cut.into_iter().chain(frames.into_iter().rev()).chain(waits);
        let Some(stack) = self.profile.stack_from_root(from_root) else {
            self.profile.loss.lose(LossCause::Damaged, 1);
            return;
        };
        let state = if flags & sample_flags::BLOCKED != 0 { State::Blocked } else { State::Running };
        self.count_flags(flags);
        // The thread did not run during later repeats of this stack.
        self.last.insert(thread, (stack, State::Blocked));
        self.add(Sample { time, thread, stack, weight, state });
    }

    /// Native frames above the method that threw, and the runtime's managed ones, only carry the exception.
    fn thrown(&mut self, thread: u32, time: u64, class: Option<u32>, addresses: &[u64]) {
        let thread = self.thread(thread);
        let known: Vec<Known> = addresses.iter().map(|address| self.known(*address)).collect();
        let carries = |known: &&Known| known.kind != Kind::Managed || self.carries_exceptions(known.frame);
        let frames: Vec<FrameIx> = known.iter().skip_while(carries).map(|known| known.frame).collect();
        let name = class.and_then(|class| self.names.type_name(class)).map(|(name, _)| name);
        let exception = self.profile.string(name.as_deref().unwrap_or(UNKNOWN_TYPE));
        if let Some(stack) = self.profile.stack_from_root(frames.into_iter().rev()) {
            let time = time.saturating_sub(self.started);
            self.profile.add_thrown(Thrown { time, thread, exception, stack });
        }
    }

    fn carries_exceptions(&self, frame: FrameIx) -> bool {
        let name = self.profile.text(self.profile.frame_at(frame).name);
        CARRIERS.iter().any(|start| name.starts_with(start))
    }

    fn repeat(&mut self, thread: u32, time: u64, weight: u64) {
        let thread = self.thread(thread);
        let Some(&(stack, state)) = self.last.get(&thread) else {
            self.profile.loss.lose(LossCause::Damaged, 1);
            return;
        };
        self.profile.loss.repeated_stacks += 1;
        self.add(Sample { time, thread, stack, weight, state });
    }

    fn add(&mut self, sample: Sample) {
        let sampled = self.sampled.saturating_add(sample.weight);
        if sampled > MOST_TIME {
            self.profile.loss.lose(LossCause::Damaged, 1);
            return;
        }
        self.sampled = sampled;
        self.first_sample.get_or_insert(sample.time);
        self.profile.loss.delivered += 1;
        self.profile.add_sample(Sample { time: sample.time.saturating_sub(self.started), ..sample });
    }

    /// Everything known about an address of a sample. Counts it.
    fn known(&mut self, address: u64) -> Known {
        let known = match self.addresses.get(&address) {
            Some(known) if known.is_settled => *known,
            // Its description was lost on the way. Resolve it here as if it were native code.
            earlier => {
                let known = self.native(address, earlier.map_or(Kind::Undescribed, |known| known.kind));
                self.addresses.insert(address, known);
                known
            }
        };
        match known.kind {
            Kind::Native => {}
            Kind::SaidToBeNative => *self.on_the_runtimes_word.entry(address).or_default() += 1,
            Kind::Undescribed => self.managed_frames += 1,
            Kind::Managed => {
                self.managed_frames += 1;
                self.managed_frames_named += u64::from(self.names.is_named(known.frame));
            }
        }
        known
    }

    fn thread(&mut self, id: u32) -> ThreadIx {
        if let Some(&index) = self.threads.get(&id) {
            return index;
        }
        let index = self.profile.add_thread(Thread { id, name: String::new() });
        self.threads.insert(id, index);
        index
    }

    fn count_flags(&mut self, flags: u8) {
        let loss = &mut self.profile.loss;
        loss.truncated_stacks += u64::from(flags & sample_flags::TRUNCATED != 0);
        loss.broken_stacks += u64::from(flags & sample_flags::BROKEN != 0);
        loss.repaired_stacks += u64::from(flags & sample_flags::REPAIRED != 0);
        loss.incomplete_stacks += u64::from(flags & sample_flags::CALLERS_UNKNOWN != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;
    use remora_profile::Meta;
    use remora_wire::MethodKind;

    /// An assembler for this process, with its mappings.
    fn assembler() -> Assembler {
        let mut files = Files::of_ourselves();
        files.refresh_maps();
        Assembler::new(Profile::new(Meta::default()), Names::new(files), 0)
    }

    fn sample(assembler: &mut Assembler, addresses: &[u64]) {
        let addresses = addresses.to_vec();
        assembler.take((&Message::Sample { thread: 1, time: 1, weight: 1, flags: 0, addresses }.encode()).into());
    }

    /// An address in this program's code, and memory without a file.
    fn places() -> (u64, Vec<u8>) {
        (places as fn() -> (u64, Vec<u8>) as usize as u64, vec![0; 1 << 20])
    }

    #[test]
    fn an_address_that_was_never_described_is_an_unnamed_frame_unless_it_is_certainly_native() {
        let (code, memory) = places();
        let mut assembler = assembler();
        sample(&mut assembler, &[code]);
        assert_eq!(assembler.managed_frames(0), (0, 0), "an ELF file holds it");
        sample(&mut assembler, &[code, memory.as_ptr() as u64]);
        assert_eq!(assembler.managed_frames(0), (1, 0), "it may have been managed code");
    }

    #[test]
    fn a_failed_look_up_is_an_unnamed_frame_as_often_as_it_can_have_been_met() {
        let (code, memory) = places();
        let (often, seldom) = (memory.as_ptr() as u64, memory.as_ptr() as u64 + 64);
        let mut assembler = assembler();
        for address in [code, often, seldom] {
            assembler.take((&Message::Address { address, place: Place::Native }.encode()).into());
        }
        sample(&mut assembler, &[often, code]);
        sample(&mut assembler, &[often, seldom, code]);
        assert_eq!(assembler.managed_frames(0), (0, 0), "the runtime has looked at each of them");
        assert_eq!(assembler.managed_frames(1), (2, 0), "one of them it could not tell");
        assert_eq!(assembler.managed_frames(9), (3, 0), "what is in an ELF file is native whoever says so");
    }

    #[test]
    fn samples_that_stand_for_more_time_than_a_number_holds_are_damage() {
        let mut assembler = assembler();
        for weight in [1 << 61, u64::MAX, 1 << 61, 1] {
            let message = Message::Sample { thread: 1, time: 1, weight, flags: 0, addresses: vec![1] };
            assembler.take((&message.encode()).into());
        }
        let weights: Vec<u64> = assembler.profile.samples().iter().map(|sample| sample.weight).collect();
        assert_eq!(weights, [1 << 61, 1 << 61]);
        assert_eq!(assembler.profile.loss.lost, [(LossCause::Damaged, 2)]);
        assert_eq!(assembler.profile.loss.delivered, 2);
    }

    #[test]
    fn a_stack_without_its_outer_frames_begins_with_a_mark() {
        let root = |flags: u8| {
            let mut assembler = assembler();
            let message = Message::Sample { thread: 1, time: 1, weight: 1, flags, addresses: vec![1, 2] };
            assembler.take((&message.encode()).into());
            let profile = &assembler.profile;
            let outermost = profile.walk(profile.samples()[0].stack).last().expect("a frame");
            profile.text(profile.frame_at(outermost).name).to_owned()
        };
        assert_eq!(root(sample_flags::TRUNCATED), TRUNCATED);
        assert_eq!(root(sample_flags::BROKEN | sample_flags::BLOCKED), INCOMPLETE);
        // A caller is missing in the middle only.
        assert_eq!(root(sample_flags::CALLERS_UNKNOWN), root(0));
    }

    #[test]
    fn described_methods_count_with_their_names() {
        let mut assembler = assembler();
        let named = MethodKind::Named { module: None, name: "Work".into() };
        let nameless = MethodKind::Named { module: None, name: String::new() };
        for (index, kind) in [(1, named), (2, nameless)] {
            assembler.take((&Message::Method { index, kind }.encode()).into());
            let place = Place::Managed { method: index, il_offset: None };
            assembler.take((&Message::Address { address: u64::from(index), place }.encode()).into());
        }
        sample(&mut assembler, &[1, 2]);
        assert_eq!(assembler.managed_frames(0), (2, 1));
    }
}
