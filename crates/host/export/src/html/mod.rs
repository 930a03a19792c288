//! One self-contained page: flame graph, callers, hottest methods, and the account of losses.
//!
//! docs/design/0003-html-flame-graph.md explains why it embeds no library.
//! The page loads nothing: its own policy forbids it. No text of the target becomes markup.
//! The profile is JSON without any `<`, and the script inserts texts as text.

mod data;
mod escape;

use remora_profile::Profile;
use std::io::{self, Write};

const PAGE: &str = include_str!("../../assets/page.html");
const STYLE: &str = include_str!("../../assets/style.css");

/// The script's parts; each builds on earlier ones. They share one scope.
const SCRIPT: [&str; 12] = [
    include_str!("../../assets/text.js"),
    include_str!("../../assets/names.js"),
    include_str!("../../assets/model.js"),
    include_str!("../../assets/trees.js"),
    include_str!("../../assets/search.js"),
    include_str!("../../assets/boxes.js"),
    include_str!("../../assets/paint.js"),
    include_str!("../../assets/graph.js"),
    include_str!("../../assets/table.js"),
    include_str!("../../assets/describe.js"),
    include_str!("../../assets/header.js"),
    include_str!("../../assets/main.js"),
];

pub(crate) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut rest = PAGE;
    while let Some((before, hole, after)) = next_hole(rest) {
        out.write_all(before.as_bytes())?;
        fill(hole, profile, out)?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// Splits at the next `{{name}}`.
fn next_hole(page: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = page.split_once("{{")?;
    let (hole, after) = rest.split_once("}}")?;
    Some((before, hole, after))
}

fn fill(hole: &str, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    match hole {
        "title" => escape::text(&title(profile), out),
        "style" => out.write_all(STYLE.as_bytes()),
        "profile" => escape::json(&data::Page::of(profile), out),
        "script" => SCRIPT.iter().try_for_each(|part| out.write_all(part.as_bytes())),
        _ => Err(io::Error::other(format!("assets/page.html has an unknown hole: {hole}"))),
    }
}

fn title(profile: &Profile) -> String {
    let meta = &profile.meta;
    format!("{} ({}), {} time · Remora", meta.application, meta.process_id, meta.event.name())
}
