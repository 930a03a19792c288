//! Unwind tables for the target's native modules: compiled here, sent to the agent as a sealed memory file.
//!
//! The first table is ready before the attach and arrives with the welcome. Others follow when the target has loaded more.

use crate::control::Control;
use crate::files::Files;
use remora_symbols::{MapEntry, TargetPath, UnwindRules};
use remora_wire::unwind::{MAXIMUM_BYTES, Module, encode};
use remora_wire::{TABLE_NAME, ToAgent};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The first pause before the mappings are read again. Each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// A starting process loads libraries all the time: the pause, and how long it lasts.
const STARTING_PAUSE: Duration = Duration::from_millis(5);
const STARTING: Duration = Duration::from_secs(3);

/// The C library and OpenSSL have less code than this. The runtime itself has more; it keeps frame pointers and can follow later.
const LITTLE_CODE: u64 = 4 << 20;

/// After this time, the pass before the attach compiles no further module. Nothing waits for it but the user.
const LONGEST_FIRST_PASS: Duration = Duration::from_secs(2);

/// The same for a pass during the recording, which keeps the ring waiting. The other modules follow in the next pass.
const LONGEST_PASS: Duration = Duration::from_millis(100);

/// The pause before they follow.
const REST: Duration = Duration::from_millis(50);

/// Pieces of code with a table, at most.
const MODULE_LIMIT: usize = 4096;

/// The file of a mapping: device, inode, path.
type Identity = ((u32, u32), u64, TargetPath);

/// The tables of one target.
pub(crate) struct Unwinding {
    files: Files,
    rules: HashMap<Identity, Option<Rc<UnwindRules>>>,
    sent: Vec<Module>,
    due: Instant,
    pause: Duration,
    /// Until then the process starts.
    starts_until: Instant,
    /// How many large modules the next pass may compile.
    much: usize,
    /// A module with more bytes of code is large.
    little_code: u64,
}

impl Unwinding {
    /// The tables of the process with these files; nothing is sent yet.
    pub(crate) fn of(files: Files) -> Unwinding {
        Unwinding {
            files,
            rules: HashMap::new(),
            sent: Vec::new(),
            due: Instant::now(),
            pause: FIRST_PAUSE,
            starts_until: Instant::now(),
            much: 0,
            little_code: LITTLE_CODE,
        }
    }

    /// The process starts now.
    pub(crate) fn of_a_starting(self) -> Unwinding {
        Unwinding { starts_until: Instant::now() + STARTING, ..self }
    }

