//! The modules that stay loaded, with their assemblies. Those of enums are among them.

use corprof::{Alive, Info, Loading, ModuleFlags, ModuleId};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Modules that are kept.
const MOST: usize = 4096;

/// For callbacks on many threads, without locks. Zero where none is yet.
static MODULES: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
/// Names of their assemblies, once somebody has asked; given away for good.
static ASSEMBLIES: [AtomicPtr<Arc<str>>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A module.
#[derive(Debug, Clone)]
pub(crate) struct FixedModule {
    pub(crate) module: ModuleId,
    /// The name of its assembly.
    pub(crate) assembly: Arc<str>,
}

/// Whether a module stays loaded, and no other thread adds to it.
pub(crate) fn is_fixed<L: Loading>(info: &Info<L, Alive>, module: ModuleId) -> bool {
    let has = |flags: ModuleFlags| flags.contains(ModuleFlags::COLLECTIBLE) || flags.contains(ModuleFlags::DYNAMIC);
    info.get_module_info2(module).is_ok_and(|facts| !has(facts.flags))
}

/// The name of a module's assembly.
pub(crate) fn assembly_of<L: Loading>(info: &Info<L, Alive>, module: ModuleId) -> Option<Arc<str>> {
    let assembly = info.get_module_info2(module).ok()?.assembly;
    info.get_assembly_info(assembly).ok().map(|assembly| assembly.name.into())
}

/// Keeps a module that was loaded.
pub(crate) fn add(module: ModuleId) {
    let index = COUNT.fetch_add(1, Ordering::Relaxed);
    if let Some(place) = MODULES.get(index) {
        place.store(module.0, Ordering::Release);
    }
}

/// Those that were kept until now, the core library first.
pub(crate) fn fixed<L: Loading>(info: &Info<L, Alive>) -> Vec<FixedModule> {
    let known = MODULES.iter().zip(&ASSEMBLIES).take(COUNT.load(Ordering::Relaxed));
    let named = known.filter_map(|(module, name)| {
        let module = ModuleId(module.load(Ordering::Acquire));
        let assembly = if module.0 == 0 { None } else { known_name(name).or_else(|| keep_name(info, module, name)) };
        Some(FixedModule { module, assembly: assembly? })
    });
    named.collect()
}

fn known_name(name: &AtomicPtr<Arc<str>>) -> Option<Arc<str>> {
    // SAFETY: null, or from `keep_name`, which gives it away for good.
    unsafe { name.load(Ordering::Acquire).as_ref() }.cloned()
}

/// When a module has just been loaded, it has no assembly yet: so the name is asked for later.
fn keep_name<L: Loading>(info: &Info<L, Alive>, module: ModuleId, name: &AtomicPtr<Arc<str>>) -> Option<Arc<str>> {
    let found = assembly_of(info, module)?;
    let made = Box::into_raw(Box::new(Arc::clone(&found)));
    if name.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: from the line above, and nobody else has it.
        drop(unsafe { Box::from_raw(made) });
    }
    Some(found)
}
