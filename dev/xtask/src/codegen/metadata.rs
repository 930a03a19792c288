//! The runtime's half of the metadata interfaces, for `crates/model/clr-abi`: one trait behind the two vtables of one object.

use super::HEAD;
use super::served::{argument_structs, literal, parameters, snake};
use super::table::{Interface, Method, Table};
use std::fmt::Write;

/// The interfaces that extend one another, and the one beside them.
const CHAIN: [&str; 2] = ["IMetaDataImport", "IMetaDataImport2"];
const BESIDE: &str = "IMetaDataAssemblyImport";

/// A method of one of them, and its name in Rust. A method that both have becomes one method behind two slots.
struct Served<'a> {
    interface: &'a Interface,
    version: usize,
    method: &'a Method,
    /// The name of the slot's constant and of its thunk.
    slot: String,
    is_beside: bool,
}

impl Served<'_> {
    fn name(&self) -> String {
        snake(&self.method.name)
    }
}

/// `metadata.rs`.
pub fn metadata(table: &Table) -> Result<String, String> {
    let all = served(table)?;
    let mut out = String::from(HEAD);
    out.push_str(
        "//! One method for each question of IMetaDataImport2 and IMetaDataAssemblyImport, one thunk and one vtable entry for each slot.\n\
         #![allow(non_snake_case, clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\n\
         use crate::metadata_object::served;\nuse crate::{Answer, MetadataObject, Slot, code};\nuse core::any::Any;\nuse core::ffi::c_void;\nuse corprof::{HResult, sys};\n\n",
    );
    slots(&all, &mut out);
    argument_structs(table, once(&all).map(|one| one.method), &mut out);
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
    for one in once(&all) {
        let (name, called) = (one.name(), format!("self.called({:?})", one.method.name));
        let body = match one.method.returns.as_str() {
            "void" => format!("{called};"),
            "BOOL" => format!("{called} == HResult::S_FALSE"),
            _ => format!("Ok({called})"),
        };
        let (args, returns) = (&one.method.name, returns(one.method)?.1);
        let _ = write!(
            out,
            "\n    unsafe fn {name}(&self, _: metadata::args::{args}){returns} {{\n        {body}\n    }}\n"
        );
    }
    out.push_str(
        "}\n\n/// Calls every slot of both interfaces as a profiler would, with zeros for arguments.\n///\n/// # Safety\n/// Both are of one live object.\n\
         pub unsafe fn call_every_metadata_slot(import: *mut sys::IUnknown, assembly: *mut sys::IUnknown, mut answered: impl FnMut(&'static str, Option<i32>)) {\n",
    );
    for one in &all {
        let (interface, method) = (&one.interface.name, &one.method.name);
        let zeros = ", zeroed()".repeat(one.method.params.len());
        let object = if one.is_beside { "assembly" } else { "import" };
        let call = format!("unsafe {{ sys::{interface}::{method}({object}.cast(){zeros}) }}");
        out.push_str("    // SAFETY: the object is alive, and zero is a value of every argument.\n");
        let _ = if one.method.returns == "void" {
            write!(out, "    {call};\n    answered({method:?}, None);\n")
        } else {
            write!(out, "    let answer = {call};\n    answered({method:?}, Some(answer));\n")
        };
    }
    out.push_str("}\n");
    Ok(out)
}

fn served(table: &Table) -> Result<Vec<Served<'_>>, String> {
    let mut all: Vec<Served> = Vec::new();
    for (name, version) in CHAIN.iter().zip(1..).chain([(&BESIDE, 1)]) {
        let (interface, is_beside) = (table.interface(name)?, *name == BESIDE);
        for method in &interface.methods {
            let name = snake(&method.name);
            let is_double = all.iter().any(|one| one.slot == name);
            let slot = if is_double { format!("assembly_{name}") } else { name };
            all.push(Served { interface, version, method, slot, is_beside });
        }
    }
    Ok(all)
}

