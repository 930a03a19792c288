//! The command line.

use crate::graphs::{OBJECTS, Shape};
use crate::rows;
use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Measures what Remora costs and how true it is, beside the runtime's own sampler.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
pub struct Arguments {
    /// Repeat less than the bars ask for: whether everything works, in a few minutes
    #[arg(long)]
    pub quick: bool,
    /// Only this group; may be given several times
    #[arg(long, value_name = "GROUP", value_parser = PossibleValuesParser::new(rows::names()))]
    pub only: Vec<String>,
    /// Major version of the runtime that targets run on
    #[arg(long, value_name = "MAJOR", default_value_t = 8)]
    pub runtime: u32,
    /// Where the numbers go
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The document whose table is written anew
    #[arg(long = "write", value_name = "DOCUMENT")]
    pub document: Option<PathBuf>,
    /// What else this process may be, started by a measurement.
    #[command(subcommand)]
    pub role: Option<Role>,
}

/// What a measurement starts this program as.
#[derive(Debug, Subcommand)]
#[command(hide = true)]
pub enum Role {
    /// The recorder with the rights under test.
    RecordShares(Order),
    /// The recorder that is killed.
    RecordUntilKilled {
        /// The target.
        process_id: u32,
        /// `cpu`, or `wall` for all threads.
        event: String,
    },
    /// The process in which a graph of so many objects is measured.
    MeasureGraph {
        /// Who refers to whom.
        shape: Shape,
        /// How many there are.
        #[arg(default_value_t = OBJECTS)]
        objects: u64,
    },
}

/// The order of a separate recorder.
#[derive(Debug, clap::Args)]
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

impl Arguments {
    /// Whether a group is to be measured.
    pub fn wants(&self, group: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(["bench"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn everything_is_measured_on_8_unless_said_otherwise() {
        let arguments = parsed("").unwrap();
        assert_eq!(arguments.runtime, 8);
        assert!(rows::GROUPS.iter().all(|group| arguments.wants(group.name)));
    }

    #[test]
    fn groups_can_be_picked() {
        let arguments = parsed("--quick --only truth --only attach --runtime 10").unwrap();
        assert!(arguments.quick && arguments.wants("truth") && arguments.wants("attach"));
        assert!(!arguments.wants("memory"));
        assert_eq!(arguments.runtime, 10);
    }

    #[test]
    fn what_a_measurement_starts_is_understood() {
        let role = |line| parsed(line).unwrap().role.unwrap();
        let Role::RecordShares(order) = role("record-shares 12 800 4 Alpha Beta") else { panic!("a recorder") };
        assert_eq!((order.process_id, order.samples, order.seconds), (12, 800, 4));
        assert_eq!(order.methods, ["Alpha", "Beta"]);
        assert!(matches!(
            role("measure-graph uniform"),
            Role::MeasureGraph { shape: Shape::Uniform, objects: OBJECTS }
        ));
        assert!(matches!(role("measure-graph local 1000"), Role::MeasureGraph { shape: Shape::Local, objects: 1000 }));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, named) in
            [("--only nothing", "nothing"), ("--runtime", "--runtime"), ("--runtime x", "'x'"), ("so", "'so'")]
        {
            let message = parsed(line).unwrap_err().to_string();
            assert!(message.contains(named), "{message}");
        }
    }
}
