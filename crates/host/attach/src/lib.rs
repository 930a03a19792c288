//! Finds .NET processes, speaks the diagnostics protocol, places the library, attaches.
//!
//! # Purpose
//! All steps outside the target before the first sample. It finds processes that run .NET and can be attached to.
//! It places the library and our socket where the target can reach them. It requests the runtime to load the library.
//!
//! # Design constraints
//! - Finding and checking read only `/proc` and files. Nothing is sent to a target before [`ask`] or [`attach`].
//! - The protocol ([`codec`]) does no input or output; [`client`] drives it with time limits for whole exchanges.
//! - Paths of the target are walked in the target's view and used through descriptors: we may be root, and the target may be hostile.
//!
//! # Supported
//! CoreCLR 3.0 and later on Linux: shared, self-contained, single-file, extracted, hosted.
//! Targets in other mount and pid namespaces, in a chroot, of other users (as root).
//!
//! # Rejected
//! NativeAOT, Mono, .NET Core before 3.0: recognised, and refused with the reason.

#![forbid(unsafe_code)]

mod attach;
mod check;
pub mod client;
pub mod codec;
mod container;
mod discovery;
mod elf;
mod error;
mod foreign;
pub mod hresult;
mod libc_kind;
mod memory;
pub mod placement;
pub mod proc;
mod process;
mod program;
mod remedy;
mod requirements;
mod reverse;
mod rights;
mod runtime;
mod session;
mod socket;
mod status;
mod survey;
mod target;
#[cfg(test)]
mod tests;
mod view;
mod windowed;

pub use attach::{Asked, Attach, ask, attach, attach_when_ready, begin_attach};
pub use check::{Check, Subject, check, check_address_space, check_answer, check_pid, loaded_profilers};
pub use codec::{EventPipeConfig, Guid, ProcessInfo, Provider, Rundown, Stacks};
pub use container::{Container, read_any_group};
pub use discovery::{descendants, descendants_in, find, find_in, processes, processes_in};
pub use elf::{Architecture, GlibcVersion, read_any_elf};
pub use error::{Error, Reason};
pub use foreign::open_named_file;
pub use hresult::HResult;
pub use libc_kind::Libc;
pub use memory::{Bound, Room, own_room};
pub use placement::{
    MUSL_SUFFIX, Placed, STAYING_SUFFIX, Swept, TRACER_SUFFIX, place_library, place_library_that_may_stay,
    place_socket, place_tracer, sweep, sweep_unused,
};
pub use process::{Process, ends_soon};
pub use program::{Fate, Program};
pub use remedy::{ProfilerFix, Remedy};
pub use remora_symbols::{MapEntry, TargetPath, TargetText};
pub use requirements::{Requirements, Slot};
pub use reverse::{PORTS_VARIABLE, ReversePort, WaitingRuntime};
pub use rights::Rights;
pub use runtime::{Deployment, Runtime, RuntimeKind, Version};
pub use session::EventPipeSession;
pub use socket::{DiagnosticsSocket, peer};
pub use target::Target;
pub use windowed::Limit;
