//! A failure as JSON: `{"error": {"code", "message", "remedy", "exit", ...facts}}`.

use super::{Failure, Remedies};
use crate::console::Page;
use serde_json::{Map, Value, json};
use std::path::Path;

impl Failure {
    /// The failure as one JSON document.
    pub(crate) fn json(&self) -> Page {
        Page::json(&json!({ "error": self.json_value() }))
    }

    /// Code, message, remedy, exit status and facts.
    pub(crate) fn json_value(&self) -> Map<String, Value> {
        let mut error = Map::new();
        error.insert("code".to_owned(), self.code().into());
        error.insert("message".to_owned(), self.to_string().into());
        error.insert("remedy".to_owned(), self.remedy().into());
        error.insert("exit".to_owned(), self.exit().code().into());
        for (name, value) in self.facts() {
            error.insert(name.to_owned(), value);
        }
        error
    }

    /// Further facts, by name.
    fn facts(&self) -> Vec<(&'static str, Value)> {
        use remora_collector::Error as Collector;
        use remora_receipt::Error as Receipt;
        match self {
            Failure::Attach(error) => of_an_attach(error),
            Failure::Collector(Collector::Attach(error)) => of_an_attach(error),
            Failure::Collector(Collector::Stranger(Some(id))) => vec![("stranger_process_id", (*id).into())],
            Failure::Collector(Collector::SharedMemory(error) | Collector::Channel(error)) => vec![errno(error)],
            Failure::Snapshot(Receipt::Gone { process_id }) => vec![process(*process_id)],
            Failure::Snapshot(Receipt::Unreadable { process_id, source }) => vec![process(*process_id), errno(source)],
            Failure::Precondition { process_id, subject, found, remedies } => vec![
                process(*process_id),
                ("check", subject.name().into()),
                ("found", found.as_str().into()),
                ("remedies", of_remedies(remedies)),
            ],
            Failure::Held { process_id, holder } => vec![process(*process_id), ("holder", holder.as_str().into())],
            Failure::NotLoadedAtStart { process_id } => vec![process(*process_id)],
            Failure::NoRuntime { process_id, seconds, .. } => {
                vec![process(*process_id), ("seconds", (*seconds).into())]
            }
            Failure::OfAHeap(failure) => failure.facts(),
            Failure::LeftBehind(failure) => {
                let mut facts = failure.facts();
                facts.push(("cause", failure.code().into()));
                facts
            }
            Failure::Saved { failure, path } | Failure::Kept { failure, path } => {
                let mut facts = failure.facts();
                facts.extend(path.as_deref().map(|path| ("result", shown(path))));
                facts
            }
            Failure::Command { error, .. } | Failure::Signals(error) => vec![errno(error)],
            Failure::Output { error, .. } | Failure::Port { error, .. } => vec![errno(error)],
            Failure::Input { file, error } | Failure::Library { file, error } => vec![path_of(file), errno(error)],
            Failure::LockTaken { process_id, path } => vec![process(*process_id), path_of(path)],
            Failure::TooLargeToRead { file, .. }
            | Failure::NotShown { file }
            | Failure::NotAFile { file, .. }
            | Failure::Recording { file, .. }
            | Failure::HeapFile { file, .. }
            | Failure::IsASnapshot { file }
            | Failure::IsARecording { file }
            | Failure::PartOfTheHeap { file }
            | Failure::ConditionMet { file, .. }
            | Failure::ConditionNotProven { file, .. }
            | Failure::Incomplete { file, .. } => vec![path_of(file)],
            Failure::NoDirectory { directory, .. } => vec![path_of(directory)],
            Failure::EndsWithTheCopy { group, .. } => vec![path_of(group)],
            _ => Vec::new(),
        }
    }
}

fn of_an_attach(error: &remora_attach::Error) -> Vec<(&'static str, Value)> {
    use remora_attach::{Error, Reason};
    match error {
        Error::NoSuchProcess { pid } | Error::NotDotNet { pid, .. } | Error::Changed { pid, .. } => vec![process(*pid)],
        Error::NotAttachable { pid, reason } => {
            let mut facts = vec![process(*pid)];
            match reason {
                Reason::TooOld { version } => facts.push(("version", version.to_string().into())),
                Reason::SocketDeleted { path } | Reason::SocketStale { path } => {
                    facts.push(("path", path.to_string().into()));
                }
                _ => {}
            }
            facts
        }
        Error::SocketOfAnother { path, pid, .. } => vec![process(*pid), path_of(path)],
        Error::Connect { path, source } | Error::Io { path, source, .. } => vec![path_of(path), errno(source)],
        Error::Broken { source, .. } => vec![errno(source)],
        Error::RuntimeRefused(code) => vec![("hresult", format!("0x{:08X}", code.0).into())],
        _ => Vec::new(),
    }
}

fn of_remedies(remedies: &Remedies) -> Value {
    match remedies {
        Remedies::Typed(remedies) => remedies.iter().map(|remedy| Value::from(remedy.code())).collect(),
        Remedies::Text(_) => Value::Array(Vec::new()),
    }
}

fn process(id: u32) -> (&'static str, Value) {
    ("process_id", id.into())
}

fn path_of(path: &Path) -> (&'static str, Value) {
    ("path", shown(path))
}

fn errno(error: &std::io::Error) -> (&'static str, Value) {
    ("errno", error.raw_os_error().into())
}

fn shown(path: &Path) -> Value {
    path.display().to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_attach::{Error, HResult};

    #[test]
    fn a_failure_has_its_code_its_facts_and_its_remedy() {
        let refused = Failure::from(Error::RuntimeRefused(HResult::PROFILER_ALREADY_ACTIVE)).of_a_heap();
        let json: Value = serde_json::from_str(&refused.json()).expect("it is JSON");
        assert_eq!(json["error"]["code"], "runtime-refused");
        assert_eq!(json["error"]["hresult"], "0x8013136A");
        assert_eq!(json["error"]["exit"], 17);
        assert!(json["error"]["remedy"].as_str().is_some_and(|remedy| remedy.contains("notification-only")));
        let gone = Failure::Snapshot(remora_receipt::Error::Gone { process_id: 7 }).json_value();
        assert_eq!((&gone["code"], &gone["process_id"]), (&"process-ended".into(), &7.into()));
        let left = Failure::LeftBehind(Box::new(Failure::Interrupted));
        let json: Value = serde_json::from_str(&left.json()).expect("it is JSON");
        assert_eq!((&json["error"]["code"], &json["error"]["cause"]), (&"left-behind".into(), &"interrupted".into()));
    }
}
