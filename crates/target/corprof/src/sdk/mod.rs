//! Write a profiler by implementing one trait: a guide for authors.
//!
//! # Purpose
//! You implement [`Profiler`], and [`export_profiler!`](crate::export_profiler) makes a library of it.
//! The SDK implements the class factory, vtables, reference counts, panic handling, threads, detach and unload.
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
//! Complete profilers are in `crates/target/corprof/examples`: a module logger, a sampler, a GC watcher.
//! Any client of the diagnostics port can attach one: `AttachProfiler` with the library's path, the class id and the client data.
//!
//! # From the first step to the last
//! | step | what you get | on which thread |
//! |---|---|---|
//! | the runtime calls the class factory | nothing: the factory is inert, because a refused attach leaks its object | diagnostics |
//! | [`attach`](Profiler::attach), or [`start`](Profiler::start) at startup | [`Beginning`]: lookups | diagnostics, or the main one |
//! | [`events`](Profiler::events), and callbacks begin | [`Runtime`]: lookups, event masks | any of the runtime's, several at a time |
//! | [`attach_complete`](Profiler::attach_complete) | [`Session`]: enumerations too | diagnostics |
//! | [`run`](Profiler::run) | [`Session`]: threads, EventPipe sessions, suspensions, GCs | its own, the *worker* |
//! | `run` returns: the SDK closes every resource | | worker |
//! | the SDK closes the callback guard once no callback is inside, and requests the detach | | *detach thread* |
//! | on failure: [`detach_failed`](Profiler::detach_failed) | the session, its event mask restored; a [`DetachError`] | a new worker |
//! | on success: [`detached`](Profiler::detached) | `self`, and no runtime | detach thread |
//! | the detach thread ends | | |
//!
//! At that end the C library releases its reference on the library, with no code of ours on the stack.
//! The runtime releases its own, and the library is unmapped.
//!
//! # Values and units
//! - An id ([`Id`]) is an address inside one runtime, `Copy`, and zero for none. It is valid until the callback that announces its
//!   unload returns. Tokens are metadata rows, and mean something only together with their module.
//! - Text is UTF-16 in callbacks (`&[u16]`, no zero at the end) and `String` in results. Addresses and sizes are bytes.
//! - Time is `core::time::Duration`. The runtime itself takes milliseconds, and never sleeps less than 300 ms before a detach.
//! - `&Runtime`, `&Session` and `&Beginning` are lent for the call; what they return borrows from them.
//!
//! # Errors
//! - [`HResult`](crate::HResult): the runtime's error code, with its name and meaning.
//!   `INFO12_REQUIRED` and the like: the runtime is too old.
//! - [`NotStarted`], [`CloseError`], [`DetachError`]: their `Display` says what happened, why, and what to do.
//! - Rejected items are counted: [`Mailbox::lost`], [`DetachSummary::rejected_callbacks`]. Events missed while the event mask was clear
//!   cannot be counted: [`DetachError::has_missed_callbacks`] reports them.
//! - The SDK catches a panic in a callback and calls [`on_panic`](Profiler::on_panic), which by default requests the detach.
//!   The library replaces the standard panic hook, which would print to the target's standard error and pin the library.
//!
//! # Design constraints
//! - The target has two more threads while attached. The SDK waits at most 60 s for ProfilerAttachComplete.
//! - In callbacks, do not touch thread-locals with destructors: the runtime's threads live on, and each would pin the library.
//!   `std::thread::current` and `std::sync::mpsc` have them; `Mutex` and `HashMap` do not. `run` and your own threads may use them.
//! - A Rust library has thread-local storage. Loading or unloading one can, rarely, make glibc on x64 lose another thread's storage
//!   for good. `docs/design/0009-no-thread-local-storage.md` explains it, and how Remora's own library avoids it.
//! - The resource registry knows what you start through [`Session`], and safe code cannot start EventPipe sessions otherwise.
//!   It does **not** know a thread by `std::thread::spawn`, or a child by `std::process::Command`. Start everything that outlives `run`
//!   through the session. `remora lab PROFILER.so` reports a fault otherwise (DET-04).
//! - A failed detach may have missed callbacks: [`DetachError::has_missed_callbacks`]. A [`LiveSet`] then empties itself.
//!   Discard your own stored ids yourself.
//! - A callback must not wait for `run`, or for one of your threads that is ending: both wait for callbacks.
//!   It may wait briefly for a lock, as [`LiveSet`] does.
//!
//! # Supported
//! CoreCLR 3.1 to 10 on 64-bit Linux with glibc. On musl the library stays mapped ([`DetachSummary::unmaps`]).
//!
//! # Rejected
//! - A call for authors that requests the detach: [`Session::request_detach`] takes the session by value, and authors only borrow it.
//!   Inside a callback, [`Runtime::detach`] leaves the request to the detach thread: .NET Core 3.1 refuses it in callbacks of a GC.
//! - Reporting ProfilerDetachSucceeded to the author: the author's profiler is gone by then.
//! - Sharing state between two runtimes: each has its own detach thread, callback guard and resource registry.
//!
//! # Sources
//! Facts about the runtime are from its source and tests (`src/coreclr/vm/profdetach.cpp`, `src/coreclr/vm/proftoeeinterfaceimpl.cpp`,
//! `src/coreclr/vm/profilinghelper.cpp` in dotnet/runtime), and were measured on 3.1.23, 8.0.4, 9.0.7 and 10.0.12.
//! The design and its reasons: `docs/design/0006-corprof-sdk.md`.

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
mod shared_profiler;
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
