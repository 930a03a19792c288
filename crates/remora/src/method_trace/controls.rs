//! Controls of a running trace: the lines that the user types, and their effect.
//!
//! `+PATTERN` adds methods, `-PATTERN` takes them out, a time changes `--slower-than`. On a terminal, the status line would overwrite a long
//! pattern: `+` or `-` alone stops it, and the next line is the pattern.

use crate::console::{StatusLine, counted, note};
use crate::stop::Stop;
use remora_collector::{MadeChange, MethodTrace};
use remora_terminal::duration;
use remora_wire::method_trace::{Change, ChangeOutcome, Changed, memory::MOST_METHODS};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Changes that the result lists.
const MOST_LISTED: usize = 1000;

/// The meaning of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Typed {
    End,
    /// A pattern follows on the next line.
    Opens(Sign),
    Pattern(Sign, String),
    SlowerThan(Duration),
    Unclear(String),
}

/// Whether a pattern is for methods to add, or to take out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

/// The controls of a trace.
pub(super) struct Controls {
    /// New methods that one change may add.
    most: u32,
    begun: Instant,
    /// The line that waits for a pattern.
    open: Option<Sign>,
    /// The change to ask for once the agent has made the one before.
    next: Option<Change>,
    made: Vec<(Duration, MadeChange)>,
}

impl Controls {
    pub(super) fn new(most: u32) -> Controls {
        Controls { most, begun: Instant::now(), open: None, next: None, made: Vec::new() }
    }

