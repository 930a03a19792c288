//! One frame for a run of runtime frames without symbols: it says what is known of the run.
//!
//! The runtime's ELF files have no symbols, so that its frames are called `libcoreclr.so+0x3a120`. Their files, the managed method that
//! calls them, the thread, and marks of the recorder ([`crate::GC`], [`crate::LOCK_WAIT`]) show the purpose of most runs. Nothing is
//! guessed: a run without such evidence is called `[runtime]`. A frame with a symbol, mostly of a debug file, is shown by it, and ends the
//! run before it.

use crate::runtime_names::{ALLOCATION, EXCEPTION, JIT, RUNTIME, THREAD_START, TYPE_LOAD, is_cut};
use crate::{CodeKind, Frame, FrameIx, FrameKind, GC, LOCK_WAIT, NumberMap, Profile, Sample, StackIx, StackNode, Wait};
use std::mem;

/// What the runtime's code is run for, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Allocation,
    Exception,
    Gc,
    Jit,
    LockWait,
    TypeLoad,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Purpose::Allocation => ALLOCATION,
            Purpose::Exception => EXCEPTION,
            Purpose::Gc => GC,
            Purpose::Jit => JIT,
            Purpose::LockWait => LOCK_WAIT,
            Purpose::TypeLoad => TYPE_LOAD,
        }
    }
}

/// Beginnings of the names of managed methods, with the purpose of the runtime's code that they call.
const CALLERS: [(&str, Purpose); 21] = [
    ("System.GC.Collect", Purpose::Gc),
    ("System.GC._Collect", Purpose::Gc),
    ("System.GC.Allocate", Purpose::Allocation),
    ("string.FastAllocateString", Purpose::Allocation),
    ("object.MemberwiseClone", Purpose::Allocation),
    ("System.Array.CreateInstance", Purpose::Allocation),
    ("System.Array.InternalCreate", Purpose::Allocation),
    ("System.Runtime.CompilerServices.RuntimeHelpers.GetUninitializedObject", Purpose::Allocation),
    ("System.Runtime.CompilerServices.RuntimeHelpers.AllocateUninitializedClone", Purpose::Allocation),
    ("System.Runtime.CompilerServices.RuntimeHelpers.RunClassConstructor", Purpose::TypeLoad),
    ("System.Runtime.CompilerServices.InitHelpers.", Purpose::TypeLoad),
    ("System.Runtime.CompilerServices.StaticsHelpers.", Purpose::TypeLoad),
    ("System.Runtime.CompilerServices.GenericsHelpers.", Purpose::TypeLoad),
    ("System.Runtime.Loader.AssemblyLoadContext.", Purpose::TypeLoad),
    ("System.Reflection.RuntimeAssembly.InternalLoad", Purpose::TypeLoad),
    ("System.Reflection.RuntimeAssembly.GetType", Purpose::TypeLoad),
    ("System.RuntimeTypeHandle.GetTypeByName", Purpose::TypeLoad),
    ("System.RuntimeTypeHandle.Instantiate", Purpose::TypeLoad),
    ("System.ModuleHandle.ResolveType", Purpose::TypeLoad),
    ("System.Runtime.EH.", Purpose::Exception),
    ("System.Runtime.StackFrameIterator.", Purpose::Exception),
];

/// Names of the runtime's own threads, as far as Linux keeps them (15 bytes).
const THREADS: [(&str, Purpose); 2] = [(".NET Server GC", Purpose::Gc), (".NET BGC", Purpose::Gc)];

/// Files of the C++ unwinder. The runtime throws its exceptions through them.
const UNWINDERS: [&str; 2] = ["libgcc_s.so", "libunwind.so"];

/// The library of C++ has much else, for example `operator new`.
const CPP: &str = "libstdc++.so";
/// Beginnings of the names of its functions for exceptions (Itanium C++ ABI).
const CPP_EXCEPTIONS: [&str; 7] = [
    "__cxa_allocate_exception",
    "__cxa_begin_catch",
    "__cxa_end_catch",
    "__cxa_free_exception",
    "__cxa_rethrow",
    "__cxa_throw",
    "__gxx_personality",
];

fn unwinds(module: &str, name: &str) -> bool {
    let of_cpp = || CPP_EXCEPTIONS.iter().any(|start| name.starts_with(start));
    UNWINDERS.iter().any(|known| module.starts_with(known)) || (module.starts_with(CPP) && of_cpp())
}

