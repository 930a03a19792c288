//! What the command line asks for.

use crate::graphs::{OBJECTS, Shape};
use crate::rows;
use std::path::PathBuf;

/// What this process is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Measure.
    Measure(Arguments),
    /// Be the recorder that a measurement starts with the rights under test.
    Record(Order),
    /// Be the recorder that a measurement starts and kills.
    RecordUntilKilled {
        /// The target.
        process_id: u32,
        /// Whether all its threads are recorded, by the clock.
        wall: bool,
    },
    /// Be the process in which a graph of so many objects is measured.
    MeasureGraph(Shape, u64),
}

/// How to measure.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Fewer repetitions than the bars ask for: whether everything works, in a few minutes.
    pub quick: bool,
    /// Only these groups; all, if empty.
    pub only: Vec<String>,
    /// Major version of the runtime that targets run on.
    pub runtime: u32,
    /// Where the numbers go.
    pub json: Option<PathBuf>,
    /// The document whose table is written anew.
    pub document: Option<PathBuf>,
}

/// The order of a separate recorder.
#[derive(Debug, PartialEq, Eq)]
pub struct Order {
    /// The target.
    pub process_id: u32,
    /// How many samples.
    pub samples: u64,
    /// After this many seconds, fewer are enough.
    pub seconds: u32,
    /// The methods whose shares are wanted.
    pub methods: Vec<String>,
}

/// The version of the runtime that is measured if nothing is said.
const DEFAULT_RUNTIME: u32 = 8;

impl Arguments {
    /// Whether a group is to be measured.
    pub fn wants(&self, group: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == group)
    }
}

/// Reads the arguments.
pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut arguments = Arguments { runtime: DEFAULT_RUNTIME, ..Arguments::default() };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value; {}", usage()));
        match word.as_str() {
            "--quick" => arguments.quick = true,
            "--only" => arguments.only.push(known_group(value()?)?),
            "--runtime" => arguments.runtime = number(&value()?)?,
            "--json" => arguments.json = Some(value()?.into()),
            "--write" => arguments.document = Some(value()?.into()),
            "record-shares" => {
                let (process_id, samples, seconds) = (number(&value()?)?, number(&value()?)?, number(&value()?)?);
                return Ok(Command::Record(Order { process_id, samples, seconds, methods: words.collect() }));
            }
            "record-until-killed" => {
                let (process_id, event) = (number(&value()?)?, value()?);
                return Ok(Command::RecordUntilKilled { process_id, wall: event == "wall" });
            }
            "measure-graph" => {
                let name = value()?;
                let shape = Shape::from_name(&name).ok_or_else(|| format!("there is no graph called `{name}`"))?;
                let objects = words.next().map_or(Ok(OBJECTS), |word| number(&word))?;
                return Ok(Command::MeasureGraph(shape, objects));
            }
            other => return Err(format!("`{other}` is not known; {}", usage())),
        }
    }
    Ok(Command::Measure(arguments))
}

fn usage() -> String {
    let names: Vec<&str> = rows::GROUPS.iter().map(|group| group.name).collect();
    format!(
        "cargo xtask bench [--quick] [--only {}]... [--runtime MAJOR] [--json FILE] [--write DOCUMENT]",
        names.join("|")
    )
}

fn known_group(name: String) -> Result<String, String> {
    let known = rows::GROUPS.iter().any(|group| group.name == name);
    if known { Ok(name) } else { Err(format!("there is nothing called `{name}`; {}", usage())) }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number; {}", usage()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn everything_is_measured_on_8_unless_said_otherwise() {
        let Ok(Command::Measure(arguments)) = parsed("") else { panic!("nothing is a fine command line") };
        assert_eq!(arguments.runtime, 8);
        assert!(rows::GROUPS.iter().all(|group| arguments.wants(group.name)));
    }

    #[test]
    fn groups_can_be_picked() {
        let Ok(Command::Measure(arguments)) = parsed("--quick --only truth --only attach --runtime 10") else {
            panic!("a fine command line")
        };
        assert!(arguments.quick && arguments.wants("truth") && arguments.wants("attach"));
        assert!(!arguments.wants("memory"));
        assert_eq!(arguments.runtime, 10);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, named) in
            [("--only nothing", "nothing"), ("--runtime", "--runtime"), ("--runtime x", "`x`"), ("so", "`so`")]
        {
            let message = parsed(line).unwrap_err();
            assert!(message.contains(named) && message.contains("--quick"), "{message}");
        }
    }
}
