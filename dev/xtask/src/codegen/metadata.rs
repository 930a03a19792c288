//! The runtime's half of the metadata interfaces, for `crates/model/clr-abi`: one trait behind the vtables of one object.

use super::HEAD;
use super::callback::vtable;
use super::served::{
    Served, argument_structs, call_with_zeros, literal, noting, parameters, returns, server_methods, slot_constants,
    slot_list, snake,
};
use super::table::{Method, Table, Way};
use std::fmt::Write;

/// One vtable: the interfaces that extend one another, and its names in the generated code.
struct Chain {
    interfaces: &'static [&'static str],
    /// The prefix of its constants.
    constant: &'static str,
    /// The argument of the test's call, and the object's function that finds the object.
    object: &'static str,
    /// What its slots begin with if a slot of an earlier chain has the name.
    double: &'static str,
    /// Whether all its methods have that prefix: theirs have other arguments.
    is_apart: bool,
    /// Whether it changes the metadata.
    emits: bool,
}

const CHAINS: [Chain; 5] = [
    chain(&["IMetaDataImport", "IMetaDataImport2"], "IMPORT", "import", "", [false, false]),
    chain(&["IMetaDataAssemblyImport"], "ASSEMBLY_IMPORT", "assembly", "assembly", [false, false]),
    chain(&["IMetaDataEmit", "IMetaDataEmit2"], "EMIT", "emit", "emit", [false, true]),
    chain(&["IMetaDataAssemblyEmit"], "ASSEMBLY_EMIT", "assembly_emit", "assembly", [false, true]),
    chain(&["IMetaDataTables", "IMetaDataTables2"], "TABLES", "tables", "Tables", [true, false]),
];

const fn chain(
    interfaces: &'static [&'static str],
    constant: &'static str,
    object: &'static str,
    double: &'static str,
    [is_apart, emits]: [bool; 2],
) -> Chain {
    Chain { interfaces, constant, object, double, is_apart, emits }
}

/// The kind of each token that a method can make (source: corhdr.h, CorTokenType).
const KINDS: [(&str, u32); 21] = [
    ("mdTypeRef", 0x0100_0000),
    ("mdTypeDef", 0x0200_0000),
    ("mdFieldDef", 0x0400_0000),
    ("mdMethodDef", 0x0600_0000),
    ("mdParamDef", 0x0800_0000),
    ("mdMemberRef", 0x0A00_0000),
    ("mdCustomAttribute", 0x0C00_0000),
    ("mdPermission", 0x0E00_0000),
    ("mdSignature", 0x1100_0000),
    ("mdEvent", 0x1400_0000),
    ("mdProperty", 0x1700_0000),
    ("mdModuleRef", 0x1A00_0000),
    ("mdTypeSpec", 0x1B00_0000),
    ("mdAssembly", 0x2000_0000),
    ("mdAssemblyRef", 0x2300_0000),
    ("mdFile", 0x2600_0000),
    ("mdExportedType", 0x2700_0000),
    ("mdManifestResource", 0x2800_0000),
    ("mdGenericParam", 0x2A00_0000),
    ("mdMethodSpec", 0x2B00_0000),
    ("mdString", 0x7000_0000),
];

/// `metadata.rs`.
pub fn metadata(table: &Table) -> Result<String, String> {
    let all = served(table)?;
    let mut out = String::from(HEAD);
    out.push_str(
        "//! One method for each question of the metadata interfaces, one thunk and one vtable entry for each slot.\n\
         #![allow(non_snake_case, clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\n\
         use crate::metadata_object::served;\nuse crate::{Answer, MetadataObject, Slot, code};\nuse core::any::Any;\nuse core::ffi::c_void;\nuse corprof::{HResult, sys};\n\n",
    );
    slot_constants(&all, &mut out);
    for chain in &CHAINS {
        let what = chain.interfaces.last().map_or_else(String::new, |last| format!("Every slot of {last}"));
        slot_list(&format!("{}_SLOTS", chain.constant), &what, all.iter().filter(|one| chain.has(one)), &mut out);
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
        "}\n\n/// Calls every slot of each interface as a profiler would, with zeros for arguments.\n///\n/// # Safety\n/// All are of one live object, in the order of its vtables.\n\
         pub unsafe fn call_every_metadata_slot(objects: [*mut sys::IUnknown; 5], mut answered: impl FnMut(&'static str, Option<i32>)) {\n",
    );
    let _ = writeln!(out, "    let [{}] = objects;", CHAINS.map(|chain| chain.object).join(", "));
    for one in &all {
        call_with_zeros(one, chain_of(one)?.object, "Some(answer)", &mut out);
    }
    out.push_str("}\n");
    Ok(out)
}