/// Evidence, the strongest first: a mark or the thread; the unwinder; the file of a frame; the managed caller.
const BY_MARK: u8 = 0;
const BY_UNWINDER: u8 = 1;
const BY_FILE: u8 = 2;
const BY_CALLER: u8 = 3;

/// What is known of a run up to one of its frames.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// The stack that calls the run, in the new profile.
    caller: Option<StackIx>,
    purpose: Option<(u8, Purpose)>,
    begins_thread: bool,
}

impl Run {
    fn learn(&mut self, strength: u8, purpose: Purpose) {
        if self.purpose.is_none_or(|(known, _)| strength < known) {
            self.purpose = Some((strength, purpose));
        }
    }

    /// The name of the run that ends before `next`.
    fn name(&self, next: Option<FrameKind>) -> &'static str {
        match self.purpose {
            Some((_, purpose)) => purpose.name(),
            None if self.begins_thread && next == Some(FrameKind::Managed) => THREAD_START,
            None => RUNTIME,
        }
    }
}

/// A node of the old profile in the new one.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// A frame that stays, and whether it is managed or called by managed code. The callers of a cut stack can be managed.
    Kept(StackIx, bool),
    /// In a run.
    In(Run),
}

/// What a frame of the old profile means for runs.
#[derive(Debug, Clone, Copy)]
enum Role {
    /// Neither in a run, nor does it say anything about one.
    Other,
    /// A frame of the runtime without a symbol, with what its file says.
    Runtime(Option<Purpose>),
    /// Part of a run that has begun, with what it says.
    Unwinder,
    /// A mark for the missing outer frames: what follows does not begin the thread.
    Cut,
    /// A mark of the recorder: it begins a run.
    Mark(Purpose),
    /// A managed method that calls the runtime for this purpose.
    Caller(Purpose),
}

impl Role {
    fn of(profile: &Profile, frame: &Frame) -> Role {
        let (name, module) = (profile.text(frame.name), frame.module.map(|module| profile.text(module)));
        match (frame.kind, module) {
            (FrameKind::Synthetic, _) => {
                let marks = [Purpose::Gc, Purpose::LockWait];
                if is_cut(name) {
                    return Role::Cut;
                }
                marks.into_iter().find(|mark| mark.name() == name).map_or(Role::Other, Role::Mark)
            }
            (FrameKind::Managed, _) => {
                let listed = CALLERS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, purpose)| *purpose);
                let locks = || Wait::of(profile, frame).is_some_and(Wait::is_for_lock) && name.contains("Enter");
                listed.or_else(|| locks().then_some(Purpose::LockWait)).map_or(Role::Other, Role::Caller)
            }
            (FrameKind::Native, Some(module)) if unwinds(module, name) => Role::Unwinder,
            (FrameKind::Native, Some(module)) if CodeKind::of(profile, frame) == CodeKind::Runtime => {
                let has_symbol = !name.strip_prefix(module).is_some_and(|rest| rest.starts_with("+0x"));
                let purpose = match module {
                    _ if module.starts_with("libclrjit") => Some(Purpose::Jit),
                    _ if module.starts_with("libclrgc") => Some(Purpose::Gc),
                    _ => None,
                };
                if has_symbol { Role::Other } else { Role::Runtime(purpose) }
            }
            _ => Role::Other,
        }
    }
}

/// The profile with each run of runtime frames without symbols as one frame. Takes the profile apart: a recording can fill the memory that a
/// command may use, and then there is none for a second one.
pub fn fold_runtime_frames(profile: Profile) -> Profile {
    fold(profile, false)
}

/// The same, and the profile keeps the stacks with every frame: see [`Profile::expanded_samples`].
pub fn fold_runtime_frames_and_keep_them(profile: Profile) -> Profile {
    fold(profile, true)
}

