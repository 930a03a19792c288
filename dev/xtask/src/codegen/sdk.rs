//! The SDK's half: the trait that a profiler's author implements, and the path of each callback to it through the unload barrier.

use super::HEAD;
use super::callback::{answer, arguments, default_bool, safe};
use super::table::{Method, Table};
use std::fmt::Write;

/// Callbacks that the SDK answers itself: start, completion, end, and role.
const OWN: [&str; 5] = [
    "Initialize",
    "InitializeForAttach",
    "ProfilerAttachComplete",
    "ProfilerDetachSucceeded",
    "LoadAsNotificationOnly",
];

/// Callbacks that the SDK handles before the author does, to find out whether the runtime still calls.
const HEARD: [(&str, &str); 1] = [("RuntimeSuspendStarted", "self.suspension_begins(reason);\n        ")];

/// The trait's handwritten methods, which are no slots.
const BY_HAND: &str = include_str!("sdk_profiler.txt");

/// `sdk/slots.rs`.
pub fn slots(table: &Table) -> Result<String, String> {
    let methods: Vec<&Method> = table.methods("callback").filter(|one| !OWN.contains(&one.name.as_str())).collect();
    let mut out = String::from(HEAD);
    out.push_str(BY_HAND);
    for method in &methods {
        let safe = safe(table, method)?;
        let (answer, body) = answer(&safe.answer)?;
        let arguments = arguments(table, method)?;
        let arguments: String = arguments.iter().map(|(name, ty)| format!(", {name}: {}", branded(ty))).collect();
        let _ = writeln!(
            out,
            "\n    /// Slot {}, `{}`: {}\n    fn {}(&self, runtime: &Runtime<'rt>{arguments}){answer} {body}",
            method.slot, method.name, safe.sentence, safe.name
        );
    }
    out.push_str("}\n\n");
    out.push_str("impl<P: Profiler<'static>> ProfilerCallback for Adapter<P> {\n    own_slots!();\n");
    for method in &methods {
        forward(table, method, &mut out)?;
    }
    out.push_str("}\n");
    Ok(out)
}

/// Forwards one callback from the runtime to the author.
fn forward(table: &Table, method: &Method, out: &mut String) -> Result<(), String> {
    let safe = safe(table, method)?;
    let (answer, _) = answer(&safe.answer)?;
    let arguments = arguments(table, method)?;
    let taken: String = arguments.iter().map(|(name, ty)| format!(", {name}: {ty}")).collect();
    let passed: String = arguments.iter().map(|(name, ty)| format!(", {}", brand(name, ty))).collect();
    let otherwise = match safe.answer.as_str() {
        "-" => ";".to_owned(),
        "result" => ".unwrap_or(Ok(()))".to_owned(),
        other => format!(".unwrap_or({})", default_bool(other)?),
    };
    let name = &safe.name;
    let heard = HEARD.iter().find(|(slot, _)| *slot == method.name).map_or("", |(_, heard)| heard);
    let _ = writeln!(
        out,
        "\n    fn {name}(&self{taken}){answer} {{\n        {heard}self.inside(|profiler, runtime| profiler.{name}(runtime{passed})){otherwise}\n    }}"
    );
    Ok(())
}

/// Ids are valid in one runtime only; numbers and tokens everywhere.
fn is_id(ty: &str) -> bool {
    ty.trim_start_matches("&[").trim_end_matches(']').ends_with("Id")
}

fn branded(ty: &str) -> String {
    match ty.strip_prefix("&[").and_then(|list| list.strip_suffix(']')) {
        Some(element) if is_id(element) => format!("&[Id<'rt, {element}>]"),
        None if is_id(ty) => format!("Id<'rt, {ty}>"),
        _ => ty.to_owned(),
    }
}

fn brand(name: &str, ty: &str) -> String {
    match (is_id(ty), ty.starts_with('&')) {
        (true, true) => format!("Id::brand_all({name})"),
        (true, false) => format!("Id::brand({name})"),
        (false, _) => name.to_owned(),
    }
}