/// The slots of all. A method that two have becomes one method behind two slots.
fn served(table: &Table) -> Result<Vec<Served<'_>>, String> {
    let mut all: Vec<Served> = Vec::new();
    for chain in &CHAINS {
        for (name, version) in chain.interfaces.iter().zip(1..) {
            let interface = table.interface(name)?;
            for method in &interface.methods {
                let prefix = if chain.is_apart { chain.double } else { "" };
                let mut one = Served { interface, version, method, slot: String::new(), prefix };
                one.slot = one.name();
                if all.iter().any(|other| other.slot == one.slot) {
                    one.slot = format!("{}_{}", chain.double, snake(&method.name));
                }
                all.push(one);
            }
        }
    }
    Ok(all)
}

impl Chain {
    fn finder(&self) -> String {
        format!("of_{}", self.object)
    }

    fn has(&self, one: &Served) -> bool {
        self.interfaces.contains(&one.interface.name.as_str())
    }
}

fn chain_of(one: &Served) -> Result<&'static Chain, String> {
    let found = CHAINS.iter().find(|chain| chain.has(one));
    found.ok_or_else(|| format!("{} is in no vtable", one.interface.name))
}

/// The kind of the token that a method makes, and the name of its place.
fn made(method: &Method) -> Option<(u32, &str)> {
    let last = method.params.last().filter(|last| last.way == Way::Out)?;
    let kind = KINDS.iter().find(|(name, _)| last.ty == *name || last.ty.strip_suffix('*') == Some(name))?.1;
    Some((kind, &last.name))
}

fn server(all: &[Served], out: &mut String) -> Result<(), String> {
    let emits: Vec<&str> =
        CHAINS.iter().filter(|chain| chain.emits).flat_map(|chain| chain.interfaces).copied().collect();
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
         \x20   unsafe fn empty(&self, slot: Slot, list: *mut sys::HCORENUM, count: *mut sys::ULONG) -> Answer {\n        self.refused(slot)\n    }\n\n\
         \x20   /// A method that makes a token of this kind and is not overridden, with the token's place.\n\
         \x20   unsafe fn made(&self, slot: Slot, kind: u32, place: *mut sys::mdToken) -> Answer {\n        self.refused(slot)\n    }\n\n\
         \x20   /// A method that changes a row and is not overridden.\n\
         \x20   fn changed(&self, slot: Slot) -> Answer {\n        self.refused(slot)\n    }\n",
    );
    let refused = |one: &Served| {
        let slot = format!("slot::{}", one.slot.to_uppercase());
        let is_emitted = emits.contains(&one.interface.name.as_str());
        let changes = ["Define", "Set", "Delete"].iter().any(|verb| one.method.name.starts_with(verb));
        match (one.method.params.first(), one.method.params.last()) {
            _ if is_emitted && made(one.method).is_some() => {
                let (kind, place) = made(one.method).unwrap_or_default();
                format!(
                    "        // SAFETY: the place is the profiler's, unchanged.\n        unsafe {{ self.made({slot}, {kind:#x}, args.{place}) }}\n"
                )
            }
            _ if is_emitted && changes => format!("        self.changed({slot})\n"),
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
        literal(one),
        chain_of(one)?.finder(),
        one.slot.to_uppercase()
    );
    Ok(())
}

fn vtables(all: &[Served], out: &mut String) {
    out.push_str("\nimpl<T: MetadataServer> MetadataObject<T> {\n");
    let mut vtables = Vec::new();
    for chain in &CHAINS {
        let mut base = format!("UNKNOWN_OF_{}", chain.constant);
        for (at, name) in chain.interfaces.iter().enumerate() {
            let is_last = at + 1 == chain.interfaces.len();
            let constant = if is_last { chain.constant.to_owned() } else { format!("FIRST_OF_{}", chain.constant) };
            let visible = if is_last { "pub(crate) const" } else { "const" };
            let own = all.iter().filter(|one| one.interface.name == *name);
            let own = own.map(|one| (&one.method.name, &one.slot));
            let mut text = String::new();
            vtable(name, &format!("{visible} {constant}"), &base, own, &mut text);
            vtables.push(text);
            base = constant;
        }
    }
    out.push_str(&vtables.join("\n"));
    out.push_str("}\n");
}