    /// The time until the next check.
    pub(crate) fn rest(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// The table of the small modules, for the agent's first samples. `None` if this process can make no memory file.
    pub(crate) fn prepare(&mut self) -> Option<OwnedFd> {
        let (modules, rows, _) = self.table(LONGEST_FIRST_PASS);
        let memory = sealed(&encode(&modules, &rows)).ok()?;
        self.sent = modules;
        Some(memory)
    }

    /// Checks for changed modules, if a check is due.
    pub(crate) fn step(&mut self, control: &mut Control) {
        if Instant::now() < self.due {
            return;
        }
        self.much = 1;
        if !self.send(control) {
            // One large module at a time, because samples arrive meanwhile.
            self.due = Instant::now() + REST;
            return;
        }
        let now = Instant::now();
        if now < self.starts_until {
            self.due = now + STARTING_PAUSE;
            return;
        }
        self.due = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Sends a table, if modules have changed. Returns whether no module was left out for its size.
    fn send(&mut self, control: &mut Control) -> bool {
        let (modules, rows, is_whole) = self.table(LONGEST_PASS);
        if modules != self.sent
            && let Ok(memory) = sealed(&encode(&modules, &rows))
            && control.send_with(&ToAgent::Unwind, &memory).is_ok()
        {
            self.sent = modules;
        }
        is_whole
    }

    /// The modules mapped now, the rows of all of them, and whether none was left out for its size or after this time.
    fn table(&mut self, longest: Duration) -> (Vec<Module>, Vec<u64>, bool) {
        self.files.refresh_maps();
        let begun = Instant::now();
        let (mut much, mut is_whole) = (self.much, true);
        let (mut modules, mut rows) = (Vec::<Module>::new(), Vec::<u64>::new());
        let mut places: HashMap<Identity, u32> = HashMap::new();
        let code = self.files.maps().iter().filter(|entry| entry.permissions.execute && entry.is_module());
        let code: Vec<MapEntry> = code.take(MODULE_LIMIT).cloned().collect();
        let mapped: HashSet<Identity> = code.iter().map(identity_of).collect();
        self.rules.retain(|identity, _| mapped.contains(identity));
        for entry in code {
            let identity = identity_of(&entry);
            if !self.rules.contains_key(&identity) {
                let is_large = entry.end - entry.start > self.little_code;
                if (is_large && much == 0) || begun.elapsed() > longest {
                    is_whole = false;
                    continue;
                }
                much -= usize::from(is_large);
            }
            let kept = || self.rules.values().flatten().map(|rules| rules.rows.len() as u64 * 8).sum::<u64>();
            let has_room = self.rules.contains_key(&identity) || kept() < MAXIMUM_BYTES;
            let files = &self.files;
            let read = || if has_room { files.unwind_rules(&entry).map(Rc::new) } else { None };
            let known = self.rules.entry(identity.clone()).or_insert_with(read);
            let Some(rules) = known else { continue };
            let Some(base) = base(&entry, rules) else { continue };
            let bytes = (rows.len() + rules.rows.len()) as u64 * 8;
            if bytes > MAXIMUM_BYTES / 2 || modules.last().is_some_and(|last| last.end > entry.start) {
                continue;
            }
            let first = *places.entry(identity).or_insert_with(|| {
                rows.extend(&rules.rows);
                (rows.len() - rules.rows.len()) as u32
            });
            let count = rules.rows.len() as u32;
            modules.push(Module { start: entry.start, end: entry.end, base, first, count, framed: rules.framed });
        }
        (modules, rows, is_whole)
    }
}

fn identity_of(entry: &MapEntry) -> Identity {
    (entry.device, entry.inode, entry.path.clone())
}

/// Where the file's address 0 is in the target.
fn base(entry: &MapEntry, rules: &UnwindRules) -> Option<u64> {
    const PAGE: u64 = 0x1000;
    let held = |(_, offset, size): &&(u64, u64, u64)| {
        entry.offset >= offset - offset % PAGE && entry.offset < offset.saturating_add(*size)
    };
    let (address, offset, _) = rules.code.iter().find(held)?;
    // A mapping may start a little before its part of the file.
    Some(entry.start.wrapping_add(*offset).wrapping_sub(entry.offset).wrapping_sub(*address))
}

/// A memory file with these words, sealed against changes.
fn sealed(words: &[u64]) -> std::io::Result<OwnedFd> {
    let descriptor = memfd_create(TABLE_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(descriptor);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all(&bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_wire::unwind::{Rule, is_sound};

    #[test]
    fn the_table_of_this_process_is_sound_and_knows_the_c_library_and_the_kernels() {
        let mut unwinding = Unwinding::of(Files::of_ourselves());
        // Every module counts as large.
        unwinding.little_code = 0;
        let (none, _, is_whole) = unwinding.table(LONGEST_PASS);
        assert!(!is_whole && none.is_empty());
        unwinding.much = 1;
        let (one, _, is_whole) = unwinding.table(LONGEST_PASS);
        assert!(!is_whole && !one.is_empty());
        unwinding.much = MODULE_LIMIT;
        // One pass takes little time, and each continues where the last one ended.
        let whole = std::iter::repeat_with(|| unwinding.table(LONGEST_PASS)).find(|(_, _, is_whole)| *is_whole);
        let (modules, rows, _) = whole.expect("it ends");
        assert!(modules.len() > one.len());
        assert!(is_sound(&encode(&modules, &rows)[1..]));
        let rule = |address: u64| {
            let module = modules.iter().find(|module| (module.start..module.end).contains(&address))?;
            let own = &rows[module.first as usize..][..module.count as usize];
            let after = own.partition_point(|row| row >> 32 <= address - module.base);
            Some(Rule::decode(own[after.checked_sub(1)?] as u32))
        };
        // At a function's first instruction only the return address is on the stack.
        for function in [Unwinding::of as *const () as u64, std::process::id as *const () as u64] {
            assert_eq!(rule(function), Some(Rule::Stack { cfa: 8, saved: 0 }), "{function:x}");
        }
        let maps = unwinding.files.maps();
        for name in ["[vdso]", "libc.so.6", "libgcc_s.so.1"] {
            let entry = maps.iter().find(|entry| entry.permissions.execute && entry.file_name() == name);
            let start = entry.map_or(0, |entry| entry.start);
            assert!(modules.iter().any(|module| module.start == start && module.count > 0), "{name}");
        }
    }

    #[test]
    fn a_sealed_file_cannot_be_changed() {
        let file = File::from(sealed(&[1, 2]).expect("a memory file"));
        assert!((&file).write_all(&[0]).is_err() && file.set_len(0).is_err());
        assert_eq!(file.metadata().expect("it is there").len(), 16);
    }
}
