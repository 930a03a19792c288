//! One frame for a run of runtime frames without symbols: it says what is known of the run.
//!
//! The runtime's ELF files have no symbols, so that its frames are called `libcoreclr.so+0x3a120`. Their files, the managed method that
//! calls them, the thread, and marks of the recorder ([`crate::GC`], [`crate::LOCK_WAIT`]) show the purpose of most runs. Nothing is
//! guessed: a run without such evidence is called `[runtime]`. A frame with a symbol, mostly of a debug file, is shown by it, and ends the
//! run before it.

use crate::runtime_names::{ALLOCATION, EXCEPTION, JIT, RUNTIME, THREAD_START, TYPE_LOAD};
use crate::{CodeKind, Frame, FrameIx, FrameKind, GC, LOCK_WAIT, Profile, StackIx, Wait};
use std::collections::HashMap;

/// Beginnings of the names of managed methods, with the purpose of the runtime's code that they call.
const CALLERS: [(&str, &str); 21] = [
    ("System.GC.Collect", GC),
    ("System.GC._Collect", GC),
    ("System.GC.Allocate", ALLOCATION),
    ("string.FastAllocateString", ALLOCATION),
    ("object.MemberwiseClone", ALLOCATION),
    ("System.Array.CreateInstance", ALLOCATION),
    ("System.Array.InternalCreate", ALLOCATION),
    ("System.Runtime.CompilerServices.RuntimeHelpers.GetUninitializedObject", ALLOCATION),
    ("System.Runtime.CompilerServices.RuntimeHelpers.AllocateUninitializedClone", ALLOCATION),
    ("System.Runtime.CompilerServices.RuntimeHelpers.RunClassConstructor", TYPE_LOAD),
    ("System.Runtime.CompilerServices.InitHelpers.", TYPE_LOAD),
    ("System.Runtime.CompilerServices.StaticsHelpers.", TYPE_LOAD),
    ("System.Runtime.CompilerServices.GenericsHelpers.", TYPE_LOAD),
    ("System.Runtime.Loader.AssemblyLoadContext.", TYPE_LOAD),
    ("System.Reflection.RuntimeAssembly.InternalLoad", TYPE_LOAD),
    ("System.Reflection.RuntimeAssembly.GetType", TYPE_LOAD),
    ("System.RuntimeTypeHandle.GetTypeByName", TYPE_LOAD),
    ("System.RuntimeTypeHandle.Instantiate", TYPE_LOAD),
    ("System.ModuleHandle.ResolveType", TYPE_LOAD),
    ("System.Runtime.EH.", EXCEPTION),
    ("System.Runtime.StackFrameIterator.", EXCEPTION),
];

/// Names of the runtime's own threads, as far as Linux keeps them (15 bytes).
const THREADS: [(&str, &str); 2] = [(".NET Server GC", GC), (".NET BGC", GC)];

/// Files of the C++ unwinder. The runtime throws its exceptions through them.
const UNWINDERS: [&str; 3] = ["libgcc_s.so", "libstdc++.so", "libunwind.so"];

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
    /// With the strength of its evidence.
    purpose: Option<(u8, &'static str)>,
    begins_thread: bool,
}

impl Run {
    fn learn(&mut self, strength: u8, purpose: &'static str) {
        if self.purpose.is_none_or(|(known, _)| strength < known) {
            self.purpose = Some((strength, purpose));
        }
    }

    /// The name of the run that ends before `next`.
    fn name(&self, next: Option<FrameKind>) -> &'static str {
        match self.purpose {
            Some((_, purpose)) => purpose,
            None if self.begins_thread && next == Some(FrameKind::Managed) => THREAD_START,
            None => RUNTIME,
        }
    }
}

/// A node of the old profile in the new one.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// A frame that stays, and whether it is managed or called by managed code.
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
    Runtime(Option<&'static str>),
    /// Part of a run that has begun, with what it says.
    Unwinder,
    /// A mark of the recorder: it begins a run.
    Mark(&'static str),
    /// A managed method that calls the runtime for this purpose.
    Caller(&'static str),
}

impl Role {
    fn of(profile: &Profile, frame: &Frame) -> Role {
        let (name, module) = (profile.text(frame.name), frame.module.map(|module| profile.text(module)));
        match (frame.kind, module) {
            (FrameKind::Synthetic, _) => {
                [GC, LOCK_WAIT].into_iter().find(|mark| *mark == name).map_or(Role::Other, Role::Mark)
            }
            (FrameKind::Managed, _) => {
                let listed = CALLERS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, purpose)| *purpose);
                let locks = || Wait::of(profile, frame) == Some(Wait::Lock) && name.contains("Enter");
                listed.or_else(|| locks().then_some(LOCK_WAIT)).map_or(Role::Other, Role::Caller)
            }
            (FrameKind::Native, Some(module)) if UNWINDERS.iter().any(|known| module.starts_with(known)) => {
                Role::Unwinder
            }
            (FrameKind::Native, Some(module)) if CodeKind::of(profile, frame) == CodeKind::Runtime => {
                let has_symbol = !name.strip_prefix(module).is_some_and(|rest| rest.starts_with("+0x"));
                let purpose = match module {
                    _ if module.starts_with("libclrjit") => Some(JIT),
                    _ if module.starts_with("libclrgc") => Some(GC),
                    _ => None,
                };
                if has_symbol { Role::Other } else { Role::Runtime(purpose) }
            }
            _ => Role::Other,
        }
    }
}

