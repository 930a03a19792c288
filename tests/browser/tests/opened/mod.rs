//! The page of a recording in a browser.

use remora_browser::Browser;
use remora_export::Format;
use remora_profile::{ApplicationRule, Profile};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// The names in the table.
pub const ROWS: &str =
    "return [...document.querySelectorAll('#rows .short')].map((name) => name.textContent).join('; ')";

/// `name` makes the file's name.
pub fn open(name: &str, profile: &Profile) -> Browser {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    let mut out = BufWriter::new(File::create(&path).expect("a file to write"));
    remora_export::write(profile, Format::Html, &ApplicationRule::default(), &mut out)
        .and_then(|()| out.flush())
        .expect("written");
    Browser::open(&path)
}