fn fold(mut profile: Profile, keeps: bool) -> Profile {
    let roles = roles(&profile);
    if !roles.iter().any(|role| matches!(role, Role::Runtime(_) | Role::Mark(_))) {
        return profile;
    }
    let frames = mem::take(&mut profile.frames).into_values();
    let stacks = mem::take(&mut profile.stacks).into_values();
    let mut samples = mem::take(&mut profile.samples);
    let mut thrown = mem::take(&mut profile.thrown);
    let purpose_of = |name: &str| THREADS.iter().find(|(known, _)| *known == name).map(|(_, purpose)| *purpose);
    let threads: Vec<_> = profile.threads().iter().map(|thread| purpose_of(&thread.name)).collect();
    let copies = vec![None; frames.len()];
    let mut fold = Fold { new: profile, copies, frames, stacks, roles };
    let expanded: Vec<StackIx> = if keeps { samples.iter().map(|sample| sample.stack).collect() } else { Vec::new() };
    for purpose in [None, Some(Purpose::Gc)] {
        let of_these = |sample: &&mut Sample| threads[sample.thread.0 as usize] == purpose;
        let mut of_these = samples.iter_mut().filter(of_these).peekable();
        let mut of_exceptions = thrown.iter_mut().filter(|_| purpose.is_none()).peekable();
        if of_these.peek().is_none() && of_exceptions.peek().is_none() {
            continue;
        }
        let places = fold.places(purpose);
        let stacks = of_these.map(|sample| &mut sample.stack).chain(of_exceptions.map(|thrown| &mut thrown.stack));
        for stack in stacks {
            *stack = match places[stack.0 as usize] {
                Place::Kept(stack, _) => stack,
                Place::In(run) => fold.end(&run, None),
            };
        }
    }
    fold.new.thrown = thrown;
    fold.new.expanded = fold.all_copied(&expanded);
    fold.new.samples = samples;
    fold.new
}

/// The role of each frame. Frames of one name have one role: names can be long.
fn roles(profile: &Profile) -> Vec<Role> {
    let mut known = NumberMap::default();
    let role_of = |frame: &Frame| {
        *known.entry((frame.kind, frame.name, frame.module)).or_insert_with(|| Role::of(profile, frame))
    };
    profile.frames().iter().map(role_of).collect()
}

struct Fold {
    /// Without stacks and frames at first.
    new: Profile,
    /// Those of the old profile.
    frames: Vec<Frame>,
    stacks: Vec<StackNode>,
    /// Frames of the old profile in the new one, as far as they are needed.
    copies: Vec<Option<FrameIx>>,
    /// Of each frame of the old profile.
    roles: Vec<Role>,
}