/// The profile with each run of runtime frames without symbols as one frame.
pub fn fold_runtime_frames(profile: &Profile) -> Profile {
    let mut samples = profile.samples.clone();
    let roles = profile.frames().iter().map(|frame| Role::of(profile, frame)).collect();
    let new = Profile {
        meta: profile.meta.clone(),
        threads: profile.threads.clone(),
        scales: profile.scales.clone(),
        loss: profile.loss.clone(),
        ..Profile::default()
    };
    let mut fold = Fold { old: profile, new, frames: vec![None; profile.frames().len()], roles };
    let purpose_of = |name: &str| THREADS.iter().find(|(known, _)| *known == name).map(|(_, purpose)| *purpose);
    let of_threads: Vec<_> = profile.threads().iter().map(|thread| purpose_of(&thread.name)).collect();
    let mut places: HashMap<Option<&'static str>, Vec<Place>> = HashMap::new();
    for sample in &mut samples {
        let purpose = of_threads[sample.thread.0 as usize];
        let places = places.entry(purpose).or_insert_with(|| fold.places(purpose));
        sample.stack = match places[sample.stack.0 as usize] {
            Place::Kept(stack, _) => stack,
            Place::In(run) => fold.end(&run, None),
        };
    }
    fold.new.samples = samples;
    fold.new
}

struct Fold<'a> {
    old: &'a Profile,
    new: Profile,
    /// Frames of the old profile in the new one, as far as they are needed.
    frames: Vec<Option<FrameIx>>,
    /// Of each frame of the old profile.
    roles: Vec<Role>,
}

impl Fold<'_> {
    /// Where each node of the old profile is in the new one, in their order. `purpose` is that of the thread.
    fn places(&mut self, purpose: Option<&'static str>) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::with_capacity(self.old.stacks().len());
        for node in self.old.stacks() {
            let caller = node.parent.map(|parent| (places[parent.0 as usize], self.old.stack_at(parent).frame));
            let place = self.place(node.frame, caller, purpose);
            places.push(place);
        }
        places
    }

    fn place(&mut self, frame: FrameIx, caller: Option<(Place, FrameIx)>, thread: Option<&'static str>) -> Place {
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
            Role::Unwinder if matches!(caller, Some((Place::In(_), _))) => run.learn(BY_UNWINDER, EXCEPTION),
            _ => return self.keep(frame, caller.map(|(place, _)| place)),
        }
        Place::In(run)
    }

    fn keep(&mut self, frame: FrameIx, caller: Option<Place>) -> Place {
        let kind = self.old.frame_at(frame).kind;
        let is_managed = kind == FrameKind::Managed;
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

    /// A frame of the old profile in the new one.
    fn copied(&mut self, frame: FrameIx) -> FrameIx {
        if let Some(known) = self.frames[frame.0 as usize] {
            return known;
        }
        let old = self.old.frame_at(frame);
        let mut string = |text| self.new.string(self.old.text(text));
        let copy =
            Frame { name: string(old.name), module: old.module.map(&mut string), file: old.file.map(string), ..*old };
        let index = self.new.frame(copy);
        self.frames[frame.0 as usize] = Some(index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sample, State, Thread};

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
                ("gcc", name) => (FrameKind::Native, "libgcc_s.so.1", name),
                ("c", name) => (FrameKind::Native, "libc.so.6", name),
                _ => (FrameKind::Synthetic, "", frame),
            })
            .collect();
        let folded = fold_runtime_frames(&profile(thread, &frames));
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
    fn everything_but_the_stacks_stays() {
        let frame = |name| (FrameKind::Native, "libcoreclr.so", name);
        let mut before = profile("main", &[frame("libcoreclr.so+0x1"), frame("libcoreclr.so+0x2")]);
        before.meta.application = "shop".to_owned();
        before.loss.delivered = 7;
        let after = fold_runtime_frames(&before);
        let same = |profile: &Profile| {
            (profile.meta.clone(), profile.threads.clone(), profile.loss.clone(), profile.total_weight())
        };
        assert_eq!(same(&after), same(&before));
        assert_eq!((after.frames().len(), after.stacks().len()), (1, 1));
    }
}
