//! A recording as another program reads it: converted to speedscope's format and parsed, so that weights and names are checked
//! independently.

use crate::{Recorded, remora};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The mark above the leaf of a waiting thread.
pub const BLOCKED: &str = "[blocked]";

/// The frame below it, if the thread was ready to run.
pub const WAITING_FOR_CPU: &str = "[waiting for a CPU]";

/// A frame: code and location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The method or function.
    pub name: String,
    /// Its source file; its module if the file is unknown.
    pub file: String,
    /// The line, if there is a source file.
    pub line: Option<u64>,
}

/// A stack of one thread, from the outermost frame to the leaf, and its weight in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The thread's label: `name (id)`.
    pub thread: String,
    /// Indices into [`ReadBack::frames`].
    pub frames: Vec<usize>,
    /// Nanoseconds.
    pub weight: u64,
}

/// All stacks of a recording.
#[derive(Debug, Clone, Default)]
pub struct ReadBack {
    /// The frames, each once.
    pub frames: Vec<Frame>,
    /// The stacks, in the order of each thread's time.
    pub stacks: Vec<Stack>,
}

impl ReadBack {
    /// Reads a recording back.
    #[track_caller]
    pub fn of(recorded: &Recorded) -> ReadBack {
        ReadBack::from_speedscope(&read_json(&converted(&recorded.output(), "read-back.speedscope.json")))
    }

    /// Reads a file for speedscope.
    #[track_caller]
    pub fn from_speedscope(file: &Value) -> ReadBack {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let frames = array(&file["shared"]["frames"]).iter().map(|frame| Frame {
            name: text(&frame["name"]),
            file: text(&frame["file"]),
            line: frame["line"].as_u64(),
        });
        let mut read = ReadBack { frames: frames.collect(), stacks: Vec::new() };
        // The first profile sums up all the others.
        for profile in array(&file["profiles"]).iter().skip(1) {
            let (samples, weights) = (array(&profile["samples"]), array(&profile["weights"]));
            assert_eq!(samples.len(), weights.len(), "of {}", profile["name"]);
            for (sample, weight) in samples.iter().zip(weights) {
                let frames: Vec<usize> = array(sample).iter().map(|index| number(index) as usize).collect();
                assert!(frames.iter().all(|index| *index < read.frames.len()), "a frame is missing: {frames:?}");
                read.stacks.push(Stack { thread: text(&profile["name"]), frames, weight: number(weight) });
            }
        }
        read
    }

    /// The weight of all stacks.
    pub fn weight(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.weight).sum()
    }

    /// The weight of the stacks with this leaf; a mark of waiting is no leaf.
    pub fn weight_in(&self, name: &str) -> u64 {
        self.weight_where(|names| names.iter().rev().find(|frame| **frame != BLOCKED) == Some(&name))
    }

    /// The weight of the stacks that contain this frame.
    pub fn weight_under(&self, name: &str) -> u64 {
        self.weight_where(|names| names.contains(&name))
    }

    /// The weight of the stacks whose names, outermost first, satisfy `wanted`.
    pub fn weight_where(&self, wanted: impl Fn(&[&str]) -> bool) -> u64 {
        let chosen = self.stacks.iter().filter(|stack| wanted(&self.names(stack)));
        chosen.map(|stack| stack.weight).sum()
    }

    /// The names of a stack's frames, outermost first.
    pub fn names(&self, stack: &Stack) -> Vec<&str> {
        stack.frames.iter().map(|index| self.frames[*index].name.as_str()).collect()
    }

    /// The frames with this name: one for each line.
    pub fn frames_called(&self, name: &str) -> Vec<&Frame> {
        self.frames.iter().filter(|frame| frame.name == name).collect()
    }
}

/// Converts a recording, with every frame, into a file beside it, whose extension gives the format.
#[track_caller]
pub fn converted(recording: &Path, name: &str) -> PathBuf {
    let output = recording.with_file_name(name);
    let flags = ["--force", "--expand-runtime"].map(Path::new);
    let arguments = [Path::new("convert"), recording, Path::new("-o"), &output].into_iter().chain(flags);
    remora(arguments).succeeded();
    output
}

/// The output of `remora report` for a recording, with all of its methods.
#[track_caller]
pub fn report(recording: &Path) -> Value {
    let arguments = [Path::new("report"), recording, Path::new("--json"), Path::new("--top"), Path::new("1000000")];
    remora(arguments).succeeded().json()
}

/// A JSON file.
#[track_caller]
pub fn read_json(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{} is not JSON: {error}", path.display()))
}

/// A value that must be an array.
#[track_caller]
pub fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not an array: {value}"))
}

/// A value that must be a whole number.
#[track_caller]
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a whole number: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_read_with_names_and_weights() {
        let file = serde_json::json!({
            "shared": {"frames": [{"name": "main"}, {"name": "work", "file": "a.cs", "line": 3}, {"name": BLOCKED}]},
            "profiles": [{"name": "All threads"}, {"name": "one (1)", "samples": [[0, 1], [0, 1, 2], [0]], "weights": [5, 7, 1]}],
        });
        let read = ReadBack::from_speedscope(&file);
        assert_eq!(read.weight(), 13);
        assert_eq!((read.weight_in("work"), read.weight_in("main"), read.weight_under("main")), (12, 1, 13));
        assert_eq!(read.weight_where(|names| names.last() == Some(&BLOCKED)), 7);
        assert_eq!(read.names(&read.stacks[1]), ["main", "work", BLOCKED]);
        assert_eq!(read.frames_called("work")[0].line, Some(3));
    }
}
