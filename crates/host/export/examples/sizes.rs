//! Writes a made-up profile in every format to a directory, and says how long that took and how large it became.
//!
//! `cargo run --release -p remora-export --example sizes -- DIRECTORY [SAMPLES NODES THREADS]`
#![allow(clippy::print_stdout, reason = "an example is a command")]

#[path = "../tests/support/mod.rs"]
mod support;

use remora_export::Format;
use remora_profile::ApplicationRule;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("a directory is missing")?);
    let numbers = arguments.map(|number| number.parse()).collect::<Result<Vec<usize>, _>>()?;
    let [samples, nodes, threads] = numbers.try_into().unwrap_or([1_000_000, 200_000, 24]);
    let profile = match samples {
        0 => support::small(),
        _ => support::synthetic(samples, nodes, threads as u32),
    };
    println!("{samples} samples, {} stack nodes, {threads} threads", profile.stacks().len());
    for format in Format::ALL {
        let path = directory.join(format!("sizes{}", format.ending()));
        let began = Instant::now();
        let mut out = BufWriter::new(File::create(&path)?);
        remora_export::write(&profile, format, &ApplicationRule::default(), &mut out)?;
        out.flush()?;
        let size = path.metadata()?.len();
        println!("{:<12} {:>8.2} s {:>10.2} MB", format.name(), began.elapsed().as_secs_f64(), size as f64 / 1e6);
    }
    Ok(())
}
