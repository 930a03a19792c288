//! `/proc/PID/stat`: the state, and the start time that tells a process from a later one with its id.

/// What is read of `stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Name of the main thread, at most 15 bytes.
    pub name: String,
    /// State letter: `R`, `S`, `D`, `T` stopped, `t` traced, `Z` dead but not collected.
    pub state: char,
    /// Clock ticks from boot to the process's start, field 22.
    pub start_time: u64,
}

/// Reads `stat`; the name may hold anything, parentheses and spaces included.
pub fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let text = String::from_utf8_lossy(bytes);
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let mut fields = text.get(close + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is field 3; the start time is field 22, eighteen after the one that follows the state.
    let start_time = fields.nth(18)?.parse().ok()?;
    Some(Stat { name: text.get(open + 1..close)?.to_owned(), state, start_time })
}
