//! Test support for `corprof`, for every slot: a profiler that panics in it, a caller of it, and a runtime that refuses it.

use super::HEAD;
use super::callback::{safe, signature};
use super::raw::rust_type;
use super::served::parameters;
use super::table::{Table, Way};
use std::fmt::Write;

/// `tests/support/generated.rs`.
pub fn support(table: &Table) -> Result<String, String> {
    let mut out = String::from(HEAD);
    out.push_str(
        "//! For every slot: a panic, a call, and a refusal.\n\
         #![allow(dead_code, reason = \"each test uses a part\")]\n\
         #![allow(non_snake_case, unused_variables, clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\n\
         use core::ffi::c_void;\nuse corprof::*;\nuse std::sync::Mutex;\n\n",
    );
    panicking(table, &mut out)?;
    caller(table, &mut out);
    refusing(table, &mut out);
    Ok(out)
}

fn panicking(table: &Table, out: &mut String) -> Result<(), String> {
    out.push_str(
        "/// Panics in every slot, and writes down what the fence tells it.\n#[derive(Default)]\npub struct Panicking {\n    pub panics: Mutex<Vec<&'static str>>,\n}\n\n\
         impl ProfilerCallback for Panicking {\n    fn on_panic(&self, slot: &'static str) {\n        self.panics.lock().expect(\"no panic while locked\").push(slot);\n    }\n",
    );
    for method in table.methods("callback") {
        let (arguments, answer, _) = signature(table, method)?;
        let name = &safe(table, method)?.name;
        let _ = write!(out, "\n    fn {name}(&self{arguments}){answer} {{\n        panic!(\"{name}\")\n    }}\n");
    }
    out.push_str("}\n");
    Ok(())
}

fn caller(table: &Table, out: &mut String) {
    out.push_str(
        "\n/// Calls every slot of a callback object as the runtime would, with zeros for arguments.\n///\n/// # Safety\n/// Both are live objects.\n\
         pub unsafe fn call_every_slot(object: *mut sys::IUnknown, info: *mut sys::IUnknown, mut answered: impl FnMut(&'static str, HResult)) {\n",
    );
    for one in table.group("callback") {
        for method in &one.methods {
            let arguments: String =
                method.params.iter().map(|param| argument(table, &rust_type(table, param), param.way)).collect();
            let _ = write!(
                out,
                "    // SAFETY: the object is alive, and null and zero are allowed for every argument.\n\
                 \x20   let answer = unsafe {{ sys::{}::{}(object.cast(){arguments}) }};\n    answered({:?}, HResult(answer));\n",
                one.name, method.name, method.name
            );
        }
    }
    out.push_str("}\n");
}

fn argument(table: &Table, ty: &str, way: Way) -> String {
    let value = match ty {
        _ if way == Way::Out => "&mut 7",
        "*mut IUnknown" => "info",
        ty if ty.starts_with("*const") => "core::ptr::null()",
        ty if ty.starts_with("*mut") => "core::ptr::null_mut()",
        ty if table.scalars.iter().any(|(name, raw)| name == ty && raw.starts_with("*const")) => "core::ptr::null()",
        _ => "0",
    };
    format!(", {value}")
}

fn refusing(table: &Table, out: &mut String) {
    out.push_str("\n/// What a runtime answers in each slot of Info after the first three: it tells `note`, and refuses.\npub const REFUSALS: &[*const ()] = &[\n");
    let methods = || table.methods("info");
    for method in methods() {
        let _ = writeln!(out, "    {} as *const (),", method.name);
    }
    out.push_str("];\n\n/// The names of those slots.\npub const INFO_SLOTS: &[&str] = &[\n");
    for method in methods() {
        let _ = writeln!(out, "    {:?},", method.name);
    }
    out.push_str("];\n");
    for method in methods() {
        let _ = write!(
            out,
            "\nunsafe extern \"system\" fn {}(this: *mut c_void{}) -> sys::HRESULT {{\n\
             \x20   // SAFETY: called with a fake runtime.\n    unsafe {{ super::note(this, {:?}) }};\n    HResult::E_NOTIMPL.0\n}}\n",
            method.name,
            parameters(table, method),
            method.name
        );
    }
}
