//! The raw half: types, constants and vtables of `sys`, with the names of corprof.idl.

use super::HEAD;
use super::table::{GROUPS, HOSTING, Interface, Method, Param, Table, Way};
use std::fmt::Write;

/// `sys/mod.rs`.
pub fn module(table: &Table) -> String {
    let mut out = String::from(HEAD);
    out.push_str(
        "//! The profiling API as the runtime declares it: every interface, slot, parameter, struct and constant, untouched.\n\
         //!\n\
         //! Names are those of corprof.idl, so that the runtime's own documentation can be searched for them.\n\
         //! Every method is also an associated function of its interface that calls the slot.\n\
         //!\n\
         //! # Safety of the calls\n\
         //! `this` must be a live object of that interface, and every pointer must be valid for what the method reads and writes.\n\
         #![allow(missing_docs, reason = \"the runtime's documentation describes these names\")]\n\
         #![allow(non_snake_case, non_camel_case_types, non_upper_case_globals, reason = \"names stay as in corprof.idl\")]\n\
         #![allow(clippy::missing_safety_doc, clippy::too_many_arguments, reason = \"stated once above; the runtime's signatures\")]\n\n",
    );
    for name in GROUPS.iter().chain(&["types", "constants"]) {
        let _ = writeln!(out, "mod {name};\npub use {name}::*;");
    }
    out.push_str(
        "\n/// What the table says of one interface, for whoever checks an object against it.\n\
         #[derive(Debug, Clone, Copy)]\n\
         pub struct InterfaceFacts {\n\
         \x20   /// Its name.\n    pub name: &'static str,\n\
         \x20   /// The interface it extends.\n    pub base: Option<&'static str>,\n\
         \x20   /// Its identifier.\n    pub iid: GUID,\n\
         \x20   /// Its own first slot.\n    pub first: usize,\n\
         \x20   /// Its last slot.\n    pub last: usize,\n\
         \x20   /// Bytes of its vtable as compiled.\n    pub vtable_size: usize,\n}\n\n\
         /// Every interface of the table.\n\
         pub const INTERFACES: &[InterfaceFacts] = &[\n",
    );
    for one in table.interfaces.iter().filter(|one| one.group != HOSTING) {
        let base = one.base.as_ref().map_or("None".to_owned(), |base| format!("Some({base:?})"));
        let _ = writeln!(
            out,
            "    InterfaceFacts {{ name: {:?}, base: {base}, iid: IID_{}, first: {}, last: {}, vtable_size: size_of::<{}Vtbl>() }},",
            one.name, one.name, one.first, one.last, one.name
        );
    }
    out.push_str("];\n");
    out
}

/// `sys/types.rs`.
pub fn types(table: &Table) -> String {
    let mut out = String::from(HEAD);
    out.push_str("//! Scalars, structs and functions of the profiling API.\n\nuse core::ffi::{c_char, c_void};\n\npub use crate::guid::Guid as GUID;\n\n");
    for (name, ty) in &table.scalars {
        let _ = writeln!(out, "pub type {name} = {ty};");
    }
    for (name, fields) in &table.structs {
        let _ = writeln!(out, "\n#[repr(C)]\n#[derive(Debug, Clone, Copy)]\npub struct {name} {{");
        for field in fields {
            let _ = writeln!(out, "    pub {}: {},", identifier(&field.name), field.ty);
        }
        out.push_str("}\n");
    }
    out.push('\n');
    for function in &table.functions {
        let inner: Vec<String> =
            function.fields.iter().map(|field| format!("{}: {}", identifier(&field.name), field.ty)).collect();
        let returns = function.returns.as_ref().map_or(String::new(), |ty| format!(" -> {ty}"));
        let _ = writeln!(out, "pub type {} = unsafe extern \"C\" fn({}){returns};", function.name, inner.join(", "));
    }
    out
}

/// `sys/constants.rs`.
pub fn constants(table: &Table) -> String {
    let mut out = String::from(HEAD);
    out.push_str("//! Enums and flags of the profiling API.\n");
    for one in &table.enums {
        let _ = writeln!(out, "\npub type {} = {};", one.name, one.ty);
        for (name, value) in one.members.iter().skip(1) {
            let _ = writeln!(out, "pub const {name}: {} = {value};", one.name);
        }
    }
    out
}

/// One file of interfaces.
pub fn interfaces(table: &Table, group: &str) -> Result<String, String> {
    let mut out = String::from(HEAD);
    let _ = write!(out, "//! The interfaces of the group `{group}`.\n\nuse super::*;\nuse core::ffi::c_void;\n");
    for one in table.group(group) {
        interface(table, one, &mut out)?;
    }
    Ok(out)
}

