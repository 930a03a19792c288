//! Writes the golden recording of the current version to the path given; see `tests/golden/profile.rs`.
#[path = "../tests/golden/profile.rs"]
mod profile;

use remora_recording::Writer;
use std::{error::Error, fs::File};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("give the path of the file to write")?;
    Writer::create(File::create_new(path)?)?.finish(&profile::golden())?;
    Ok(())
}
