//! Write a profiler by implementing one trait: a guide for authors.
//!
//! # Purpose
//! [`Profiler`] is what an author writes, [`export_profiler!`](crate::export_profiler) makes a library of it. Class factory, vtables,
//! reference counts, the fence for panics, own threads, the way out and the unmapping are done here.
//!
//! ```
//! use corprof::{sdk::*, *};
//!
//! struct Loads<'rt> {
//!     alive: LiveSet<'rt, ModuleId>,
//! }
//!
//! impl<'rt> Profiler<'rt> for Loads<'rt> {
//!     fn attach(beginning: &Beginning<'rt, Attached>, client_data: &[u8]) -> Result<Self, HResult> {
//!         Ok(Loads { alive: LiveSet::new(beginning) })
//!     }
//!
//!     fn events(&self) -> Events {
//!         AttachMask::MODULE_LOADS.into()
//!     }
//!
//!     fn module_load_finished(&self, runtime: &Runtime<'rt>, module: Module<'rt>, status: HResult) {
//!         self.alive.added(module, || ());
//!     }
//!
//!     fn module_unload_started(&self, runtime: &Runtime<'rt>, module: Module<'rt>) {
//!         self.alive.removed(module);
//!     }
//!
//!     // On a thread of its own; when it returns, the profiler detaches.
//!     fn run(&self, session: &Session<'rt>) {
//!         let caught_up = self.alive.catch_up(|| session.modules(), |module| ());
//!         session.wait_for_detach_request();
//!     }
//! }
//!
//! export_profiler!(Loads<'rt>, clsid = "{3D9F6A0E-5C7B-4B7C-8E44-7B1E0A5C2D10}");
//! ```
//! Whole ones that run are in `crates/target/corprof/examples`: a logger of modules, a sampler, a watcher of collections.
//! Any client of the runtime's diagnostics port attaches one: `AttachProfiler` with the library's path, the class id and the client data.
//!
//! # From the first step to the last
//! | step | what the author has | on which thread |
//! |---|---|---|
//! | the runtime asks for an object | nothing yet: the factory is inert, as a refused attach leaves the object behind | diagnostics |
//! | [`attach`](Profiler::attach), or [`start`](Profiler::start) with the process | [`Beginning`]: look-ups | diagnostics, or the main one |
//! | [`events`](Profiler::events), and callbacks begin | [`Runtime`]: look-ups, other masks | any of the runtime's, several at a time |
//! | [`attach_complete`](Profiler::attach_complete) | [`Session`]: enumerations too | diagnostics |
//! | [`run`](Profiler::run) | [`Session`]: threads, events, stops, collections | its own, the *worker* |
//! | it returns | the register closes every entry, | worker |
//! | | the gate shuts when no callback is inside, and the detach is asked for | *detach thread* |
//! | not everything closes, or the runtime refuses | [`detach_failed`](Profiler::detach_failed): the session again, what was wanted wanted again, and a [`DetachError`] | a new worker |
//! | the runtime accepts | [`detached`](Profiler::detached): `self`, and nothing of the runtime | detach thread |
//! | the detach thread ends | the C library gives back its reference when no code of ours is on the stack; the runtime gives back its own: unmapped | |
//!
//! # Shapes and units
//! - Ids ([`Id`]) are addresses inside the runtime, `Copy`, of one runtime, good until the callback that announces their end returns;
//!   zero where there is none. Tokens are rows of metadata, and mean something only together with their module.
//! - Text is UTF-16 in callbacks (`&[u16]`, no zero at the end) and a `String` in answers. Addresses and sizes are bytes.
//!   Time is `core::time::Duration`; the runtime itself takes milliseconds, and never sleeps less than 300 of them before a detach.
//! - `&Runtime`, `&Session` and `&Beginning` are lent for the call; what was got through them borrows from them.
//!
//! # Errors
//! - [`HResult`](crate::HResult): what the runtime answered, with a name and a sentence. `INFO12_REQUIRED` and its like: it is too old.
//! - [`NotStarted`], [`CloseError`], [`DetachError`]: what happened, why, and what to do, in their `Display`.
//! - What is dropped is counted: [`Mailbox::lost`], [`DetachSummary::rejected_callbacks`]. What came while nothing was wanted cannot be, and is said
//!   to have been missed.
//! - A panic in a callback is answered for, told to [`on_panic`](Profiler::on_panic), and by default makes the profiler leave.
//!   The standard panic hook is replaced in the library: it would print on the target's standard error, and pin the library.
//!
//! # Design constraints
//! - Two threads more in the target while attached, and a wait of 60 s at most for a completion that never comes.
//! - In callbacks, touch no thread-local that has a destructor (`std::thread::current` and the channels of `std::sync::mpsc` do, `Mutex` and `HashMap` do not):
//!   the runtime's threads live on, and each would pin the library. `run` and own threads are free in this.
//! - A library in Rust has thread-local storage. glibc on x64 can lose what another thread keeps while such a library is loaded or
//!   unloaded, seldom and for good: `docs/design/0009-no-thread-local-storage.md` tells how, and how Remora's own library avoids it.
//! - The register knows what was started through [`Session`], and sessions of events cannot be started otherwise by safe code. It does
//!   **not** know a thread by `std::thread::spawn`, or a child by `std::process::Command`: start what outlives `run` through the session.
//!   `remora lab PROFILER.so` convicts a profiler that leaves one (DET-04).
//! - A refused detach may have cost callbacks: [`DetachError::has_missed_callbacks`]. A [`LiveSet`] forgets then; what you keep by ids is yours to forget.
//! - A callback must not wait for `run` or an own thread that leaves: both wait for callbacks. It may wait as [`LiveSet`] does.
//!
//! # Supported
//! CoreCLR 3.1 to 10 on 64-bit Linux with glibc. With musl, which never unmaps, all but the unmapping ([`DetachSummary::unmaps`]).
//!
//! # Rejected
//! - A way to ask for the detach by hand: [`Session::request_detach`] takes the session by value, and authors are only lent it.
//! - Telling the author of ProfilerDetachSucceeded: the profiler is gone by then, and so is everything that it could tell it to.
//! - One road for two runtimes: each has its own detach thread, gate and register.
//!
//! # Sources
//! What is said of the runtime is from its source and tests (`src/coreclr/vm/profdetach.cpp`, `src/coreclr/vm/proftoeeinterfaceimpl.cpp`,
//! `src/coreclr/vm/profilinghelper.cpp` in dotnet/runtime) and was measured on 3.1.23, 8.0.4, 9.0.7 and 10.0.12.
//! Why it is built so: `docs/design/0006-corprof-sdk.md`.

mod adapter;
mod callback_guard;
mod common;
mod detach;
mod export;
mod id;
mod live_set;
mod mailbox;
mod policy;
mod resource;
mod resource_registry;
mod session;
#[rustfmt::skip]
#[path = "../generated/sdk_slots.rs"]
mod slots;
mod thread;

#[doc(hidden)]
pub use adapter::create;
pub use detach::{DetachError, DetachSummary, Detached, OnDetachError, RefusedDetach};
#[doc(hidden)]
pub use export::class_id;
pub use id::{Assembly, Class, Function, Id, Module, Object, Thread};
pub use live_set::LiveSet;
pub use mailbox::Mailbox;
pub use policy::{Role, RuntimeSlots, SideBySide};
pub use resource::{CloseHook, ResourceKind, SignalHandler};
pub use resource_registry::{AllClosed, CloseError, Detaching, OpenResource, ResourceHandle};
pub use session::{
    AssemblyFacts, Beginning, ClassFacts, Events, FunctionFacts, ModuleFacts, NotStarted, Runtime, Session, Suspended,
};
pub use slots::Profiler;
