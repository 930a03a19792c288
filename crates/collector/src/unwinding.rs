//! Unwind tables for the target's native modules: compiled here, sent to the agent as a sealed memory file.
//!
//! The agent never waits for them: they follow once it samples, and again when the target has loaded more.

use crate::control::Control;
use crate::files::Files;
use remora_symbols::{MapEntry, UnwindRules};
use remora_wire::unwind::{MAXIMUM_BYTES, Module, encode};
use remora_wire::{MEMORY_NAME, ToAgent};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The mappings are looked at again after this long, then after twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Which file a mapping is of: device, inode, path.
type Identity = ((u32, u32), u64, String);

/// The tables of one target.
pub(crate) struct Unwinding {
    files: Files,
    rules: HashMap<Identity, Option<Rc<UnwindRules>>>,
    sent: Vec<Module>,
    due: Instant,
    pause: Duration,
}

impl Unwinding {
    /// Those of this process; nothing is sent yet.
    pub(crate) fn of(process_id: u32) -> Unwinding {
        Unwinding {
            files: Files::of(process_id),
            rules: HashMap::new(),
            sent: Vec::new(),
            due: Instant::now(),
            pause: FIRST_PAUSE,
        }
    }

    /// Sends a table, if it is time to look and there are other modules than before.
    pub(crate) fn step(&mut self, control: &mut Control) {
        if Instant::now() < self.due {
            return;
        }
        let (modules, rows) = self.table();
        if modules != self.sent
            && let Ok(memory) = sealed(&encode(&modules, &rows))
            && control.say_with(&ToAgent::Unwind, &memory).is_ok()
        {
            self.sent = modules;
        }
        self.due = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// The modules that are mapped now, and the rows of all of them.
    fn table(&mut self) -> (Vec<Module>, Vec<u64>) {
        self.files.refresh_maps();
        let (mut modules, mut rows) = (Vec::<Module>::new(), Vec::<u64>::new());
        let mut places: HashMap<Identity, u32> = HashMap::new();
        let code: Vec<MapEntry> =
            self.files.maps().iter().filter(|entry| entry.permissions.execute && entry.is_module()).cloned().collect();
        for entry in code {
            let identity = (entry.device, entry.inode, entry.path.clone());
            let files = &self.files;
            let known = self.rules.entry(identity.clone()).or_insert_with(|| files.unwind_rules(&entry).map(Rc::new));
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
        (modules, rows)
    }
}

/// Where the file's address 0 is in the target.
fn base(entry: &MapEntry, rules: &UnwindRules) -> Option<u64> {
    const PAGE: u64 = 0x1000;
    let held = |(_, offset, size): &&(u64, u64, u64)| {
        entry.offset >= offset - offset % PAGE && entry.offset < offset.saturating_add(*size)
    };
    let (address, offset, _) = rules.code.iter().find(held)?;
    // A mapping may start a little before the part of the file that it is for.
    Some(entry.start.wrapping_add(*offset).wrapping_sub(entry.offset).wrapping_sub(*address))
}

/// A memory file that holds these words and can never be changed.
fn sealed(words: &[u64]) -> std::io::Result<OwnedFd> {
    let descriptor = memfd_create(MEMORY_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(descriptor);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all(&bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(file.into())
}
