//! The runtime's copy of the client data, until InitializeForAttach has returned (contract ATT-11).

use crate::lab::{monitor, system};
use std::sync::atomic::{AtomicU8, Ordering};

/// Freed client data is overwritten with this byte, so that a late read shows it.
pub const FREED: u8 = 0xDD;

/// The data. The model keeps freed data, to detect late uses.
pub(super) enum ClientData {
    /// Overwritten when it is freed.
    Overwritten(Box<[AtomicU8]>),
    /// In pages of its own, which are closed when it is freed: a late access crashes a run of the laboratory.
    Closed(system::OwnPages),
}

impl ClientData {
    /// A copy of the trigger's data.
    pub(super) fn copy(data: &[u8]) -> ClientData {
        let pages = monitor::is_installed().then(|| system::OwnPages::with(data)).flatten();
        let overwritten = || ClientData::Overwritten(data.iter().map(|byte| AtomicU8::new(*byte)).collect());
        pages.map_or_else(overwritten, ClientData::Closed)
    }

    /// Address and length for InitializeForAttach.
    pub(super) fn lent(&self) -> (*mut u8, u32) {
        match self {
            ClientData::Overwritten(data) => (data.as_ptr().cast_mut().cast(), data.len() as u32),
            ClientData::Closed(pages) => (pages.start(), pages.length() as u32),
        }
    }

    /// InitializeForAttach has returned.
    pub(super) fn free(&self) {
        match self {
            ClientData::Overwritten(data) => data.iter().for_each(|byte| byte.store(FREED, Ordering::SeqCst)),
            ClientData::Closed(pages) => pages.close(),
        }
    }
}
