//! `/proc/PID/stat`: the state, and the start time that tells a process from a later one with its id.

/// The kernel's flag of a task that is ending (Linux `include/linux/sched.h`).
const PF_EXITING: u64 = 4;

/// What is read of `stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Name of the main thread, at most 15 bytes.
    pub name: String,
    /// State letter: `R`, `S`, `D`, `T` stopped, `t` traced, `Z` dead but not collected.
    pub state: char,
    /// Whether it has begun to end: its mappings vanish while the state is still that of a living one.
    pub exiting: bool,
    /// User and kernel time that it has used, clock ticks, fields 14 and 15.
    pub processor_time: u64,
    /// Clock ticks from boot to the process's start, field 22.
    pub start_time: u64,
}

impl Stat {
    /// Whether the process has ended, or has begun to.
    pub fn is_ending(&self) -> bool {
        self.exiting || matches!(self.state, 'Z' | 'X')
    }
}

/// Reads `stat`; the name may hold anything, parentheses and spaces included.
pub fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let text = String::from_utf8_lossy(bytes);
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let mut fields = text.get(close + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is field 3, the flags are field 9, user and kernel time 14 and 15, the start time 22.
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    let (user, kernel): (u64, u64) = (fields.nth(4)?.parse().ok()?, fields.next()?.parse().ok()?);
    let start_time = fields.nth(6)?.parse().ok()?;
    let name = text.get(open + 1..close)?.to_owned();
    let processor_time = user.saturating_add(kernel);
    Some(Stat { name, state, exiting: flags & PF_EXITING != 0, processor_time, start_time })
}
