//! `/proc/PID/stat`: the state, and the start time that distinguishes a process from a later one with its id.

use remora_symbols::TargetText;

/// The kernel's flag of a task that is ending (Linux `include/linux/sched.h`).
const PF_EXITING: u64 = 4;

/// Fields of `stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Name of the main thread, at most 15 bytes.
    pub name: TargetText,
    /// State letter: `R`, `S`, `D`, `T` stopped, `t` traced, `Z` zombie.
    pub state: char,
    /// Whether it is ending: its mappings vanish while its state is still that of a live process.
    pub exiting: bool,
    /// Used user and kernel time, clock ticks, fields 14 and 15.
    pub cpu_time: u64,
    /// Clock ticks from boot to the process's start, field 22.
    pub start_time: u64,
}

impl Stat {
    /// Whether the process has ended, or is ending.
    pub fn is_ending(&self) -> bool {
        self.exiting || matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Reads `stat`; the name may contain anything, including parentheses and spaces.
pub fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let text = String::from_utf8_lossy(bytes);
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let mut fields = text.get(close + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is field 3, the flags are field 9, user and kernel time 14 and 15, the start time 22.
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    let (user, kernel): (u64, u64) = (fields.nth(4)?.parse().ok()?, fields.next()?.parse().ok()?);
    let start_time = fields.nth(6)?.parse().ok()?;
    let name = text.get(open + 1..close)?.into();
    let cpu_time = user.saturating_add(kernel);
    Some(Stat { name, state, exiting: flags & PF_EXITING != 0, cpu_time, start_time })
}
