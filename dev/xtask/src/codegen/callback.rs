//! The callback half: a trait with one safe method for each slot, one thunk for each slot, and the vtable that joins them.

use super::HEAD;
use super::raw::{identifier, rust_type};
use super::table::{Method, Param, SafeCallback, Table, Way};
use std::fmt::{Display, Write};

/// Raw argument types in the safe layer: the safe type, and the conversion from a raw value.
const SAFE_TYPES: &[(&str, &str)] = &[
    ("AppDomainID", "AppDomainId"),
    ("AssemblyID", "AssemblyId"),
    ("ClassID", "ClassId"),
    ("FunctionID", "FunctionId"),
    ("GCHandleID", "HandleId"),
    ("ModuleID", "ModuleId"),
    ("ObjectID", "ObjectId"),
    ("ReJITID", "RejitId"),
    ("ThreadID", "ThreadId"),
    ("EVENTPIPE_PROVIDER", "ProviderId"),
    ("HRESULT", "HResult"),
    ("mdMethodDef", "MethodToken"),
    ("COR_PRF_JIT_CACHE", "JitCache"),
    ("COR_PRF_TRANSITION_REASON", "TransitionReason"),
    ("COR_PRF_SUSPEND_REASON", "SuspendReason"),
    ("COR_PRF_GC_REASON", "GcReason"),
    ("COR_PRF_GC_ROOT_KIND", "RootKind"),
    ("COR_PRF_GC_ROOT_FLAGS", "RootFlags"),
    ("BYTE", "u8"),
    ("void", "u8"),
    ("WCHAR", "u16"),
    ("int", "i32"),
    ("BOOL", "i32"),
    ("DWORD", "u32"),
    ("ULONG", "u32"),
    ("SIZE_T", "usize"),
    ("UINT_PTR", "usize"),
];

/// `callback/slots.rs`.
pub fn slots(table: &Table) -> Result<String, String> {
    let mut out = String::from(HEAD);
    out.push_str(
        "//! One safe method, one fence and one vtable entry for each slot of ICorProfilerCallback.\n\n\
         use super::fence::{self, fence};\nuse super::{CallbackObject, CallbackToken};\nuse crate::ids::*;\nuse crate::values::*;\n\
         use crate::{Alive, Attached, Guid, HResult, Info, Startup, sys};\nuse core::ffi::c_void;\n\n",
    );
    names(table, &mut out);
    profiler(table, &mut out)?;
    for method in table.methods("callback") {
        thunk(table, method, &mut out)?;
    }
    vtables(table, &mut out)?;
    Ok(out)
}

fn names(table: &Table, out: &mut String) {
    out.push_str("/// The interfaces a [`CallbackObject`] answers to, with the number of the last slot of each.\npub const CALLBACK_IIDS: &[(sys::GUID, usize)] = &[\n");
    for one in table.group("callback") {
        let _ = writeln!(out, "    (sys::IID_{}, {}),", one.name, one.last);
    }
    out.push_str("];\n\n/// The names of the slots, from slot 3 on, as `on_panic`, `enter` and `leave` get them.\npub const SLOT_NAMES: &[&str] = &[\n");
    for method in table.methods("callback") {
        let _ = writeln!(out, "    {:?},", method.name);
    }
    out.push_str("];\n\n");
}

fn profiler(table: &Table, out: &mut String) -> Result<(), String> {
    out.push_str(
        "/// What the runtime tells a profiler: one method for each slot, each doing nothing until it is overridden.\n\
         ///\n\
         /// The methods run on the runtime's own threads, several at a time.\n\
         /// They may panic: the fence answers the runtime, and [`on_panic`](Self::on_panic) is told.\n\
         #[allow(unused_variables, reason = \"the defaults do nothing\")]\n\
         #[allow(clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\
         pub trait ProfilerCallback: Send + Sync + Sized + 'static {\n\
         \x20   /// A callback begins; the answer is handed to [`leave`](Self::leave). To count and time callbacks.\n\
         \x20   fn enter(&self, slot: &'static str) -> CallbackToken {\n        CallbackToken(0)\n    }\n\n\
         \x20   /// The same callback is over, panicked or not. Its last touch of `self`.\n\
         \x20   fn leave(&self, slot: &'static str, token: CallbackToken) {}\n\n\
         \x20   /// A callback panicked, and the runtime was answered without it.\n\
         \x20   fn on_panic(&self, slot: &'static str) {}\n",
    );
    for method in table.methods("callback") {
        let safe = safe(table, method)?;
        let (arguments, answer, body) = signature(table, method)?;
        let _ = writeln!(
            out,
            "\n    /// Slot {}, `{}`: {}\n    fn {}(&self{arguments}){answer} {body}",
            method.slot, method.name, safe.sentence, safe.name
        );
    }
    out.push_str("}\n");
    Ok(())
}

