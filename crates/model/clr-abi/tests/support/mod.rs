//! A runtime that records its calls, and behaves as a test says.
#![allow(dead_code, reason = "each test uses a part")]

#[rustfmt::skip]
pub mod generated;

use core::any::Any;
use corprof::HResult;
use remora_clr_abi::Slot;
use std::sync::Mutex;

/// An event of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Entered(&'static str),
    Called(&'static str),
    Left(&'static str, HResult),
    Panicked(&'static str, String),
    Unknown(&'static str),
}

/// The runtime.
#[derive(Default)]
pub struct Noted {
    pub events: Mutex<Vec<Event>>,
    pub newest: u8,
    /// The one slot that `enter` refuses, with the code.
    pub refused: Option<(&'static str, HResult)>,
    /// The one slot that panics.
    pub panics: Option<&'static str>,
}

impl Noted {
    pub fn of_version(newest: u8) -> Noted {
        Noted { newest, ..Noted::default() }
    }

    /// The events since the last call.
    pub fn events(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock().expect("no panic while locked"))
    }

    fn note(&self, event: Event) {
        self.events.lock().expect("no panic while locked").push(event);
    }

    pub fn entered(&self, slot: Slot) -> Result<(), HResult> {
        self.note(Event::Entered(slot.name));
        match self.refused {
            Some((name, code)) if name == slot.name => Err(code),
            _ => Ok(()),
        }
    }

    pub fn called(&self, name: &'static str) -> HResult {
        self.note(Event::Called(name));
        if self.panics == Some(name) {
            std::panic::panic_any(name);
        }
        HResult::S_FALSE
    }

    pub fn left(&self, slot: Slot, answer: HResult) {
        self.note(Event::Left(slot.name, answer));
    }

    pub fn caught(&self, slot: Slot, payload: Box<dyn Any + Send>) {
        let payload = payload.downcast_ref::<&str>().expect("what `called` threw");
        self.note(Event::Panicked(slot.name, (*payload).to_owned()));
    }

    pub fn counted(&self, slot: Slot) {
        self.note(Event::Unknown(slot.name));
    }
}
