//! Measures Remora's cost, accuracy and leftovers, beside the runtime's own sampler on the same targets in the same run.
//!
//! # Purpose
//! `cargo xtask bench` builds everything and starts this. The rows are those of `docs/benchmarks.md`, each beside its bar.
//!
//! # Design constraints
//! Compared values are measured in turns on one process in one run, in random order. A busy machine then widens an interval and shifts no
//! mean.
//! The peer is the runtime's sampler with the requests of `dotnet-trace collect`, driven by our own client.
//!
//! # Rejected
//! Failing for a missed bar: times are shown, never tested. Only a failed measurement is a failure.
#![forbid(unsafe_code)]
// Printing results is the purpose of this program.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod account;
mod agent;
mod arguments;
mod bench;
mod event_pipe;
mod gcdump;
mod graphs;
mod growth;
mod killed;
mod load;
mod paired;
mod peer;
mod perf;
mod process;
mod rights;
mod rows;
mod shares;
mod statistics;
mod table;

use account::Account;
use arguments::{Arguments, Role};
use bench::Bench;
use clap::Parser as _;
use remora_e2e::Runtime;
use remora_profile::Event;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;
use table::{Row, Table};

/// A failure is only printed.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.role {
        None => measure(&arguments),
        Some(Role::RecordShares(order)) => rights::record(order).map(|()| true),
        Some(Role::RecordUntilKilled { process_id, event }) => {
            let event = if event == "wall" { Event::Wall } else { Event::Cpu };
            killed::record(*process_id, event).map(|()| true)
        }
        Some(Role::MeasureGraph { shape, objects }) => graphs::measure(*shape, *objects).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs every requested row; returns whether all could be measured.
fn measure(arguments: &Arguments) -> Outcome<bool> {
    let begun = Instant::now();
    let mut bench = Bench {
        library: bench::library()?,
        runtime: Runtime::major_is(arguments.runtime),
        quick: arguments.quick,
        account: Account::default(),
    };
    let mut table = Table { head: bench.head(), rows: Vec::new() };
    println!("{}", table.head.join("\n"));
    let mut complete = true;
    for group in rows::GROUPS.iter().filter(|group| arguments.wants(group.name)) {
        println!("[{:4} s] {}: {}", begun.elapsed().as_secs(), group.name, group.about);
        match attempt(|| (group.run)(&mut bench)) {
            Ok(rows) => table.rows.extend(rows),
            Err(message) => {
                eprintln!("error: {} could not be measured: {message}", group.name);
                table.rows.push(Row::shown(group.about, format!("could not be measured: {message}")));
                complete = false;
            }
        }
    }
    table.rows.extend(bench.account.rows());
    if arguments.quick {
        // With so few repetitions, meeting or missing a bar is chance.
        table.rows.iter_mut().for_each(|row| row.met = None);
    }
    table.head.push(format!("took {} s; {}", begun.elapsed().as_secs(), process::load()));
    println!("\n{}", table.text());
    write(&table, arguments)?;
    Ok(complete)
}

/// A misbehaving target makes the harness panic: that ends this group of rows, not the run.
fn attempt(run: impl FnOnce() -> Outcome<Vec<Row>>) -> Result<Vec<Row>, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(panic) => Err(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "the harness gave up".to_owned())),
    }
}

fn write(table: &Table, arguments: &Arguments) -> Outcome<()> {
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{:#}\n", table.json()))?;
        println!("numbers: {}", path.display());
    }
    if let Some(path) = &arguments.document {
        let document = std::fs::read_to_string(path)?;
        let Some(written) = table.written_into(&document) else {
            return Err(format!(
                "{} has no place for the table: two markers `bench: begin` and `bench: end`",
                path.display()
            )
            .into());
        };
        std::fs::write(path, written)?;
        println!("table: {}", path.display());
    }
    Ok(())
}