/// Arguments, return type and default body of a safe method.
pub fn signature(table: &Table, method: &Method) -> Result<(String, &'static str, String), String> {
    let safe = safe(table, method)?;
    if safe.answer == "special" {
        return Ok((special_arguments(&method.name)?, " -> Result<(), HResult>", default_of_special(&method.name)));
    }
    let (answer, body) = answer(&safe.answer)?;
    let arguments = arguments(table, method)?;
    Ok((arguments.iter().map(|(name, ty)| format!(", {name}: {ty}")).collect(), answer, body))
}

/// Return type and default body by the answer in the table.
pub fn answer(answer: &str) -> Result<(&'static str, String), String> {
    Ok(match answer {
        "-" => ("", "{}".to_owned()),
        "result" => (" -> Result<(), HResult>", "{\n        Ok(())\n    }".to_owned()),
        other => (" -> bool", format!("{{\n        {}\n    }}", default_bool(other)?)),
    })
}

fn thunk(table: &Table, method: &Method, out: &mut String) -> Result<(), String> {
    let safe = safe(table, method)?;
    let params: String = method
        .params
        .iter()
        .map(|param| format!(", {}: {}", local(table, param), in_sys(&rust_type(table, param))))
        .collect();
    let _ = write!(
        out,
        "\n/// The runtime's entrance at slot {}.\n#[allow(non_snake_case, clippy::too_many_arguments, reason = \"the runtime's signature\")]\n\
         unsafe extern \"system\" fn {}<T: ProfilerCallback>(this: *mut c_void{params}) -> sys::HRESULT {{\n",
        method.slot, safe.name
    );
    if safe.answer == "special" {
        let data = if method.name == "Initialize" { "" } else { ", pvClientData.cast(), cbClientData" };
        let info = local(table, &method.params[0]);
        let _ = write!(
            out,
            "    // SAFETY: the runtime hands over its own object and data, alive for the whole call.\n\
             \x20   unsafe {{ fence::{}::<T>(this, {info}{data}) }}\n}}\n",
            safe.name
        );
        return Ok(());
    }
    let mut values = String::new();
    for param in shown(method) {
        let (before, value) = value(table, method, param)?;
        out.push_str(&before);
        values.push_str(&value);
        values.push_str(", ");
    }
    let values = values.trim_end_matches(", ");
    let name = &safe.name;
    match out_param(method) {
        Some(param) => {
            let _ = write!(
                out,
                "    // SAFETY: the runtime calls through the vtable of this very object, and the out-pointer is its own.\n\
                 \x20   unsafe {{ fence::answer_bool::<T>(this, {:?}, {}, {}, |profiler| profiler.{name}({values})) }}\n}}\n",
                method.name,
                param.name,
                default_bool(&safe.answer)?
            );
        }
        None => {
            let _ = write!(
                out,
                "    // SAFETY: the runtime calls through the vtable of this very object.\n\
                 \x20   unsafe {{ fence::<T, _>(this, {:?}, |profiler| profiler.{name}({values})) }}\n}}\n",
                method.name
            );
        }
    }
    Ok(())
}

fn vtables(table: &Table, out: &mut String) -> Result<(), String> {
    let last = table.group("callback").last().ok_or("no callback interface")?;
    let _ = write!(
        out,
        "\nimpl<T: ProfilerCallback> CallbackObject<T> {{\n    /// The one vtable of every such object: it begins with those of all earlier interfaces.\n\
         \x20   pub(super) const VTABLE: sys::{}Vtbl = Self::V{};\n",
        last.name, last.last
    );
    let mut base = "UNKNOWN".to_owned();
    for one in table.group("callback") {
        let number = format!("V{}", one.last);
        let thunks = one.methods.iter().map(|method| Ok((&method.name, &safe(table, method)?.name)));
        let thunks = thunks.collect::<Result<Vec<_>, String>>()?;
        out.push('\n');
        vtable(&one.name, &format!("const {number}"), &base, thunks, out);
        base = number;
    }
    out.push_str("}\n");
    Ok(())
}

/// A constant with the vtable of one interface, which begins with that of its base: each slot, and its thunk.
pub fn vtable<'a>(
    interface: &str,
    constant: &str,
    base: &str,
    thunks: impl IntoIterator<Item = (&'a String, impl Display)>,
    out: &mut String,
) {
    let _ =
        writeln!(out, "    {constant}: sys::{interface}Vtbl = sys::{interface}Vtbl {{\n        base: Self::{base},");
    for (slot, thunk) in thunks {
        let _ = writeln!(out, "        {slot}: {thunk}::<T>,");
    }
    out.push_str("    };\n");
}

/// A method's name in the safe layer.
pub fn safe<'a>(table: &'a Table, method: &Method) -> Result<&'a SafeCallback, String> {
    table
        .callbacks
        .iter()
        .find(|one| one.method == method.name)
        .ok_or_else(|| format!("callback-names.txt does not name {}", method.name))
}