/// Each method of the trait once.
fn once<'a, 'b>(all: &'b [Served<'a>]) -> impl Iterator<Item = &'b Served<'a>> {
    all.iter().filter(|one| one.slot == one.name())
}

/// A slot's return type, its method's return type, and the conversion between them.
fn returns(method: &Method) -> Result<(&'static str, &'static str, [&'static str; 2]), String> {
    match method.returns.as_str() {
        "HRESULT" => Ok((" -> sys::HRESULT", " -> Answer", ["code(", ").0"])),
        "void" => Ok(("", "", ["", ""])),
        "BOOL" => Ok((" -> sys::BOOL", " -> bool", ["sys::BOOL::from(", ")"])),
        other => Err(format!("{}: nothing can be served that answers {other}", method.name)),
    }
}

fn slots(all: &[Served], out: &mut String) {
    out.push_str("/// Every slot by its name.\npub mod slot {\n    use crate::Slot;\n\n");
    for Served { interface, version, method, slot, .. } in all {
        let _ = writeln!(
            out,
            "    /// `{}` of {}.\n    pub const {}: Slot = Slot {{ index: {}, name: {:?}, version: {version} }};",
            method.name,
            interface.name,
            slot.to_uppercase(),
            method.slot,
            method.name
        );
    }
    out.push_str("}\n\n");
    for (list, what, is_beside) in [("IMPORT_SLOTS", CHAIN[1], false), ("ASSEMBLY_IMPORT_SLOTS", BESIDE, true)] {
        let _ = writeln!(out, "/// Every slot of {what}, from 3 on.\npub const {list}: &[Slot] = &[");
        for one in all.iter().filter(|one| one.is_beside == is_beside) {
            let _ = writeln!(out, "    slot::{},", one.slot.to_uppercase());
        }
        out.push_str("];\n\n");
    }
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
    for one in once(all) {
        let slot = format!("slot::{}", one.slot.to_uppercase());
        let body = match (one.method.returns.as_str(), one.method.params.first(), one.method.params.last()) {
            ("void", ..) => String::new(),
            ("BOOL", ..) => "        false\n".to_owned(),
            (_, Some(list), Some(count)) if list.name == "phEnum" => format!(
                "        // SAFETY: the pointers are the profiler's, unchanged.\n        unsafe {{ self.empty({slot}, args.phEnum, args.{}) }}\n",
                count.name
            ),
            _ => format!("        self.refused({slot})\n"),
        };
        let _ = write!(
            out,
            "\n    /// Slot {}, `{}` of {}.\n    unsafe fn {}(&self, args: args::{}){} {{\n{body}    }}\n",
            one.method.slot,
            one.method.name,
            one.interface.name,
            one.name(),
            one.method.name,
            returns(one.method)?.1
        );
    }
    out.push_str("}\n");
    Ok(())
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
        if one.is_beside { "of_assembly" } else { "of_import" },
        one.slot.to_uppercase()
    );
    Ok(())
}

fn vtables(all: &[Served], out: &mut String) {
    out.push_str("\nimpl<T: MetadataServer> MetadataObject<T> {\n");
    for (name, constant, base) in [
        (CHAIN[0], "FIRST", "Self::UNKNOWN"),
        (CHAIN[1], "IMPORT", "Self::FIRST"),
        (BESIDE, "ASSEMBLY", "Self::UNKNOWN_BESIDE"),
    ] {
        let visible = if constant == "FIRST" { "" } else { "pub(crate) " };
        let _ =
            writeln!(out, "    {visible}const {constant}: sys::{name}Vtbl = sys::{name}Vtbl {{\n        base: {base},");
        for one in all.iter().filter(|one| one.interface.name == name) {
            let _ = writeln!(out, "        {}: {}::<T>,", one.method.name, one.slot);
        }
        out.push_str(if name == BESIDE { "    };\n" } else { "    };\n\n" });
    }
    out.push_str("}\n");
}
