//! What callbacks report about modules and methods, for the session's thread.

use corprof::{Alive, Attached, HResult, Info, ModuleId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static INBOX: Mutex<Inbox> = Mutex::new(Inbox { came: Vec::new(), failed: Vec::new() });
/// Modules that have unloaded, and when. Held while the session's thread looks at a module, so the callback of its unload waits for that. No
/// other callback takes it: the look may need a lock of the runtime that a callback's thread holds.
static GONE: Mutex<BTreeMap<usize, u64>> = Mutex::new(BTreeMap::new());
/// Counts loads and unloads: the id of a module that has unloaded is used again.
static MOMENT: AtomicU64 = AtomicU64::new(0);

/// What callbacks left.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) came: Vec<Loaded>,
    pub(super) failed: Vec<(u32, HResult)>,
}

/// A module, and a moment at which it was loaded.
#[derive(Clone, Copy)]
pub(super) struct Loaded {
    pub(super) module: ModuleId,
    at: u64,
}

fn moment() -> u64 {
    MOMENT.fetch_add(1, Ordering::SeqCst)
}

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn inbox() -> MutexGuard<'static, Inbox> {
    lock(&INBOX)
}

/// A module was loaded.
pub(crate) fn came(module: ModuleId) {
    inbox().came.push(Loaded { module, at: moment() });
}

/// A module unloads. Waits for a look at its metadata: [`with_module`] holds the lock meanwhile.
pub(crate) fn goes(module: ModuleId) {
    inbox().came.retain(|came| came.module != module);
    lock(&GONE).insert(module.0, moment());
}

/// The runtime could not replace a method.
pub(crate) fn method_failed(index: u32, code: HResult) {
    inbox().failed.push((index, code));
}

/// Looks at a module, unless it has unloaded. It cannot unload meanwhile.
pub(super) fn with_module<R>(loaded: Loaded, look: impl FnOnce() -> R) -> Option<R> {
    let gone = lock(&GONE);
    let is_gone = gone.get(&loaded.module.0).is_some_and(|gone| *gone > loaded.at);
    (!is_gone).then(look)
}

/// The modules that are loaded now.
pub(super) fn loaded(info: &Info<Attached, Alive>) -> Result<Vec<Loaded>, HResult> {
    let at = moment();
    let loaded = |module: Result<ModuleId, HResult>| module.ok().map(|module| Loaded { module, at });
    info.enum_modules().map(|modules| modules.filter_map(loaded).collect())
}

/// Empties the inbox, and lets `work` handle what was in it.
pub(super) fn empty_inbox(work: impl FnOnce(Inbox)) {
    let emptied = moment();
    let left = std::mem::take(&mut *inbox());
    work(left);
    // An unload before the inbox was emptied is in no later look.
    lock(&GONE).retain(|_, gone| *gone >= emptied);
}

/// A session ends.
pub(super) fn forget_all() {
    *inbox() = Inbox::default();
    lock(&GONE).clear();
}
