//! Methods, modules and texts. Each is written once, and then published by its first word.

use crate::layout::{
    METHOD_SECTION, METHOD_WORDS, METHODS, METHODS_TAKEN, MODULE_SECTION, MODULE_WORDS, MODULES, MODULES_TAKEN,
    TEXT_SECTION, TEXT_TAKEN, TEXT_WORDS, section,
};
use crate::table::Table;
use core::sync::atomic::{AtomicU64, Ordering};

/// The longest text, bytes. The rest is cut off.
const LONGEST_TEXT: usize = 4096;

const WRITTEN: u64 = 1 << 63;

/// The number of a hooked method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodIndex(pub u32);

/// Where a text is: its first word, and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Text {
    /// Of the section of texts.
    pub word: u32,
    /// Its length.
    pub bytes: u32,
}

impl Text {
    /// As one word.
    pub fn packed(self) -> u64 {
        u64::from(self.word) << 32 | u64::from(self.bytes)
    }

    /// From one word.
    pub fn unpacked(word: u64) -> Text {
        Text { word: (word >> 32) as u32, bytes: word as u32 }
    }
}

/// A hooked method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// Its module record.
    pub module: u32,
    /// Its token there.
    pub token: u32,
    /// Namespace, types and name.
    pub name: Text,
    /// Calls without a place in a tree.
    pub lost: u64,
    /// The texts of its parameters, one on each line; empty without arguments.
    pub parameters: Text,
}

/// The module of a type's record. A type has a number as a method has one, so that it can be the leaf of a path.
const TYPE: u32 = u32::MAX;

impl Method {
    /// Whether it is an allocated type: the calls of its nodes are objects, and the ticks are bytes.
    pub fn is_type(&self) -> bool {
        self.module == TYPE
    }
}

/// A module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// Its file, or a name.
    pub path: Text,
}

impl Table<'_> {
    /// Stores a text; `None` if there is no room.
    pub fn add_text(&self, text: &str) -> Option<Text> {
        let bytes = text.as_bytes().get(..floor(text, LONGEST_TEXT))?;
        let words = bytes.len().div_ceil(8);
        let first = usize::try_from(self.take(TEXT_TAKEN, words as u64)).ok()?;
        let place = section(self.words, TEXT_SECTION, TEXT_WORDS).get(first..first.checked_add(words)?)?;
        for (place, bytes) in place.iter().zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
            place.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        Some(Text { word: first as u32, bytes: bytes.len() as u32 })
    }

    /// Calls `each` with every byte of a text, in order. A text that is none has no bytes.
    pub fn text(&self, text: Text, mut each: impl FnMut(u8)) {
        let (first, length) = (text.word as usize, (text.bytes as usize).min(LONGEST_TEXT));
        let all = section(self.words, TEXT_SECTION, TEXT_WORDS);
        let words = all.get(first..first + length.div_ceil(8)).unwrap_or_default();
        let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        bytes.take(length).for_each(&mut each);
    }

    /// Adds a module.
    pub fn add_module(&self, path: &str) -> Option<u32> {
        let path = self.add_text(path)?;
        let index = usize::try_from(self.take(MODULES_TAKEN, 1)).ok()?;
        let [head, ..] = self.module_records().get(index)?;
        head.store(path.packed() | WRITTEN, Ordering::Release);
        Some(index as u32)
    }

    /// A module record that is whole.
    pub fn module(&self, index: u32) -> Option<Module> {
        let [head, ..] = self.module_records().get(index as usize)?;
        let head = head.load(Ordering::Acquire);
        (head & WRITTEN != 0).then(|| Module { path: Text::unpacked(head & !WRITTEN) })
    }

    /// Adds a method.
    pub fn add_method(&self, module: u32, token: u32, name: &str) -> Option<MethodIndex> {
        self.add_method_with(module, token, name, "")
    }

    /// The same, with the texts of its parameters, one on each line.
    pub fn add_method_with(&self, module: u32, token: u32, name: &str, parameters: &str) -> Option<MethodIndex> {
        let index = usize::try_from(self.take(METHODS_TAKEN, 1)).ok()?;
        let [head, place, _, names, ..] = self.method_records().get(index)?;
        let name = self.add_text(name)?;
        names.store(self.add_text(parameters).unwrap_or_default().packed(), Ordering::Relaxed);
        place.store(u64::from(module) << 32 | u64::from(token), Ordering::Relaxed);
        head.store(name.packed() | WRITTEN, Ordering::Release);
        Some(MethodIndex(index as u32))
    }

    /// Adds a type whose objects are counted.
    pub fn add_type(&self, name: &str) -> Option<MethodIndex> {
        self.add_method(TYPE, 0, name)
    }

    /// A method record that is whole.
    pub fn method(&self, index: MethodIndex) -> Option<Method> {
        let [head, place, lost, names, ..] = self.method_records().get(index.0 as usize)?;
        let head = head.load(Ordering::Acquire);
        let place = place.load(Ordering::Relaxed);
        (head & WRITTEN != 0).then(|| Method {
            module: (place >> 32) as u32,
            token: place as u32,
            name: Text::unpacked(head & !WRITTEN),
            lost: lost.load(Ordering::Relaxed),
            parameters: Text::unpacked(names.load(Ordering::Relaxed)),
        })
    }

    /// All methods that are whole.
    pub fn methods(&self) -> impl Iterator<Item = (MethodIndex, Method)> + '_ {
        (0..METHODS as u32).filter_map(|index| Some((MethodIndex(index), self.method(MethodIndex(index))?)))
    }

    pub(crate) fn lose_call_of(&self, method: u32) {
        if let Some([_, _, lost, ..]) = self.method_records().get(method as usize) {
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn method_records(&self) -> &[[AtomicU64; METHOD_WORDS]] {
        section(self.words, METHOD_SECTION, METHODS * METHOD_WORDS).as_chunks::<METHOD_WORDS>().0
    }

    fn module_records(&self) -> &[[AtomicU64; MODULE_WORDS]] {
        section(self.words, MODULE_SECTION, MODULES * MODULE_WORDS).as_chunks::<MODULE_WORDS>().0
    }
}

/// The largest length up to `most` that does not cut a character.
fn floor(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|length| text.is_char_boundary(*length)).unwrap_or(0)
}
