//! Chooses the process: by id, by name, or the only attachable one.

use crate::args::{TargetArgs, UnseenArgs};
use crate::console::note;
use crate::failure::Failure;
use remora_attach::{Process, TargetPath, find, processes};
use std::io::{self, IsTerminal};

/// Most processes listed in a message.
const LISTED: usize = 8;

/// The process to attach to. The only one is named first, where somebody can read it; otherwise only `unseen` allows it.
pub(crate) fn choose(args: &TargetArgs, unseen: &UnseenArgs) -> Result<Process, Failure> {
    let process = find_one(args)?;
    if args.process_id.is_none() && args.name.is_none() {
        if !io::stderr().is_terminal() && !unseen.yes {
            return Err(Failure::ProcessNotNamed { process: label(&process), pid: process.pid });
        }
        note(&format!("the only .NET process that can be attached to: {}", label(&process)));
    }
    Ok(process)
}

/// The process that the flags name, or the only one, with their directory for the library.
pub(crate) fn find_one(args: &TargetArgs) -> Result<Process, Failure> {
    let mut process = match (args.process_id, &args.name) {
        (Some(process_id), _) => find(process_id)?,
        (None, Some(name)) => named(processes()?, name)?,
        (None, None) => unnamed(processes()?)?,
    };
    process.library_directory = args.library_directory.clone().map(TargetPath::from);
    Ok(process)
}

/// `failure`, unless the process ended or replaced its program since: then that is the failure.
pub(crate) fn unless_it_ended(process: &Process, failure: Failure) -> Failure {
    process.require_same().map_or_else(Failure::from, |()| failure)
}

/// Id and name of a process: the name of its assembly, otherwise `dotnet`.
pub(crate) fn label(process: &Process) -> String {
    format!("{} {}", process.pid, process.name())
}

/// The same, and the last argument: processes of one name differ by it.
fn label_with_argument(process: &Process) -> String {
    /// Bytes of the argument.
    const LONGEST: usize = 40;
    let last = process.command_line.get(1..).and_then(<[_]>::last).map(|last| last.within(LONGEST));
    match last.filter(|last| !last.ends_with(".dll")) {
        Some(last) => format!("{} ({last})", label(process)),
        None => label(process),
    }
}

/// Compares exactly: the entry assembly with or without its extension, or the executable.
fn is_called(process: &Process, name: &str) -> bool {
    let executable = process.executable.as_ref().map(TargetPath::file_name);
    let assembly = process.entry_assembly.as_ref();
    executable == Some(name) || assembly.is_some_and(|assembly| *assembly == name.strip_suffix(".dll").unwrap_or(name))
}

/// The one process of this name.
fn named(running: Vec<Process>, name: &str) -> Result<Process, Failure> {
    let (called, others): (Vec<_>, Vec<_>) = running.into_iter().partition(|process| is_called(process, name));
    if called.is_empty() {
        let hint = other_name(name, others.iter().map(|other| other.name().to_string()));
        return Err(Failure::NoSuchName { name: name.to_owned(), hint });
    }
    only(called, label_with_argument)
}

/// A hint for a name that no process has.
fn other_name(name: &str, there: impl IntoIterator<Item = String>) -> String {
    let wanted = name.strip_suffix(".dll").unwrap_or(name).to_lowercase();
    match there.into_iter().find(|other| other.to_lowercase() == wanted) {
        Some(other) => format!("there is {other:?}, upper and lower case count"),
        None => "`remora ps` lists those there are, a name must be given exactly".to_owned(),
    }
}

/// The only attachable process; of the others only the count is reported.
fn unnamed(running: Vec<Process>) -> Result<Process, Failure> {
    only(running, label)
}

/// The same for some processes.
fn only(running: Vec<Process>, label: fn(&Process) -> String) -> Result<Process, Failure> {
    let (ready, others) = running.into_iter().partition(|process| process.attachable.is_ok());
    let (process, left_out) = sole(ready, others, label)?;
    if let Some(left_out) = left_out {
        note(&format!("left out, since they cannot be attached to: {left_out}"));
    }
    Ok(process)
}

/// The only one that is ready, and a note about the rest.
fn sole<T>(
    mut ready: Vec<T>,
    mut others: Vec<T>,
    label: impl Fn(&T) -> String + Copy,
) -> Result<(T, Option<String>), Failure> {
    match (ready.len(), others.len()) {
        (0, 0) => Err(Failure::NoProcess),
        (1, 0) => Ok((ready.remove(0), None)),
        (1, _) => Ok((ready.remove(0), Some(listed(&others, label)))),
        // Returned as if named: its precondition then reports why it cannot be attached to.
        (0, 1) => Ok((others.remove(0), None)),
        (0, count) => Err(Failure::NoneAttachable { count, list: listed(&others, label) }),
        (count, 0) => Err(Failure::SeveralProcesses { count, list: listed(&ready, label) }),
        (count, _) => {
            let list = format!("{} (and, not to be attached to, {})", listed(&ready, label), listed(&others, label));
            Err(Failure::SeveralProcesses { count, list })
        }
    }
}

/// The first entries, as text.
fn listed<T>(all: &[T], label: impl Fn(&T) -> String) -> String {
    let mut list: Vec<String> = all.iter().take(LISTED).map(label).collect();
    if all.len() > LISTED {
        list.push(format!("{} more", all.len() - LISTED));
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_differs_by_case_only_is_offered() {
        let there = || ["Billing", "OrderService"].map(String::from);
        for name in ["orderservice", "ORDERSERVICE.dll"] {
            assert_eq!(other_name(name, there()), "there is \"OrderService\", upper and lower case count");
        }
        assert!(other_name("order", there()).contains("`remora ps`"));
    }

    #[test]
    fn the_only_process_is_the_only_one_that_can_be_attached_to() {
        let pick = |ready: &[&'static str], others: &[&'static str]| {
            sole(ready.to_vec(), others.to_vec(), |name| (*name).to_owned()).map_err(|failure| failure.line())
        };
        assert_eq!(pick(&["1 a"], &[]), Ok(("1 a", None)));
        assert_eq!(pick(&["1 a"], &["2 b", "3 c"]), Ok(("1 a", Some("2 b, 3 c".to_owned()))));
        assert_eq!(pick(&[], &["2 b"]), Ok(("2 b", None)), "the reason is given as if it had been named");
        let several = pick(&["1 a", "2 b"], &["3 c"]).expect_err("which?");
        assert!(several.contains("2 .NET processes fit: 1 a, 2 b (and, not to be attached to, 3 c)"), "{several}");
        let none = pick(&[], &["2 b", "3 c"]).expect_err("none of them");
        assert!(none.contains("2 .NET processes run, and none can be attached to: 2 b, 3 c; "), "{none}");
        assert!(pick(&[], &[]).expect_err("none").contains("no .NET process is running"));
    }
}