    /// Takes a typed line, and reports the agent's last change. Returns whether the user ends the trace.
    pub(super) fn look(&mut self, trace: &mut MethodTrace, stop: &mut Stop, status: &mut StatusLine) -> bool {
        self.report(trace, status);
        if stop.is_signalled() {
            return true;
        }
        if self.next.is_none() {
            match stop.typed().map(|line| self.meaning(&line)) {
                None => {}
                Some(Typed::End) => return true,
                Some(Typed::Opens(sign)) => self.opens(sign, status),
                Some(Typed::Pattern(Sign::Plus, pattern)) => self.next = Some(Change::Add { pattern, most: self.most }),
                Some(Typed::Pattern(Sign::Minus, pattern)) => self.next = Some(Change::Remove { pattern }),
                Some(Typed::SlowerThan(time)) => {
                    self.next = Some(Change::SlowerThan(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
                }
                Some(Typed::Unclear(why)) => say(status, &why),
            }
        }
        if !trace.is_changing()
            && let Some(change) = self.next.take()
        {
            trace.change(change);
        }
        false
    }

    /// Reports the change that the agent has made.
    pub(super) fn report(&mut self, trace: &mut MethodTrace, status: &mut StatusLine) {
        let Some(made) = trace.take_change() else { return };
        say(status, &in_words(&made));
        if self.made.len() < MOST_LISTED {
            self.made.push((self.begun.elapsed(), made));
        }
    }

    /// Whether the user is typing a pattern.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The changes as JSON.
    pub(super) fn json(&self) -> Vec<Value> {
        self.made.iter().map(|(after, made)| as_json(*after, made)).collect()
    }

    fn opens(&mut self, sign: Sign, status: &mut StatusLine) {
        self.open = Some(sign);
        let what = match sign {
            Sign::Plus => "methods to add, like 'Shop.Orders.*'",
            Sign::Minus => "methods to take out, like 'Shop.Orders.*'",
        };
        say(status, &format!("{what}; Enter alone changes nothing:"));
    }

    /// The meaning of a line; after `+` or `-` alone, it is the pattern.
    fn meaning(&mut self, line: &[u8]) -> Typed {
        let typed = meaning(line);
        match (self.open.take(), typed) {
            (None, typed) | (Some(_), typed @ (Typed::Opens(_) | Typed::Pattern(..))) => typed,
            (Some(_), Typed::End) => Typed::Unclear("nothing was changed".into()),
            (Some(sign), Typed::SlowerThan(_) | Typed::Unclear(_)) => match text(line) {
                Some(pattern) => Typed::Pattern(sign, pattern.to_owned()),
                None => unclear(),
            },
        }
    }
}

/// The meaning of a line by itself.
fn meaning(line: &[u8]) -> Typed {
    let Some(text) = text(line) else { return unclear() };
    let sign = match text.as_bytes().first() {
        None => return Typed::End,
        Some(b'+') => Some(Sign::Plus),
        Some(b'-') => Some(Sign::Minus),
        Some(_) => None,
    };
    match (sign, text[usize::from(sign.is_some())..].trim()) {
        (Some(sign), "") => Typed::Opens(sign),
        (Some(sign), pattern) => Typed::Pattern(sign, pattern.to_owned()),
        (None, "0") => Typed::SlowerThan(Duration::ZERO),
        (None, time) => duration::parse(time).map_or_else(|_| unclear(), Typed::SlowerThan),
    }
}

/// A line without the space around it.
fn text(line: &[u8]) -> Option<&str> {
    std::str::from_utf8(line).ok().map(|line| line.trim())
}

fn unclear() -> Typed {
    Typed::Unclear(
        "not understood: +PATTERN adds methods, -PATTERN takes them out, a time like 50ms sets --slower-than; \
         Enter alone ends the trace"
            .into(),
    )
}

fn say(status: &mut StatusLine, text: &str) {
    status.clear();
    note(text);
}

/// The effect of a change.
fn in_words(made: &MadeChange) -> String {
    let Changed { found, traced, .. } = made.effect;
    match (&made.change, made.effect.outcome) {
        (_, ChangeOutcome::TooManyPatterns) => {
            "nothing was changed: the agent keeps no more patterns; begin a new trace".into()
        }
        (_, ChangeOutcome::TooManyMethods) => format!(
            "nothing was changed: {found} methods match, and each would be compiled again; \
             type a narrower pattern, or begin the trace with --yes"
        ),
        (Change::Add { pattern, .. }, _) => added(pattern, made),
        (Change::Remove { pattern }, _) if found == 0 => format!("no traced method matches {pattern}; {traced} traced"),
        (Change::Remove { .. }, _) => taken_out(&made.effect),
        (Change::SlowerThan(0), _) => "recording every call".into(),
        (Change::SlowerThan(time), _) => format!("recording calls that take {} or longer", duration::show(*time)),
    }
}

fn added(pattern: &str, made: &MadeChange) -> String {
    let Changed { found, changed, already, traced, code, .. } = made.effect;
    if found == 0 {
        let what = format!("no loaded method matches {pattern}; {traced} traced");
        return if code == 0 { what } else { format!("{what}; the runtime refused ({})", hresult(code)) };
    }
    let mut parts = vec![format!("tracing {} more, {traced} in all", counted(changed.into(), "method"))];
    if already > 0 {
        parts.push(format!("{already} {} traced already", if already == 1 { "was" } else { "were" }));
    }
    let rest = found.saturating_sub(changed).saturating_sub(already);
    match (&made.untraceable, rest) {
        (_, 0) => {}
        (_, _) if code != 0 => parts.push(format!("the runtime refused {rest} ({})", hresult(code))),
        (Some((name, why)), _) => parts.push(format!("{rest} cannot be traced, for example {name}: {why}")),
        (None, _) => parts.push(format!("{rest} cannot be traced: {} is the most", MOST_METHODS - 1)),
    }
    parts.join("; ")
}

fn taken_out(effect: &Changed) -> String {
    let mut text = format!("took {} out, {} traced", counted(effect.changed.into(), "method"), effect.traced);
    let rest = effect.found.saturating_sub(effect.changed);
    if rest > 0 || effect.code != 0 {
        text += &format!("; the runtime refused {rest} ({})", hresult(effect.code));
    }
    text
}

fn hresult(code: u32) -> String {
    remora_attach::HResult(code).to_string()
}

fn as_json(after: Duration, made: &MadeChange) -> Value {
    let (what, pattern, time) = match &made.change {
        Change::Add { pattern, .. } => ("add", Some(pattern), None),
        Change::Remove { pattern } => ("remove", Some(pattern), None),
        Change::SlowerThan(time) => ("slower-than", None, Some(time)),
    };
    let Changed { outcome, found, changed, already, traced, code } = made.effect;
    json!({
        "change": what,
        "pattern": pattern,
        "slower_than_nanoseconds": time,
        "after_nanoseconds": after.as_nanos() as u64,
        "refused": match outcome {
            ChangeOutcome::Made => None,
            ChangeOutcome::TooManyMethods => Some("too-many-methods"),
            ChangeOutcome::TooManyPatterns => Some("too-many-patterns"),
        },
        "methods_found": found,
        "methods_changed": changed,
        "methods_traced_before": already,
        "methods_traced": traced,
        "runtime_refused": (code != 0).then(|| hresult(code)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(sign: Sign) -> Typed {
        Typed::Pattern(sign, "Shop.*".into())
    }

    #[test]
    fn a_line_adds_takes_out_changes_the_threshold_or_ends() {
        for (line, expected) in [
            (&b"+Shop.*\n"[..], pattern(Sign::Plus)),
            (b" + Shop.* \r\n", pattern(Sign::Plus)),
            (b"-Shop.*\n", pattern(Sign::Minus)),
            (b"+\n", Typed::Opens(Sign::Plus)),
            (b"-\n", Typed::Opens(Sign::Minus)),
            (b"50ms\n", Typed::SlowerThan(Duration::from_millis(50))),
            (b"0\n", Typed::SlowerThan(Duration::ZERO)),
            (b"\n", Typed::End),
        ] {
            assert_eq!(meaning(line), expected, "{line:?}");
        }
        for line in [&b"50\n"[..], b"Shop.*\n", b"\xff\n", b"q\n"] {
            assert!(matches!(meaning(line), Typed::Unclear(_)), "{line:?}");
        }
    }

    #[test]
    fn after_a_sign_alone_the_next_line_is_the_pattern_or_nothing() {
        let mut controls = Controls::new(100);
        for (line, expected) in [(&b"Shop.*\n"[..], pattern(Sign::Minus)), (b"+Shop.*\n", pattern(Sign::Plus))] {
            controls.open = Some(Sign::Minus);
            assert_eq!(controls.meaning(line), expected);
            assert!(!controls.is_open());
        }
        controls.open = Some(Sign::Plus);
        assert!(matches!(controls.meaning(b"\n"), Typed::Unclear(_)));
        assert_eq!(controls.meaning(b"\n"), Typed::End);
    }

    #[test]
    fn an_effect_says_how_many_and_why_not() {
        let say = |change: &Change, effect: Changed, untraceable: Option<(&str, &str)>| {
            let untraceable = untraceable.map(|(name, why)| (name.to_owned(), why.to_owned()));
            in_words(&MadeChange { change: change.clone(), effect, untraceable })
        };
        let add = Change::Add { pattern: "Shop.*".into(), most: 100 };
        let effect = Changed { found: 9, changed: 3, already: 2, traced: 7, ..Changed::default() };
        assert_eq!(
            say(&add, effect, Some(("Shop.Native", "it has no IL"))),
            "tracing 3 methods more, 7 in all; 2 were traced already; 4 cannot be traced, for example Shop.Native: it has no IL"
        );
        assert!(say(&add, effect, None).ends_with("4 cannot be traced: 511 is the most"));
        assert!(say(&add, Changed { code: 5, ..effect }, None).contains("the runtime refused 4"));
        assert_eq!(say(&add, Changed::default(), None), "no loaded method matches Shop.*; 0 traced");
        let many = Changed { outcome: ChangeOutcome::TooManyMethods, ..effect };
        assert!(say(&add, many, None).starts_with("nothing was changed: 9 methods match"));
        let remove = Change::Remove { pattern: "Shop.*".into() };
        assert_eq!(say(&remove, Changed { found: 3, ..effect }, None), "took 3 methods out, 7 traced");
        assert!(say(&remove, Changed { code: 5, ..effect }, None).contains("the runtime refused 6"));
        assert_eq!(say(&Change::SlowerThan(50_000_000), effect, None), "recording calls that take 50.0 ms or longer");
        assert_eq!(say(&Change::SlowerThan(0), effect, None), "recording every call");
    }
}
