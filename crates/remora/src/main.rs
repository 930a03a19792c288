//! The `remora` command: the only crate that prints, reads arguments and environment, or exits.
//!
//! # Purpose
//! Each command is a module. It turns arguments into a plan, calls the other crates, and prints the result.
//!
//! # Design constraints
//! Results go to standard output, everything else to standard error.
//! A failure is one line with the cause and the fix ([`failure`]), and a documented exit status ([`exit`]).
//!
//! # Rejected
//! A configuration file: the command line alone should explain a recording.
#![forbid(unsafe_code)]

mod args;
mod baseline;
mod bounded;
mod check;
mod client_data;
mod console;
mod convert;
mod detach;
mod detach_wait;
mod exit;
mod failure;
mod heap;
mod instance_lock;
mod kind;
mod lab;
mod library;
mod lock_holder;
mod method_trace;
mod model;
mod output;
mod preconditions;
mod ps;
mod record;
mod report;
mod shell;
mod stop;
mod target;
mod trace;

use args::{Command, CommandLine};
use clap::Parser;
use clap::error::ErrorKind;
use exit::Exit;
use failure::Failure;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let exit = run();
    console::flush();
    exit
}

fn run() -> ExitCode {
    // A file at its size limit (`ulimit -f`) then causes a write error instead of a fatal signal.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    // Who started us may have ignored this one, and then nobody could ask how a child ended.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGCHLD, Arc::default());
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => return refused(&error).into(),
    };
    let ended = match &line.command {
        Command::Record(args) => return code(record::run(args), &line),
        Command::Trace(args) if args.command.is_empty() => method_trace::run(args),
        Command::Trace(args) => return code(trace::run(args), &line),
        Command::Report(args) => report::run(args).map(|()| Exit::Done),
        Command::Convert(args) => convert::run(args).map(|()| Exit::Done),
        Command::Ps(args) => ps::run(args).map(|()| Exit::Done),
        Command::Check(args) => check::run(args),
        Command::Detach(args) => detach::run(args),
        Command::Heap(args) => heap::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Model(args) => model::run(args),
        Command::Completions(args) => shell::completions(args).map(|()| Exit::Done),
        Command::Man(args) => shell::man(args).map(|()| Exit::Done),
        Command::LabRun(args) => lab::run_one(args),
    };
    code(ended.map(ExitCode::from), &line)
}

fn code(ended: Result<ExitCode, Failure>, line: &CommandLine) -> ExitCode {
    ended.unwrap_or_else(|failure| failed(&failure, line.command.prints_json()).into())
}

/// Reports a failure: as text on standard error, and as JSON on standard output unless a result is there.
fn failed(failure: &Failure, json: bool) -> Exit {
    if json && !console::has_printed() {
        // If standard output is closed, the exit status remains.
        let _ = console::out(&failure.json());
    }
    console::note(&format!("remora: {}", failure.line()));
    failure.exit()
}

/// Prints help where it was requested; otherwise reports on one line why the arguments are invalid.
fn refused(error: &clap::Error) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let asked = error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            match error.print() {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    failed(&Failure::output(failure::Place::StandardOutput, error), false)
                }
                _ if asked => Exit::Done,
                _ => Exit::Usage,
            }
        }
        _ => {
            let words: Vec<String> = std::env::args_os().skip(1).map_while(|word| word.into_string().ok()).collect();
            failed(&Failure::Usage(args::in_one_line(error, &words)), words.iter().any(|word| word == "--json"))
        }
    }
}
