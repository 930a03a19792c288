//! Write a profiler by implementing one trait.

mod adapter;
mod catch_up;
mod common;
mod export;
mod gate;
mod id;
mod leaving;
mod policy;
mod register;
mod resource;
mod session;
#[rustfmt::skip]
mod slots;
mod thread;

#[doc(hidden)]
pub use adapter::create;
pub use catch_up::Roll;
#[doc(hidden)]
pub use export::class_id;
pub use id::{Assembly, Class, Function, Id, Module, Object, Thread};
pub use leaving::{Farewell, Refusal, Sealed, StillAlive, Then};
pub use policy::{Places, Role, SideBySide};
pub use register::{Deactivated, Entrance, Leaving, StillOpen, Ticket};
pub use resource::{CloseHook, EntranceKind, SignalHandler};
pub use session::{
    AssemblyFacts, Beginning, ClassFacts, Events, FunctionFacts, ModuleFacts, NotStarted, Runtime, Session, Standing,
};
pub use slots::Profiler;