/// `hosting.rs`, for `crates/model/clr-abi`: each vtable can also be made of slots that refuse.
pub fn hosting(table: &Table) -> Result<String, String> {
    let mut out = String::from(HEAD);
    out.push_str(
        "//! The hosting interfaces of the .NET Framework, and IEnumUnknown. The safety of the calls is that of [`corprof::sys`].\n\
         #![allow(missing_docs, reason = \"the runtime's documentation describes these names\")]\n\
         #![allow(non_snake_case, non_upper_case_globals, reason = \"names stay as in metahost.h\")]\n\
         #![allow(clippy::missing_safety_doc, clippy::too_many_arguments, reason = \"as for corprof::sys; the runtime's signatures\")]\n\n\
         use core::ffi::c_void;\nuse corprof::HResult;\nuse corprof::sys::*;\n",
    );
    for one in table.interfaces.iter().filter(|one| one.group == HOSTING) {
        interface(table, one, &mut out)?;
        refusing(table, one, &mut out);
    }
    Ok(out)
}

fn refusing(table: &Table, one: &Interface, out: &mut String) {
    let (name, mut slots) = (&one.name, String::new());
    let _ = write!(
        out,
        "\nimpl {name}Vtbl {{\n    /// A vtable whose every slot answers `E_NOTIMPL`.\n    pub const fn refusing(base: IUnknownVtbl) -> {name}Vtbl {{\n"
    );
    for method in &one.methods {
        let types: String = method.params.iter().map(|param| format!(", _: {}", rust_type(table, param))).collect();
        let _ = writeln!(
            out,
            "        unsafe extern \"system\" fn {}(_: *mut c_void{types}) -> HRESULT {{\n            HResult::E_NOTIMPL.0\n        }}",
            method.name
        );
        let _ = write!(slots, ", {}", method.name);
    }
    let _ = writeln!(out, "        {name}Vtbl {{ base{slots} }}\n    }}\n}}");
}

fn interface(table: &Table, one: &Interface, out: &mut String) -> Result<(), String> {
    let name = &one.name;
    let number = format!("0x{}", one.iid.replace('-', "_"));
    let since = one.since.as_ref().map_or(String::new(), |since| format!(" Since {since}."));
    let _ = write!(
        out,
        "\npub const IID_{name}: GUID = GUID::from_u128({number});\n\n\
         /// Slots {}..{}.{since}\n#[repr(C)]\npub struct {name} {{\n    pub vtbl: *const {name}Vtbl,\n}}\n\n\
         /// The vtable of [`{name}`].\n#[repr(C)]\npub struct {name}Vtbl {{\n",
        one.first, one.last
    );
    if let Some(base) = &one.base {
        let _ = writeln!(out, "    pub base: {base}Vtbl,");
    }
    for method in &one.methods {
        let _ = writeln!(out, "    /// Slot {}.\n    pub {}: {},", method.slot, method.name, pointer(table, method));
    }
    let _ = write!(out, "}}\n\nimpl {name} {{\n");
    for (index, method) in one.methods.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        call(table, name, method, out);
    }
    out.push_str("}\n");
    Ok(())
}

fn pointer(table: &Table, method: &Method) -> String {
    let params = parameters(table, method);
    format!("unsafe extern \"system\" fn(this: *mut c_void{params}){}", returns(method))
}

fn call(table: &Table, interface: &str, method: &Method, out: &mut String) {
    let params = parameters(table, method);
    let names: String = method.params.iter().map(|param| format!(", {}", identifier(&param.name))).collect();
    let _ = write!(
        out,
        "    /// Slot {}.\n    #[inline]\n    pub unsafe fn {}(this: *mut {interface}{params}){} {{\n\
         \x20       // SAFETY: the caller vouches for `this` and every pointer, as the module says.\n\
         \x20       unsafe {{ ((*(*this).vtbl).{})(this.cast(){names}) }}\n    }}\n",
        method.slot,
        method.name,
        returns(method),
        method.name
    );
}

fn parameters(table: &Table, method: &Method) -> String {
    let typed = |param: &Param| format!(", {}: {}", identifier(&param.name), rust_type(table, param));
    method.params.iter().map(typed).collect()
}

fn returns(method: &Method) -> String {
    if method.returns == "void" { String::new() } else { format!(" -> {}", method.returns) }
}

/// The Rust type of a parameter in `sys`.
pub fn rust_type(table: &Table, param: &Param) -> String {
    let inner = if param.ty == "void" { "c_void" } else { &param.ty };
    if table.is_function(inner) {
        return format!("Option<{inner}>");
    }
    let is_interface = table.interfaces.iter().any(|one| one.name == inner);
    let depth = param.stars + usize::from(param.count.is_some());
    let read_only =
        param.way == Way::In && !is_interface && (param.constant || param.count.is_some() || inner == "GUID");
    match depth {
        0 => inner.to_owned(),
        _ if read_only => format!("*const {inner}"),
        depth => format!("{}{inner}", "*mut ".repeat(depth)),
    }
}

/// A name, escaped where Rust has a word of its own for it.
pub fn identifier(name: &str) -> String {
    if matches!(name, "type" | "ref" | "in" | "move") { format!("r#{name}") } else { name.to_owned() }
}