/// The parameters of the safe method: all but counts of arrays and out-parameters.
fn shown(method: &Method) -> impl Iterator<Item = &Param> {
    method.params.iter().filter(|param| {
        param.way == Way::In && !method.params.iter().any(|other| other.count.as_deref() == Some(&param.name))
    })
}

fn out_param(method: &Method) -> Option<&Param> {
    method.params.iter().find(|param| param.way == Way::Out)
}

/// Name and type of each argument in the safe layer.
pub fn arguments(table: &Table, method: &Method) -> Result<Vec<(String, String)>, String> {
    let argument = |param: &Param| {
        let safe = table.parameters.iter().find(|(raw, _)| *raw == param.name);
        let (_, name) = safe.ok_or_else(|| format!("callback-names.txt does not name the parameter {}", param.name))?;
        Ok((name.clone(), safe_type(param)?))
    };
    shown(method).map(argument).collect()
}

/// The type of a parameter in the safe layer.
fn safe_type(param: &Param) -> Result<String, String> {
    let plain = || {
        let found = SAFE_TYPES.iter().find(|(raw, _)| *raw == param.ty);
        found.map(|(_, safe)| *safe).ok_or_else(|| format!("no safe type for {}", param.ty))
    };
    if param.count.is_some() {
        return Ok(format!("&[{}]", plain()?));
    }
    match param.ty.as_str() {
        "GUID" | "REFGUID" | "LPCGUID" => Ok("Option<&Guid>".to_owned()),
        "BOOL" => Ok("bool".to_owned()),
        "void" => Ok("usize".to_owned()),
        interface if param.stars == 1 => Ok(format!("*mut sys::{interface}")),
        _ => Ok(plain()?.to_owned()),
    }
}

/// The name of a parameter in the thunk: the safe one, and the raw one for counts and out-parameters.
fn local(table: &Table, param: &Param) -> String {
    let safe = table.parameters.iter().find(|(raw, _)| *raw == param.name);
    safe.map_or_else(|| identifier(&param.name), |(_, safe)| safe.clone())
}

/// Statements before the call, and the argument of the call.
fn value(table: &Table, method: &Method, param: &Param) -> Result<(String, String), String> {
    let name = local(table, param);
    let borrowed = |call: String| {
        let before = format!(
            "    // SAFETY: the runtime's own data, alive for the whole call.\n    let {name} = unsafe {{ {call} }};\n"
        );
        Ok((before, name.clone()))
    };
    match &param.count {
        Some(zero) if zero == "0" => return borrowed(format!("fence::text({name})")),
        Some(count) => {
            let count_type =
                &method.params.iter().find(|other| other.name == *count).ok_or("an array without its count")?.ty;
            let count = if count_type == "int" { format!("{count}.max(0) as u32") } else { count.clone() };
            return borrowed(format!("fence::slice({name}.cast(), {count})"));
        }
        None => {}
    }
    let plain = match param.ty.as_str() {
        "GUID" | "REFGUID" | "LPCGUID" => return borrowed(format!("{name}.as_ref()")),
        "BOOL" => format!("{name} != 0"),
        "void" => format!("{name} as usize"),
        _ if param.stars == 1 => name,
        raw => match SAFE_TYPES.iter().find(|(from, _)| *from == raw) {
            Some((_, safe)) if safe.starts_with(char::is_uppercase) => format!("{safe}({name})"),
            _ => name,
        },
    };
    Ok((String::new(), plain))
}

/// The default return value.
pub fn default_bool(answer: &str) -> Result<&str, String> {
    answer.strip_prefix("bool ").ok_or_else(|| format!("callback-names.txt: unknown answer {answer}"))
}

fn special_arguments(method: &str) -> Result<String, String> {
    match method {
        "Initialize" => Ok(", info: Info<Startup, Alive>".to_owned()),
        "InitializeForAttach" => Ok(", info: Info<Attached, Alive>, client_data: &[u8]".to_owned()),
        other => Err(format!("callback-names.txt: {other} is not special")),
    }
}

/// A profiler that does not override it cannot be loaded that way.
fn default_of_special(method: &str) -> String {
    let refusal = if method == "Initialize" { "E_NOTIMPL" } else { "CORPROF_E_PROFILER_NOT_ATTACHABLE" };
    format!("{{\n        Err(HResult::{refusal})\n    }}")
}

/// The type as named outside of `sys`.
pub fn in_sys(ty: &str) -> String {
    if let Some(function) = ty.strip_prefix("Option<") {
        return format!("Option<sys::{function}");
    }
    match ty.rsplit_once(' ') {
        Some((stars, "c_void")) => format!("{stars} c_void"),
        Some((stars, name)) => format!("{stars} sys::{name}"),
        None => format!("sys::{ty}"),
    }
}
