//! Lists of slots by their names, for `crates/model/clr-abi`.

use super::HEAD;
use super::table::Table;
use std::fmt::Write;

/// `slot_lists.rs`. Refuses a name without a slot: its entry would have no effect.
pub fn lists(table: &Table) -> Result<String, String> {
    let is_slot = |name: &str| table.interfaces.iter().flat_map(|one| &one.methods).any(|method| method.name == name);
    let mut out = format!("{HEAD}//! Slots that have something in common, by their names in the field.\n");
    for list in &table.lists {
        if let Some(unknown) = list.slots.iter().find(|name| !is_slot(name)) {
            return Err(format!("lists.txt: {} names {unknown}, which is no slot", list.name));
        }
        let slots: String = list.slots.iter().map(|name| format!("    {name:?},\n")).collect();
        let _ = write!(out, "\n/// {}\npub const {}: &[&str] = &[\n{slots}];\n", list.sentence, list.name);
    }
    Ok(out)
}
