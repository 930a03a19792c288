//! Reports an invalid command line on one line: clap's error, the likely intention, and the help to read.
//!
//! Drops clap's own hints on unknown words. One of them would start a program named like the mistyped flag, others are only accidentally
//! similar.

use super::CommandLine;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Words of other tools, and our command for them.
const OTHER_WORDS: [(&str, &str); 8] = [
    ("attach", "record"),
    ("collect", "record"),
    ("profile", "record"),
    ("run", "record"),
    ("start", "record"),
    ("trace", "record"),
    ("list", "ps"),
    ("export", "convert"),
];

/// The whole line. `words` is the command line: the first may be a command, the second its subcommand.
pub(crate) fn in_one_line(error: &Error, words: &[String]) -> String {
    let command = command(words);
    let command = command.as_deref();
    let text = error.render().to_string();
    let (mut what, mut hints) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("tip: ") {
            Some(hint) => hints.push(hint.to_owned()),
            None if line.starts_with("Usage:") || line.starts_with("For more information") => break,
            None => what.push(line),
        }
    }
    let hints: Vec<String> = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            meant(word(error, ContextKind::InvalidSubcommand), command).into_iter().collect()
        }
        ErrorKind::UnknownArgument => instead(error, command).into_iter().collect(),
        _ => hints,
    };
    let what = what.join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let hints: String = hints.iter().map(|hint| format!("; {hint}")).collect();
    let help = command.map_or("remora --help".to_owned(), |command| format!("remora {command} --help"));
    format!("{what}{hints}; see `{help}`")
}

/// The command with its subcommand: `heap diff`.
fn command(words: &[String]) -> Option<String> {
    let first = words.first().filter(|first| commands(None).contains(first))?;
    let second = words.get(1).filter(|second| commands(Some(first)).contains(second));
    Some(second.map_or(first.clone(), |second| format!("{first} {second}")))
}

/// The likely command for an unknown word, among all or among the subcommands of `command`; or other advice.
fn meant(given: &str, command: Option<&str>) -> Option<String> {
    if given.ends_with(".remora-heap") {
        return Some(format!("to show a snapshot write `remora heap report {given}`"));
    }
    if command.is_none() && given.ends_with(".remora") {
        return Some(format!("to show a recording write `remora report {given}`"));
    }
    if command.is_some() && is_number(given) {
        return Some(format!("for a process id write `-p {given}`"));
    }
    let other = OTHER_WORDS.iter().find(|(word, _)| command.is_none() && *word == given);
    let other = other.map(|(_, command)| (*command).to_owned());
    let near = other.or_else(|| commands(command).into_iter().find(|name| is_near(given, name)))?;
    Some(match command {
        Some(command) => format!("there is `remora {command} {near}`"),
        None => format!("there is `remora {near}`"),
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The likely intention of an unknown argument.
fn instead(error: &Error, command: Option<&str>) -> Option<String> {
    let given = word(error, ContextKind::InvalidArg);
    if given.starts_with('-') {
        let flag = word(error, ContextKind::SuggestedArg);
        let flag = flag.split(' ').next().unwrap_or_default();
        return is_near(given, flag).then(|| format!("there is {flag}"));
    }
    match command? {
        "record" | "check" | "detach" if is_number(given) => Some(format!("for a process id write `-p {given}`")),
        "record" => Some(format!(
            "to start a command and record it put `--` before it: `remora record -- {given}`; for a process that runs write `-n {given}`"
        )),
        "check" => Some(format!("for a process by its name write `-n {given}`")),
        _ => None,
    }
}

/// clap's value for this context.
fn word(error: &Error, kind: ContextKind) -> &str {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text,
        Some(ContextValue::Strings(texts)) => texts.first().map_or("", String::as_str),
        _ => "",
    }
}

/// All commands, or the subcommands of one.
fn commands(of: Option<&str>) -> Vec<String> {
    let all = CommandLine::command();
    let Some(owner) = of.map_or(Some(&all), |of| all.find_subcommand(of)) else { return Vec::new() };
    owner.get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// Whether one is a likely typo of the other: few letters differ, and most do not.
fn is_near(given: &str, known: &str) -> bool {
    const FEW: usize = 2;
    let differing = strsim::levenshtein(given, known);
    differing <= FEW && 2 * differing <= known.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn refusal_of(line: &str) -> String {
        let words: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
        let all = std::iter::once("remora".to_owned()).chain(words.iter().cloned());
        let error = CommandLine::try_parse_from(all).expect_err(line);
        in_one_line(&error, &words)
    }

    #[test]
    fn what_may_have_been_meant_is_named_and_nothing_far_fetched() {
        let cases = [
            ("attach", "there is `remora record`; see `remora --help`"),
            ("recrod", "there is `remora record`; see `remora --help`"),
            ("dettach", "there is `remora detach`; see `remora --help`"),
            ("record 17140", "'17140' found; for a process id write `-p 17140`; see `remora record --help`"),
            ("check 17140", "for a process id write `-p 17140`; see `remora check --help`"),
            ("detach 17140", "for a process id write `-p 17140`; see `remora detach --help`"),
            ("record dotnet x.dll", "put `--` before it: `remora record -- dotnet`; for a process that runs"),
            ("check Orders", "for a process by its name write `-n Orders`; see `remora check --help`"),
            ("record --durration 5s", "there is --duration; see `remora record --help`"),
            ("record --x", "unexpected argument '--x' found; see `remora record --help`"),
            ("frobnicate", "unrecognized subcommand 'frobnicate'; see `remora --help`"),
            ("heap diff --jason", "there is --json; see `remora heap diff --help`"),
            ("heap show a.remora-heap", "see `remora heap show --help`"),
            ("heap --nothing", "unexpected argument '--nothing' found; see `remora heap --help`"),
            (
                "heap a.remora-heap",
                "to show a snapshot write `remora heap report a.remora-heap`; see `remora heap --help`",
            ),
            ("heap reprot a.remora-heap", "there is `remora heap report`; see `remora heap --help`"),
            ("heap 4242", "for a process id write `-p 4242`; see `remora heap --help`"),
            ("a.remora-heap", "to show a snapshot write `remora heap report a.remora-heap`"),
            ("a.remora", "to show a recording write `remora report a.remora`"),
            ("ps --jason", "there is --json; see `remora ps --help`"),
        ];
        for (line, words) in cases {
            assert!(refusal_of(line).contains(words), "{line}: {}", refusal_of(line));
        }
    }

    #[test]
    fn a_name_is_near_if_few_letters_differ() {
        for (given, known, near) in
            [("record", "record", true), ("recrod", "record", true), ("rec", "record", false), ("ab", "b", false)]
        {
            assert_eq!(is_near(given, known), near, "{given} {known}");
        }
    }
}
