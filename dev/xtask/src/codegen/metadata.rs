//! The runtime's half of the metadata interfaces, for `crates/model/clr-abi`: one trait behind the two vtables of one object.

use super::HEAD;
use super::callback::vtable;
use super::served::{
    Served, argument_structs, call_with_zeros, literal, noting, parameters, returns, server_methods, slot_constants,
    slot_list, snake,
};
use super::table::Table;
use std::fmt::Write;

/// The interfaces that extend one another, and the one beside them.
const CHAIN: [&str; 2] = ["IMetaDataImport", "IMetaDataImport2"];
const BESIDE: &str = "IMetaDataAssemblyImport";

/// `metadata.rs`.
pub fn metadata(table: &Table) -> Result<String, String> {
    let all = served(table)?;
    let mut out = String::from(HEAD);
    out.push_str(
        "//! One method for each question of IMetaDataImport2 and IMetaDataAssemblyImport, one thunk and one vtable entry for each slot.\n\
         #![allow(non_snake_case, clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\n\
         use crate::metadata_object::served;\nuse crate::{Answer, MetadataObject, Slot, code};\nuse core::any::Any;\nuse core::ffi::c_void;\nuse corprof::{HResult, sys};\n\n",
    );
    slot_constants(&all, &mut out);
    for (list, what, beside) in [("IMPORT_SLOTS", CHAIN[1], false), ("ASSEMBLY_IMPORT_SLOTS", BESIDE, true)] {
        let slots = all.iter().filter(|one| is_beside(one) == beside);
        slot_list(list, &format!("Every slot of {what}"), slots, &mut out);
    }
    argument_structs(table, &all, &mut out);
    server(&all, &mut out)?;
    for one in &all {
        thunk(table, one, &mut out)?;
    }
    vtables(&all, &mut out);
    Ok(out)
}

/// For `tests/support/generated.rs`: a server that logs each method call, and calls of every slot.
pub fn support(table: &Table) -> Result<String, String> {
    let all = served(table)?;
    let mut out = String::from(
        "\nimpl MetadataServer for Noted {\n    fn enter(&self, slot: Slot) -> Result<(), HResult> {\n        self.entered(slot)\n    }\n\n\
         \x20   fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {\n        self.caught(slot, payload);\n    }\n\n\
         \x20   fn unknown(&self, slot: Slot) {\n        self.counted(slot);\n    }\n",
    );
    noting(&all, "metadata", &mut out)?;
    out.push_str(
        "}\n\n/// Calls every slot of both interfaces as a profiler would, with zeros for arguments.\n///\n/// # Safety\n/// Both are of one live object.\n\
         pub unsafe fn call_every_metadata_slot(import: *mut sys::IUnknown, assembly: *mut sys::IUnknown, mut answered: impl FnMut(&'static str, Option<i32>)) {\n",
    );
    for one in &all {
        call_with_zeros(one, if is_beside(one) { "assembly" } else { "import" }, "Some(answer)", &mut out);
    }
    out.push_str("}\n");
    Ok(out)
}

/// The slots of both. A method that both have becomes one method behind two slots.
fn served(table: &Table) -> Result<Vec<Served<'_>>, String> {
    let mut all: Vec<Served> = Vec::new();
    for (name, version) in CHAIN.iter().zip(1..).chain([(&BESIDE, 1)]) {
        let interface = table.interface(name)?;
        for method in &interface.methods {
            let name = snake(&method.name);
            let is_double = all.iter().any(|one| one.slot == name);
            let slot = if is_double { format!("assembly_{name}") } else { name };
            all.push(Served { interface, version, method, slot });
        }
    }
    Ok(all)
}

fn is_beside(one: &Served) -> bool {
    one.interface.name == BESIDE
}

fn server(all: &[Served], out: &mut String) -> Result<(), String> {
    out.push_str(
        "/// What serves a module's metadata behind its vtables: one method for each question, each refusing until it is overridden.\n\
         ///\n\
         /// # Safety of the methods\n\
         /// A pointer is what the profiler gave: nothing about it was checked.\n\
         #[allow(unused_variables, reason = \"the defaults refuse\")]\n\
         #[allow(clippy::missing_safety_doc, reason = \"stated once above\")]\n\
         pub trait MetadataServer: Send + Sync + Sized + 'static {\n\
         \x20   /// Before every slot: an error is answered to the profiler without the call, and is nothing where a slot answers no code.\n\
         \x20   fn enter(&self, slot: Slot) -> Result<(), HResult>;\n\n\
         \x20   /// A slot or its `enter` panicked: the profiler is answered `E_UNEXPECTED`, and the payload is this method's to keep.\n\
         \x20   fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>);\n\n\
         \x20   /// One of the three slots of IUnknown was called. They answer what they answer, and do not go through `enter`.\n\
         \x20   fn unknown(&self, slot: Slot) {}\n\n\
         \x20   /// A question that is not overridden.\n\
         \x20   fn refused(&self, slot: Slot) -> Answer {\n        Err(HResult::E_NOTIMPL)\n    }\n\n\
         \x20   /// An enumeration that is not overridden, with the places of its list and of its count.\n\
         \x20   unsafe fn empty(&self, slot: Slot, list: *mut sys::HCORENUM, count: *mut sys::ULONG) -> Answer {\n        self.refused(slot)\n    }\n",
    );
    let refused = |one: &Served| {
        let slot = format!("slot::{}", one.slot.to_uppercase());
        match (one.method.params.first(), one.method.params.last()) {
            (Some(list), Some(count)) if list.name == "phEnum" => format!(
                "        // SAFETY: the pointers are the profiler's, unchanged.\n        unsafe {{ self.empty({slot}, args.phEnum, args.{}) }}\n",
                count.name
            ),
            _ => format!("        self.refused({slot})\n"),
        }
    };
    server_methods(all, refused, out)
}

fn thunk(table: &Table, one: &Served, out: &mut String) -> Result<(), String> {
    let (answer, _, [before, after]) = returns(one.method)?;
    let _ = write!(
        out,
        "\nunsafe extern \"system\" fn {}<T: MetadataServer>(this: *mut c_void{}){answer} {{\n\
         \x20   // SAFETY: the arguments are the profiler's, unchanged; the server promises to expect anything.\n\
         \x20   let call = |server: &T| unsafe {{ server.{}(args::{}) }};\n\
         \x20   // SAFETY: the profiler calls through this very vtable of a live object.\n\
         \x20   let object = unsafe {{ MetadataObject::<T>::{}(this) }};\n\
         \x20   {before}served(object, slot::{}, call){after}\n}}\n",
        one.slot,
        parameters(table, one.method),
        one.name(),
        literal(one.method),
        if is_beside(one) { "of_assembly" } else { "of_import" },
        one.slot.to_uppercase()
    );
    Ok(())
}

fn vtables(all: &[Served], out: &mut String) {
    out.push_str("\nimpl<T: MetadataServer> MetadataObject<T> {\n");
    for (name, constant, base) in [
        (CHAIN[0], "const FIRST", "UNKNOWN"),
        (CHAIN[1], "pub(crate) const IMPORT", "FIRST"),
        (BESIDE, "pub(crate) const ASSEMBLY", "UNKNOWN_BESIDE"),
    ] {
        let own = all.iter().filter(|one| one.interface.name == name);
        vtable(name, constant, base, own.map(|one| (&one.method.name, &one.slot)), out);
        if name != BESIDE {
            out.push('\n');
        }
    }
    out.push_str("}\n");
}
