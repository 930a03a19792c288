//! Parsers for the texts of `/proc`. Sans-IO; unknown lines are ignored, as a newer kernel may write more.

use crate::snapshot::{Mapping, Mappings, Timer};

/// The needed fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) start_time: u64,
}

/// Parses `stat`. The name may contain spaces and brackets, so fields count from the last closing bracket.
pub(crate) fn stat(text: &str) -> Option<Stat> {
    let fields = &text[text.rfind(')')? + 1..];
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // `starttime` is field 22; state is 3, the parent 4.
    let start_time = fields.nth(17)?.parse().ok()?;
    Some(Stat { state, parent, start_time })
}

/// The needed fields of `status`, of a process or of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) name: String,
    /// The id in the innermost pid namespace.
    pub(crate) namespace_id: Option<u32>,
    pub(crate) resident_kib: u64,
    pub(crate) virtual_kib: u64,
    pub(crate) pending: u64,
    pub(crate) shared_pending: u64,
    pub(crate) blocked: u64,
    pub(crate) ignored: u64,
    pub(crate) caught: u64,
}

/// Parses `status`; `None` without signal masks.
pub(crate) fn status(text: &str) -> Option<Status> {
    let mut status = Status::default();
    let mut masks = 0;
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        let mut mask = |into: &mut u64| {
            if let Ok(bits) = u64::from_str_radix(value, 16) {
                *into = bits;
                masks += 1;
            }
        };
        match key {
            "Name" => status.name = value.to_owned(),
            "NSpid" => status.namespace_id = value.split_ascii_whitespace().last().and_then(|id| id.parse().ok()),
            "VmRSS" => status.resident_kib = kib(value),
            "VmSize" => status.virtual_kib = kib(value),
            "SigPnd" => mask(&mut status.pending),
            "ShdPnd" => mask(&mut status.shared_pending),
            "SigBlk" => mask(&mut status.blocked),
            "SigIgn" => mask(&mut status.ignored),
            "SigCgt" => mask(&mut status.caught),
            _ => {}
        }
    }
    (masks == 5).then_some(status)
}

/// `Pss:` of `smaps_rollup`, KiB.
pub(crate) fn proportional_kib(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("Pss:")).map(kib)
}

fn kib(value: &str) -> u64 {
    value.split_ascii_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Maximum number of mappings of ours that are kept. A library has five, and a runtime loads at most 32.
const MOST_OF_OURS: usize = 1024;

/// Parses `maps`: counts all mappings and those of perf events, keeps ours.
pub(crate) fn maps(text: &str) -> Mappings {
    let mut mappings = Mappings::default();
    for line in text.lines() {
        let Some((range, rest)) = line.split_once(' ') else { continue };
        let Some((start, end)) = address_range(range) else { continue };
        mappings.count += 1;
        mappings.bytes = mappings.bytes.saturating_add(end.saturating_sub(start));
        let Some((inode, path)) = inode_and_path(rest) else { continue };
        if path == PERF_EVENT {
            mappings.perf_events += 1;
        }
        if !crate::left::is_ours(path) {
            continue;
        }
        if mappings.ours.len() == MOST_OF_OURS {
            mappings.more_of_ours += 1;
        } else {
            mappings.ours.push(Mapping { start, end, inode, path: path.to_owned() });
        }
    }
    mappings
}

/// The name of perf events in descriptors and mappings.
pub(crate) const PERF_EVENT: &str = "anon_inode:[perf_event]";

fn address_range(text: &str) -> Option<(u64, u64)> {
    let (start, end) = text.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

/// From `perms offset dev inode   path`. The path may contain spaces, so fields are split off one by one.
fn inode_and_path(rest: &str) -> Option<(u64, &str)> {
    let mut fields = rest.splitn(5, ' ').skip(3);
    let inode = fields.next()?.parse().ok()?;
    Some((inode, fields.next().unwrap_or_default().trim_start_matches(' ')))
}

/// Parses `timers`: blocks of `ID:`, `signal:`, `notify:`, `ClockID:`.
pub(crate) fn timers(text: &str) -> Vec<Timer> {
    let mut timers: Vec<Timer> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if key == "ID" {
            timers.push(Timer { id: value.parse().unwrap_or(-1), ..Timer::default() });
            continue;
        }
        let Some(timer) = timers.last_mut() else { continue };
        match key {
            "signal" => timer.signal = value.split('/').next().and_then(|number| number.parse().ok()),
            "notify" => timer.notify = value.to_owned(),
            "ClockID" => timer.clock = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    timers
}

/// The inode of `socket:[123]`.
pub(crate) fn socket_inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Entry point for fuzzing: runs every parser here on `text`; none may panic. Returns whether one of them understood it.
pub fn parse_anything(text: &str) -> bool {
    let (mappings, timers) = (maps(text), timers(text));
    assert!(mappings.count <= text.lines().count() && mappings.ours.len() <= mappings.count);
    let is_process = stat(text).is_some() || status(text).is_some() || proportional_kib(text).is_some();
    is_process || mappings.count > 0 || !timers.is_empty() || socket_inode(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let text = "7 (a) b (c)) S 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        assert_eq!(stat(text), Some(Stat { state: 'S', parent: 3, start_time: 987654 }));
        assert_eq!(stat("7 (x"), None);
    }

    #[test]
    fn paths_of_mappings_may_hold_spaces() {
        let text = "7f00-7f10 r-xp 00000000 08:01 42                   /a b/libremora_agent-1.so (deleted)\n\
                    8000-9000 rw-p 00000000 00:00 0 \n\
                    9000-9800 rw-s 00000000 00:0e 11                   anon_inode:[perf_event]\nnonsense\n";
        let mappings = maps(text);
        assert_eq!((mappings.count, mappings.bytes, mappings.perf_events), (3, 0x10 + 0x1000 + 0x800, 1));
        assert_eq!(mappings.ours.len(), 1);
        assert_eq!(
            (mappings.ours[0].inode, mappings.ours[0].path.as_str()),
            (42, "/a b/libremora_agent-1.so (deleted)")
        );
    }

    #[test]
    fn timers_are_blocks_of_four_lines() {
        let text = "ID: 3\nsignal: 42/00007f0000000000\nnotify: signal/tid.77\nClockID: -6\nID: 4\nsignal: 14/0\nnotify: none/pid.7\nClockID: 1\n";
        let timers = timers(text);
        assert_eq!(timers.len(), 2);
        assert_eq!(timers[0], Timer { id: 3, signal: Some(42), notify: "signal/tid.77".into(), clock: -6 });
    }

    #[test]
    fn a_status_without_masks_is_refused() {
        assert_eq!(status("Name:\tx\nSigBlk:\t0\n"), None);
        let text = "Name:\tdotnet\nNSpid:\t900\t7\nVmSize:\t  100 kB\nVmRSS:\t 10 kB\nSigPnd:\t1\nShdPnd:\t2\nSigBlk:\t4\nSigIgn:\t8\nSigCgt:\t10\n";
        let status = status(text).expect("masks are there");
        assert_eq!((status.namespace_id, status.resident_kib, status.caught), (Some(7), 10, 16));
    }
}
