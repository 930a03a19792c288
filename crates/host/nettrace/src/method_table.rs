//! Finds the method of an address at a time: code may be unloaded, and its address reused.

use crate::payload::Method;
use crate::{Error, Result};
use std::collections::HashMap;

/// More methods than this are damage; the largest servers have some hundred thousand.
const METHOD_LIMIT: usize = 4 << 20;
/// More modules than this are damage.
const MODULE_LIMIT: usize = 1 << 20;
/// Maximum earlier and later methods considered for one address; reuse is rare.
const LOOK_BACK: usize = 32;

/// The code of a method, and its lifetime.
#[derive(Debug, Clone)]
struct Code {
    method: Method,
    /// Nanoseconds; 0 if loaded before the session.
    loaded: u64,
    /// Nanoseconds; the maximum if still loaded at the end.
    unloaded: u64,
}

impl Code {
    fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.method.start).is_some_and(|offset| offset < u64::from(self.method.size))
    }
}

/// Methods and modules, in any order of arrival.
#[derive(Debug, Default)]
pub(crate) struct MethodTable {
    code: Vec<Code>,
    /// The code loaded now, by its start address.
    current: HashMap<u64, usize>,
    modules: HashMap<u64, String>,
}

impl MethodTable {
    /// A method was loaded at `time`, or is `listed` by a rundown.
    pub(crate) fn add(&mut self, method: Method, time: u64, listed: bool) -> Result<()> {
        Error::above(METHOD_LIMIT, self.code.len() + 1, "methods")?;
        if let Some(&known) = self.current.get(&method.start) {
            let known = &mut self.code[known];
            if known.unloaded == u64::MAX && known.method == method {
                return Ok(());
            }
            known.unloaded = known.unloaded.min(time);
        }
        let loaded = if listed { 0 } else { time };
        self.current.insert(method.start, self.code.len());
        self.code.push(Code { method, loaded, unloaded: u64::MAX });
        Ok(())
    }

    /// The code at `start` was unloaded at `time`.
    pub(crate) fn remove(&mut self, start: u64, time: u64) {
        if let Some(&known) = self.current.get(&start) {
            let known = &mut self.code[known];
            known.unloaded = known.unloaded.min(time);
        }
    }

    /// Sets the file of module `id`.
    pub(crate) fn add_module(&mut self, id: u64, file: String) -> Result<()> {
        self.modules.insert(id, file);
        Error::above(MODULE_LIMIT, self.modules.len(), "modules")
    }

    /// Number of methods and modules.
    pub(crate) fn len(&self) -> usize {
        self.code.len() + self.modules.len()
    }

    /// Makes the lookup, after all methods were added.
    pub(crate) fn into_lookup(mut self) -> MethodLookup {
        self.code.sort_by_key(|code| (code.method.start, code.loaded));
        MethodLookup { code: self.code, modules: self.modules }
    }
}

/// Finds methods by address and time.
#[derive(Default)]
pub(crate) struct MethodLookup {
    code: Vec<Code>,
    modules: HashMap<u64, String>,
}

impl MethodLookup {
    /// Index of the method whose code was at `address` at `time`.
    /// If there was none at that time (events of several threads are not in order), the closest one before.
    pub(crate) fn find(&self, address: u64, time: u64) -> Option<usize> {
        let behind = self.code.partition_point(|code| code.method.start <= address);
        let near = behind.saturating_sub(LOOK_BACK)..behind;
        let mut holders = near.rev().filter(|&index| self.code[index].holds(address));
        let first = holders.next()?;
        let there = |index: &usize| (self.code[*index].loaded..=self.code[*index].unloaded).contains(&time);
        Some(std::iter::once(first).chain(holders).find(there).unwrap_or(first))
    }

    /// Whether no address was ever reused.
    pub(crate) fn is_unambiguous(&self) -> bool {
        self.code.windows(2).all(|pair| !pair[0].holds(pair[1].method.start))
    }

    /// The method at an index.
    pub(crate) fn method(&self, index: usize) -> &Method {
        &self.code[index].method
    }

    /// The file of a method's module, if it has one.
    pub(crate) fn module(&self, index: usize) -> Option<&str> {
        self.modules.get(&self.method(index).module).map(String::as_str).filter(|file| !file.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(id: u64, start: u64, size: u32) -> Method {
        Method { id, module: 1, start, size, type_name: "A".into(), name: format!("F{id}"), signature: String::new() }
    }

    #[test]
    fn an_address_used_again_is_distinguished_by_time() {
        let mut table = MethodTable::default();
        table.add(method(1, 0x100, 0x10), 50, false).expect("there is room");
        table.remove(0x100, 90);
        table.add(method(2, 0x100, 0x20), 100, false).expect("there is room");
        table.add(method(2, 0x100, 0x20), 900, true).expect("listed again at the end");
        table.add(method(3, 0x200, 0x10), 900, true).expect("there is room");
        let lookup = table.into_lookup();
        let at = |address, time| lookup.find(address, time).map(|index| lookup.method(index).id);
        assert_eq!(at(0x105, 60), Some(1));
        assert_eq!(at(0x105, 110), Some(2));
        assert_eq!(at(0x115, 60), Some(2), "nobody else was ever there");
        assert_eq!(at(0x20f, 1), Some(3), "what is listed was there before");
        assert_eq!(at(0x210, 1), None);
        assert_eq!(at(0xff, 1), None);
        assert_eq!(lookup.code.len(), 3);
    }

    #[test]
    fn a_method_that_takes_a_place_without_a_word_ends_the_one_before() {
        let mut table = MethodTable::default();
        table.add(method(1, 0x100, 0x10), 50, false).expect("there is room");
        table.add(method(2, 0x100, 0x10), 100, false).expect("there is room");
        let lookup = table.into_lookup();
        let at = |time| lookup.find(0x100, time).map(|index| lookup.method(index).id);
        assert_eq!((at(60), at(150)), (Some(1), Some(2)));
    }
}
