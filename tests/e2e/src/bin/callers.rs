//! `cargo xtask callers RECORDING REFERENCE`: prints the callers of the reference that the recording has lost.
#![forbid(unsafe_code)]
// The purpose of this program is to print its result.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use remora_e2e::callers::{Lost, read};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [recording, reference] = files.as_slice() else {
        eprintln!(
            "error: name two recordings: the one to check, and one of the same program by the runtime's own sampler"
        );
        return ExitCode::from(2);
    };
    match read(recording).and_then(|recording| Ok(Lost::between(&recording, &read(reference)?))) {
        Ok(lost) if lost.is_nothing() => {
            println!("no caller is lost");
            ExitCode::SUCCESS
        }
        Ok(lost) => {
            for ((caller, missing, callee), weight) in lost.edges {
                println!("{caller} > {callee}: without {} ({} ms)", missing.join(" > "), weight / 1_000_000);
            }
            lost.methods.iter().for_each(|method| println!("{method}: in the reference only"));
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}
