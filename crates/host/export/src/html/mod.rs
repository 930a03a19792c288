//! One self-contained page: time by application method, timeline, flame graph, callers and callees, and the account of losses.
//!
//! docs/design/0003-html-flame-graph.md explains why it embeds no library.
//! The page loads nothing: its own policy forbids it. No text of the target becomes markup.
//! The profile is JSON without any `<`, and the script inserts texts as text.

mod data;
mod escape;
mod nodes;
mod packed;
mod times;

use crate::sums::{self, Sum};
use remora_profile::{ApplicationRule, Profile};
use std::io::{self, Write};

const PAGE: &str = include_str!("../../assets/page.html");
const STYLE: &str = include_str!("../../assets/style.css");

/// The script's parts; each builds on earlier ones. They share one scope.
const SCRIPT: [&str; 17] = [
    remora_page::SCRIPT,
    include_str!("../../assets/text.js"),
    include_str!("../../assets/names.js"),
    include_str!("../../assets/model.js"),
    include_str!("../../assets/trees.js"),
    include_str!("../../assets/search.js"),
    include_str!("../../assets/boxes.js"),
    include_str!("../../assets/paint.js"),
    include_str!("../../assets/graph.js"),
    include_str!("../../assets/sandwich.js"),
    include_str!("../../assets/times.js"),
    include_str!("../../assets/timeline.js"),
    include_str!("../../assets/application.js"),
    include_str!("../../assets/tables.js"),
    include_str!("../../assets/describe.js"),
    include_str!("../../assets/header.js"),
    include_str!("../../assets/main.js"),
];

pub(crate) fn write(
    profile: &Profile,
    rule: &ApplicationRule,
    advice: &[String],
    out: &mut dyn Write,
) -> io::Result<()> {
    let content = Content { profile, rule, advice, sums: sums::of(profile) };
    let mut rest = PAGE;
    while let Some((before, hole, after)) = next_hole(rest) {
        out.write_all(before.as_bytes())?;
        content.fill(hole, out)?;
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

/// The content of the holes.
struct Content<'a> {
    profile: &'a Profile,
    rule: &'a ApplicationRule,
    advice: &'a [String],
    sums: Vec<Sum>,
}

impl Content<'_> {
    fn fill(&self, hole: &str, out: &mut dyn Write) -> io::Result<()> {
        match hole {
            "title" => escape::text(&title(self.profile), out),
            "style" => [remora_page::STYLE, STYLE].iter().try_for_each(|part| without_comments(part, out)),
            "profile" => escape::json(&data::Page::of(self.profile, self.rule, self.advice, &self.sums), out),
            "script" => SCRIPT.iter().try_for_each(|part| without_comments(part, out)),
            "times" => times::write(self.profile, &self.sums, out),
            _ => Err(io::Error::other(format!("assets/page.html has an unknown hole: {hole}"))),
        }
    }
}

/// Writes a part of the page without the lines that are only comments, and without indentation. Strings have no line breaks there.
fn without_comments(part: &str, out: &mut dyn Write) -> io::Result<()> {
    let lines = part.lines().map(str::trim_start).filter(|line| !line.starts_with("//") && !line.starts_with("/*"));
    lines.filter(|line| !line.is_empty()).try_for_each(|line| writeln!(out, "{line}"))
}

fn title(profile: &Profile) -> String {
    let meta = &profile.meta;
    format!("{} ({}), {} · Remora", meta.application, meta.process_id, meta.subject())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_indentation_stay_out_of_the_page() {
        let mut out = Vec::new();
        let part = "// Why.\n/** What. */\nconst a = () => {\n  // Here.\n  return \"//\";\n};\n\n* { margin: 0; }\n";
        without_comments(part, &mut out).expect("a vector takes all");
        assert_eq!(String::from_utf8_lossy(&out), "const a = () => {\nreturn \"//\";\n};\n* { margin: 0; }\n");
        for part in SCRIPT.iter().chain([&STYLE, &remora_page::STYLE]) {
            let open = part.lines().find(|line| line.trim_start().starts_with("/*") && !line.ends_with("*/"));
            assert_eq!(open, None, "a comment has one line");
        }
    }
}
