//! The author's profiler as callbacks and the detach thread share it: behind the callback guard, with its session.

use super::callback_guard::CallbackGuard;
use super::common::Common;
use super::session::{Door, Events, Session};
use super::slots::Profiler;
use crate::HResult;
use std::sync::Arc;

/// What the callback guard lends.
pub(super) struct Living<P> {
    pub profiler: P,
    pub session: Session<'static>,
}

pub(super) struct Core<P> {
    pub gate: CallbackGuard<Living<P>>,
    pub common: Arc<Common>,
}

impl<P: Profiler<'static>> Core<P> {
    pub fn ask_for_callbacks(&self, wants: Events) -> Result<(), HResult> {
        let living = self.gate.enter().ok_or(HResult::E_UNEXPECTED)?;
        living.session.set_events(wants)
    }
}

impl<P: Profiler<'static>> Door for Core<P> {
    fn with_session(&self, work: &mut dyn FnMut(&Session<'static>)) {
        if let Some(living) = self.gate.enter() {
            work(&living.session);
        }
    }
}
