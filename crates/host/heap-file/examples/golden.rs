//! Writes the golden snapshot of the current version to the path given; see `tests/golden/snapshot.rs`.
#[path = "../tests/golden/snapshot.rs"]
mod snapshot;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("give the path of the file to write")?;
    Ok(std::fs::write(path, snapshot::file()?)?)
}