impl Fold {
    /// Where each node of the old profile is in the new one, in their order. `purpose` is that of the thread.
    fn places(&mut self, purpose: Option<Purpose>) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::with_capacity(self.stacks.len());
        for node in 0..self.stacks.len() {
            let StackNode { parent, frame } = self.stacks[node];
            let caller = parent.map(|parent| parent.0 as usize);
            let caller = caller.map(|caller| (places[caller], self.stacks[caller].frame));
            let place = self.place(frame, caller, purpose);
            places.push(place);
        }
        places
    }

    fn place(&mut self, frame: FrameIx, caller: Option<(Place, FrameIx)>, thread: Option<Purpose>) -> Place {
        let mut run = match caller {
            None => Run { begins_thread: true, ..Run::default() },
            Some((Place::In(run), _)) => run,
            Some((Place::Kept(stack, is_below_managed), frame)) => {
                let mut run = Run { caller: Some(stack), begins_thread: !is_below_managed, ..Run::default() };
                if let Role::Caller(purpose) = self.roles[frame.0 as usize] {
                    run.learn(BY_CALLER, purpose);
                }
                run
            }
        };
        if let Some(purpose) = thread {
            run.learn(BY_MARK, purpose);
        }
        match self.roles[frame.0 as usize] {
            Role::Mark(mark) => run.learn(BY_MARK, mark),
            Role::Runtime(Some(purpose)) => run.learn(BY_FILE, purpose),
            Role::Runtime(None) => {}
            Role::Unwinder if matches!(caller, Some((Place::In(_), _))) => run.learn(BY_UNWINDER, Purpose::Exception),
            _ => return self.keep(frame, caller.map(|(place, _)| place)),
        }
        Place::In(run)
    }

    fn keep(&mut self, frame: FrameIx, caller: Option<Place>) -> Place {
        let kind = self.frames[frame.0 as usize].kind;
        let is_managed = kind == FrameKind::Managed || matches!(self.roles[frame.0 as usize], Role::Cut);
        let (caller, is_below_managed) = match caller {
            None => (None, false),
            Some(Place::Kept(stack, is_below_managed)) => (Some(stack), is_below_managed),
            Some(Place::In(run)) => (Some(self.end(&run, Some(kind))), !run.begins_thread),
        };
        let frame = self.copied(frame);
        Place::Kept(self.new.stack(caller, frame), is_managed || is_below_managed)
    }

    /// The stack of a run that ends before a frame of this kind.
    fn end(&mut self, run: &Run, next: Option<FrameKind>) -> StackIx {
        let frame = self.new.marker(run.name(next));
        self.new.stack(run.caller, frame)
    }

    /// These stacks of the old profile in the new one, with every frame.
    fn all_copied(&mut self, stacks: &[StackIx]) -> Vec<StackIx> {
        let mut copies: Vec<Option<StackIx>> = vec![None; if stacks.is_empty() { 0 } else { self.stacks.len() }];
        let mut path = Vec::new();
        let copy = |stack: &StackIx| {
            let mut next = Some(*stack);
            while let Some(stack) = next.filter(|stack| copies[stack.0 as usize].is_none()) {
                path.push(stack);
                next = self.stacks[stack.0 as usize].parent;
            }
            let mut copied = next.and_then(|stack| copies[stack.0 as usize]);
            while let Some(stack) = path.pop() {
                let frame = self.copied(self.stacks[stack.0 as usize].frame);
                copied = Some(self.new.stack(copied, frame));
                copies[stack.0 as usize] = copied;
            }
            // A stack has a frame.
            copied.unwrap_or(*stack)
        };
        stacks.iter().map(copy).collect()
    }

    /// A frame of the old profile in the new one.
    fn copied(&mut self, frame: FrameIx) -> FrameIx {
        let index = frame.0 as usize;
        *self.copies[index].get_or_insert_with(|| self.new.frame(self.frames[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{State, Thread};

    fn profile(thread: &str, stack: &[(FrameKind, &str, &str)]) -> Profile {
        let mut profile = Profile::default();
        let thread = profile.add_thread(Thread { id: 1, name: thread.to_owned() });
        let mut frames = Vec::new();
        for (kind, module, name) in stack {
            let (name, module) = (profile.string(name), (!module.is_empty()).then(|| profile.string(module)));
            frames.push(profile.frame(Frame { kind: *kind, name, module, file: None, line: None }));
        }
        let stack = profile.stack_from_root(frames).expect("frames");
        profile.add_sample(Sample { time: 0, thread, stack, weight: 1, state: State::Running });
        profile
    }

    /// The names of the folded stack, from the root. Frames: `app Name`, `clr`, `jit`, `gcc`, `c name`, `[mark]`.
    fn folded(thread: &str, stack: &str) -> String {
        let frames: Vec<(FrameKind, &str, &str)> = stack
            .split(", ")
            .map(|frame| match frame.split_once(' ').unwrap_or((frame, "")) {
                ("app", name) => (FrameKind::Managed, "App.dll", name),
                ("clr", "") => (FrameKind::Native, "libcoreclr.so", "libcoreclr.so+0x12"),
                ("clr", name) => (FrameKind::Native, "libcoreclr.so", name),
                ("jit", _) => (FrameKind::Native, "libclrjit.so", "libclrjit.so+0x7"),
                ("c++", name) => (FrameKind::Native, "libstdc++.so.6", name),
                ("gcc", name) => (FrameKind::Native, "libgcc_s.so.1", name),
                ("c", name) => (FrameKind::Native, "libc.so.6", name),
                _ => (FrameKind::Synthetic, "", frame),
            })
            .collect();
        let folded = fold_runtime_frames(profile(thread, &frames));
        let stack = folded.samples()[0].stack;
        let mut names: Vec<&str> = folded.walk(stack).map(|frame| folded.text(folded.frame_at(frame).name)).collect();
        names.reverse();
        names.join(", ")
    }

    #[test]
    fn a_run_is_called_by_its_evidence_and_without_any_it_is_the_runtime() {
        let cases = [
            ("app A, clr, clr", "A, [runtime]"),
            ("app A, clr, clr, jit, clr, clr", "A, [JIT]"),
            ("app A, clr, gcc _Unwind_RaiseException, clr", "A, [exception: unwind]"),
            ("app A, gcc f", "A, f"),
            ("app A, clr, c++ __cxa_throw, gcc _Unwind_RaiseException, clr", "A, [exception: unwind]"),
            (
                "app A, clr, jit, clr, c++ operator new(unsigned long), c malloc",
                "A, [JIT], operator new(unsigned long), malloc",
            ),
            ("app A, [GC], clr, clr, c madvise", "A, [GC], madvise"),
            ("app A, [GC], clr, jit", "A, [GC]"),
            ("app A, [lock wait], clr, c futex", "A, [lock wait], futex"),
            ("app System.Threading.Monitor.Enter(object), clr", "System.Threading.Monitor.Enter(object), [lock wait]"),
            ("app System.Threading.Monitor.Exit(object), clr", "System.Threading.Monitor.Exit(object), [runtime]"),
            (
                "app System.Threading.Monitor.PulseAll(object), clr",
                "System.Threading.Monitor.PulseAll(object), [runtime]",
            ),
            ("app System.GC.AllocateNewArray(int), clr", "System.GC.AllocateNewArray(int), [allocation]"),
            ("app System.Runtime.EH.RhThrowEx(), clr, jit", "System.Runtime.EH.RhThrowEx(), [JIT]"),
            ("c clone, clr, clr, app A, clr, app B, clr", "clone, [thread start], A, [runtime], B, [runtime]"),
            ("[truncated], clr, app A, clr", "[truncated], [runtime], A, [runtime]"),
            ("[incomplete stack], c clone, clr, app A", "[incomplete stack], clone, [runtime], A"),
            ("app A, c callback, clr, app B", "A, callback, [runtime], B"),
            ("c clone, clr, c poll", "clone, [runtime], poll"),
            ("app A, clr JIT_New, clr", "A, JIT_New, [runtime]"),
            ("app A, clr JIT_New, clr gc_heap::try_allocate", "A, JIT_New, gc_heap::try_allocate"),
            (
                "app A, [GC], clr gc_heap::mark_phase, clr, c madvise",
                "A, [GC], gc_heap::mark_phase, [runtime], madvise",
            ),
            ("c clone, clr ThreadNative::KickOffThread, app A", "clone, ThreadNative::KickOffThread, A"),
            ("clr", "[runtime]"),
        ];
        for (stack, expected) in cases {
            assert_eq!(folded("", stack), expected, "{stack}");
        }
        assert_eq!(folded(".NET Server GC", "c clone, clr, clr, c futex"), "clone, [GC], futex");
        assert_eq!(folded(".NET Server G", "c clone, clr"), "clone, [runtime]");
    }

    #[test]
    fn a_profile_that_keeps_them_has_the_stacks_of_both() {
        let clr = |name| (FrameKind::Native, "libcoreclr.so", name);
        let app = |name| (FrameKind::Managed, "App.dll", name);
        let mut before = profile("main", &[app("A"), clr("libcoreclr.so+0x1"), clr("libcoreclr.so+0x2")]);
        for stack in [&[app("A"), clr("libcoreclr.so+0x1"), clr("libcoreclr.so+0x3")][..], &[app("A")]] {
            let mut frames = Vec::new();
            for (kind, module, name) in stack {
                let (name, module) = (before.string(name), Some(before.string(module)));
                frames.push(before.frame(Frame { kind: *kind, name, module, file: None, line: None }));
            }
            let stack = before.stack_from_root(frames).expect("frames");
            before.add_sample(Sample { stack, ..before.samples()[0] });
        }
        let names = |profile: &Profile, stack| {
            profile.walk(stack).map(|frame| profile.text(profile.frame_at(frame).name).to_owned()).collect::<Vec<_>>()
        };
        let kept = fold_runtime_frames_and_keep_them(before.clone());
        let expanded: Vec<_> = kept.expanded_samples().map(|(_, stack)| names(&kept, stack)).collect();
        assert_eq!(expanded, before.samples().iter().map(|sample| names(&before, sample.stack)).collect::<Vec<_>>());
        let folded = fold_runtime_frames(before);
        let stacks = |profile: &Profile| -> Vec<_> {
            profile.samples().iter().map(|sample| names(profile, sample.stack)).collect()
        };
        assert_eq!(stacks(&kept), stacks(&folded));
        assert_eq!(stacks(&folded)[0], ["[runtime]", "A"]);
        // Without them, only the folded stacks are there.
        assert!(folded.expanded_samples().all(|(sample, stack)| sample.stack == stack));
        assert_eq!((folded.stacks().len(), kept.stacks().len()), (2, 5));
    }

    #[test]
    fn everything_but_the_stacks_stays() {
        let frame = |name| (FrameKind::Native, "libcoreclr.so", name);
        let mut before = profile("main", &[frame("libcoreclr.so+0x1"), frame("libcoreclr.so+0x2")]);
        before.meta.application = "shop".to_owned();
        before.loss.delivered = 7;
        let after = fold_runtime_frames(before.clone());
        let same = |profile: &Profile| {
            (profile.meta.clone(), profile.threads.clone(), profile.loss.clone(), profile.total_weight())
        };
        assert_eq!(same(&after), same(&before));
        assert_eq!((after.frames().len(), after.stacks().len()), (1, 1));
    }
}
