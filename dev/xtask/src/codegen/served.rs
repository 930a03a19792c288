//! The runtime's half, for `crates/model/clr-abi`: Info as a trait behind its vtable, and a profiler's callbacks as methods to call.

use super::HEAD;
use super::callback::{in_sys, safe};
use super::raw::{identifier, rust_type};
use super::table::{Interface, Method, Param, Table, Way};
use std::fmt::Write;

/// Words with unusual capitals in the runtime's names, and as one word of a Rust name.
const WORDS: &[(&str, &str)] = &[
    ("ReJITIDs", "RejitIds"),
    ("ReJIT", "Rejit"),
    ("JITed", "Jited"),
    ("PEKind", "PeKind"),
    ("IThis", "This"),
    ("IDs", "Ids"),
];

/// `info.rs`.
pub fn info(table: &Table) -> Result<String, String> {
    let chain = chain(table, "info")?;
    let mut out = String::from(HEAD);
    out.push_str(
        "//! One method, one thunk and one vtable entry for each slot of ICorProfilerInfo.\n\
         #![allow(non_snake_case, clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\n\
         use crate::object::serve;\nuse crate::{Answer, InfoObject, Slot};\nuse core::any::Any;\nuse core::ffi::c_void;\nuse corprof::{HResult, sys};\n\n",
    );
    let named = |method: &Method| Ok(snake(&method.name));
    slots(&chain, "INFO", named, &mut out)?;
    identifiers(&chain, &mut out);
    argument_structs(table, methods(&chain), &mut out);
    server(table, &chain, &mut out);
    for method in methods(&chain) {
        thunk(table, method, &mut out);
    }
    vtable(&chain, &mut out);
    Ok(out)
}

/// `callbacks.rs`.
pub fn callbacks(table: &Table) -> Result<String, String> {
    let chain = chain(table, "callback")?;
    let mut out = String::from(HEAD);
    out.push_str(
        "//! One call for each slot of ICorProfilerCallback.\n\
         #![allow(non_snake_case, clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\n\
         use crate::{ProfilerObject, Slot};\nuse core::ffi::c_void;\nuse corprof::{HResult, sys};\n\n",
    );
    slots(&chain, "CALLBACK", |method| Ok(safe(table, method)?.name.clone()), &mut out)?;
    identifiers(&chain, &mut out);
    out.push_str("/// The slot of a callback, by its method of [`ProfilerObject`].\n#[macro_export]\nmacro_rules! callback_slot {\n");
    for method in methods(&chain) {
        let name = &safe(table, method)?.name;
        let _ = writeln!(out, "    ({name}) => {{ $crate::callbacks::slot::{} }};", name.to_uppercase());
    }
    out.push_str("}\n\nimpl ProfilerObject {\n");
    for (one, version) in chain.iter().zip(1..) {
        for method in &one.methods {
            call(table, one, version, method, &mut out)?;
        }
    }
    out.push_str("}\n");
    Ok(out)
}

/// `tests/support/generated.rs`: a server that logs each method call, and calls of every slot on both sides.
pub fn support(table: &Table) -> Result<String, String> {
    let mut out = String::from(HEAD);
    out.push_str(
        "//! For every slot: a method that writes itself down, and a call.\n\
         #![allow(dead_code, reason = \"each test uses a part\")]\n\
         #![allow(non_snake_case, unused_variables, clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\n\
         use super::Noted;\nuse core::any::Any;\nuse core::mem::zeroed;\nuse corprof::{HResult, sys};\n\
         use remora_clr_abi::{Answer, InfoServer, MetadataServer, ProfilerObject, Slot, info, metadata};\n\n",
    );
    noting(&chain(table, "info")?, &mut out);
    let info = chain(table, "info")?;
    out.push_str(
        "\n/// Calls every slot of Info as a profiler would, with zeros for arguments.\n///\n/// # Safety\n/// `info` is a live object of the newest version.\n\
         pub unsafe fn call_every_info_slot(info: *mut sys::IUnknown, mut answered: impl FnMut(&'static str, HResult)) {\n",
    );
    for one in &info {
        for method in &one.methods {
            let zeros = ", zeroed()".repeat(method.params.len());
            let _ = write!(
                out,
                "    // SAFETY: the object is alive, and zero is a value of every argument.\n\
                 \x20   let answer = unsafe {{ sys::{}::{}(info.cast(){zeros}) }};\n    answered({:?}, HResult(answer));\n",
                one.name, method.name, method.name
            );
        }
    }
    out.push_str(
        "}\n\n/// Calls every callback as the runtime would, with zeros for what it hands in.\n///\n/// # Safety\n/// Both are live objects.\n\
         pub unsafe fn call_every_callback(object: &ProfilerObject, info: *mut sys::IUnknown, mut answered: impl FnMut(&'static str, Option<HResult>)) {\n",
    );
    for method in methods(&chain(table, "callback")?) {
        let arguments: Vec<&str> = method.params.iter().map(|param| argument(param)).collect();
        let _ = write!(
            out,
            "    // SAFETY: the object is alive, and null and zero are allowed for every argument.\n\
             \x20   let answer = unsafe {{ object.{}({}) }};\n    answered({:?}, answer);\n",
            safe(table, method)?.name,
            arguments.join(", "),
            method.name
        );
    }
    out.push_str("}\n");
    Ok(out)
}

fn noting(chain: &[&Interface], out: &mut String) {
    out.push_str(
        "impl InfoServer for Noted {\n    fn enter(&self, slot: Slot) -> Result<(), HResult> {\n        self.entered(slot)\n    }\n\n\
         \x20   fn leave(&self, slot: Slot, answer: HResult) {\n        self.left(slot, answer);\n    }\n\n\
         \x20   fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {\n        self.caught(slot, payload);\n    }\n\n\
         \x20   fn unknown(&self, slot: Slot) {\n        self.counted(slot);\n    }\n\n\
         \x20   fn version(&self) -> u8 {\n        self.newest\n    }\n",
    );
    for method in methods(chain) {
        let (slot, name) = (snake(&method.name), &method.name);
        let _ = write!(
            out,
            "\n    unsafe fn {slot}(&self, _: info::args::{name}) -> Answer {{\n        Ok(self.called({name:?}))\n    }}\n"
        );
    }
    out.push_str("}\n");
}

/// A test argument for a parameter: storage for an out-parameter, Info for an object, zero otherwise.
fn argument(param: &Param) -> &'static str {
    match (param.way, param.ty.as_str()) {
        (Way::Out, _) => "&mut 7",
        (Way::In, "IUnknown") => "info",
        (Way::In, _) => "zeroed()",
    }
}

/// The interfaces of a group. All slots must return an HRESULT: otherwise a call could not be refused.
fn chain<'a>(table: &'a Table, group: &str) -> Result<Vec<&'a Interface>, String> {
    let chain: Vec<&Interface> = table.interfaces.iter().filter(|one| one.group == group).collect();
    let other = methods(&chain).find(|method| method.returns != "HRESULT");
    match other {
        Some(method) => Err(format!("{}: {} cannot be served: it answers no HRESULT", group, method.name)),
        None => Ok(chain),
    }
}

fn methods<'a>(chain: &[&'a Interface]) -> impl Iterator<Item = &'a Method> {
    chain.iter().flat_map(|one| &one.methods)
}

/// A constant for each slot, by its name, and the list of them.
fn slots(
    chain: &[&Interface],
    prefix: &str,
    named: impl Fn(&Method) -> Result<String, String>,
    out: &mut String,
) -> Result<(), String> {
    let mut list = String::new();
    out.push_str("/// Every slot by its name.\npub mod slot {\n    use crate::Slot;\n\n");
    for (one, version) in chain.iter().zip(1..) {
        for method in &one.methods {
            let constant = named(method)?.to_uppercase();
            let _ = writeln!(
                out,
                "    /// `{}` of {}.\n    pub const {constant}: Slot = Slot {{ index: {}, name: {:?}, version: {version} }};",
                method.name, one.name, method.slot, method.name
            );
            let _ = writeln!(list, "    slot::{constant},");
        }
    }
    let _ = write!(out, "}}\n\n/// Every slot, from 3 on.\npub const {prefix}_SLOTS: &[Slot] = &[\n{list}];\n\n");
    Ok(())
}

fn identifiers(chain: &[&Interface], out: &mut String) {
    out.push_str("/// The identifiers of the versions, the first one first.\npub const VERSIONS: &[sys::GUID] = &[\n");
    for one in chain {
        let _ = writeln!(out, "    sys::IID_{},", one.name);
    }
    out.push_str("];\n\n");
}

/// A struct with the arguments of each slot, so that a server accesses them by name.
pub fn argument_structs<'a>(table: &Table, methods: impl Iterator<Item = &'a Method>, out: &mut String) {
    let mut structs = String::new();
    for method in methods {
        let fields: String =
            typed_parameters(table, method).map(|(name, ty)| format!("        pub {name}: {ty},\n")).collect();
        let body = if fields.is_empty() { ";\n".to_owned() } else { format!(" {{\n{fields}    }}\n") };
        let _ = write!(structs, "\n    #[derive(Clone, Copy)]\n    pub struct {}{body}", method.name);
    }
    let imported = if structs.contains("c_void") { "    use core::ffi::c_void;\n" } else { "" };
    let _ = write!(
        out,
        "/// The arguments of each slot as the profiler gave them, under the names of the runtime's headers.\n\
         #[allow(missing_docs, reason = \"the runtime's documentation describes these names\")]\n\
         pub mod args {{\n{imported}    use corprof::sys;\n{structs}}}\n\n"
    );
}

fn server(table: &Table, chain: &[&Interface], out: &mut String) {
    let not_served =
        |method: &Method| table.lists.iter().any(|list| list.name == "NOT_SERVED" && list.slots.contains(&method.name));
    let slots: String = methods(chain)
        .filter(|method| !not_served(method))
        .map(|method| format!("            {}: {};\n", snake(&method.name), method.name))
        .collect();
    let _ = write!(
        out,
        "/// Hands every slot of Info that a runtime serves to a macro: the name of its method, and that of its arguments in [`args`].\n\
         #[macro_export]\nmacro_rules! for_each_info_slot {{\n    ($each:ident) => {{\n        $each! {{\n{slots}        }}\n    }};\n}}\n\n"
    );
    out.push_str(
        "/// What serves Info behind its vtable: one method for each slot, each refusing until it is overridden.\n\
         ///\n\
         /// # Safety of the methods\n\
         /// A pointer is what the profiler gave: nothing about it was checked.\n\
         #[allow(unused_variables, reason = \"the defaults refuse\")]\n\
         #[allow(clippy::missing_safety_doc, reason = \"stated once above\")]\n\
         pub trait InfoServer: Send + Sync + Sized + 'static {\n\
         \x20   /// Before every slot: an error is answered to the profiler without the call.\n\
         \x20   fn enter(&self, slot: Slot) -> Result<(), HResult>;\n\n\
         \x20   /// After every slot, called or refused, with what the profiler is answered.\n\
         \x20   /// One that panicked ends in [`panicked`](Self::panicked) instead.\n\
         \x20   fn leave(&self, slot: Slot, answer: HResult) {}\n\n\
         \x20   /// A slot, its `enter` or its `leave` panicked: the profiler is answered `E_UNEXPECTED`, and the payload is this method's to keep.\n\
         \x20   fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>);\n\n\
         \x20   /// One of the three slots of IUnknown was called. They answer what they answer, and go through neither `enter` nor `leave`.\n\
         \x20   fn unknown(&self, slot: Slot) {}\n\n\
         \x20   /// The newest ICorProfilerInfo that this runtime has: a later one is refused with `E_NOINTERFACE`.\n\
         \x20   fn version(&self) -> u8;\n",
    );
    for one in chain {
        for method in &one.methods {
            let _ = write!(
                out,
                "\n    /// Slot {}, `{}` of {}.\n    unsafe fn {}(&self, args: args::{}) -> Answer {{\n        Err(HResult::E_NOTIMPL)\n    }}\n",
                method.slot,
                method.name,
                one.name,
                snake(&method.name),
                method.name
            );
        }
    }
    out.push_str("}\n");
}

fn thunk(table: &Table, method: &Method, out: &mut String) {
    let name = snake(&method.name);
    let _ = write!(
        out,
        "\nunsafe extern \"system\" fn {name}<T: InfoServer>(this: *mut c_void{}) -> sys::HRESULT {{\n\
         \x20   // SAFETY: the arguments are the profiler's, unchanged; the server promises to expect anything.\n\
         \x20   let call = |server: &T| unsafe {{ server.{name}(args::{}) }};\n\
         \x20   // SAFETY: the profiler calls through the vtable of this very object.\n\
         \x20   unsafe {{ serve(this, slot::{}, call) }}\n}}\n",
        parameters(table, method),
        literal(method),
        name.to_uppercase()
    );
}

fn vtable(chain: &[&Interface], out: &mut String) {
    let mut base = "UNKNOWN".to_owned();
    out.push_str("\nimpl<T: InfoServer> InfoObject<T> {\n");
    for (one, version) in chain.iter().zip(1..) {
        let last = version == chain.len();
        let constant = if last { "VTABLE".to_owned() } else { format!("V{version}") };
        if last {
            out.push_str(
                "    /// The one vtable of every such object: it begins with those of all earlier versions.\n",
            );
        }
        let visible = if last { "pub(crate) " } else { "" };
        let _ = writeln!(
            out,
            "    {visible}const {constant}: sys::{}Vtbl = sys::{}Vtbl {{\n        base: Self::{base},",
            one.name, one.name
        );
        for method in &one.methods {
            let _ = writeln!(out, "        {}: {}::<T>,", method.name, snake(&method.name));
        }
        out.push_str(if last { "    };\n" } else { "    };\n\n" });
        base = constant;
    }
    out.push_str("}\n");
}

fn call(table: &Table, one: &Interface, version: usize, method: &Method, out: &mut String) -> Result<(), String> {
    let name = &safe(table, method)?.name;
    if method.slot > 3 {
        out.push('\n');
    }
    let _ = write!(
        out,
        "    /// Slot {}, `{}` of {}. Without an answer if the profiler does not have that version.\n    ///\n\
         \x20   /// # Safety\n    /// The pointers are valid for what the profiler reads and writes; no other thread releases the object.\n\
         \x20   pub unsafe fn {name}(&self{}) -> Option<HResult> {{\n\
         \x20       let object = self.at({version})?.cast::<sys::{}>();\n\
         \x20       // SAFETY: the profiler has this version, and the caller vouches for the pointers.\n\
         \x20       Some(HResult(unsafe {{ sys::{}::{}(object{}{}) }}))\n    }}\n",
        method.slot,
        method.name,
        one.name,
        parameters(table, method),
        one.name,
        one.name,
        method.name,
        if method.params.is_empty() { "" } else { ", " },
        arguments(method)
    );
    Ok(())
}

/// A method's parameters, as they follow `self`.
pub fn parameters(table: &Table, method: &Method) -> String {
    typed_parameters(table, method).map(|(name, ty)| format!(", {name}: {ty}")).collect()
}

/// Name and Rust type of each parameter.
fn typed_parameters<'a>(table: &'a Table, method: &'a Method) -> impl Iterator<Item = (String, String)> + 'a {
    method.params.iter().map(|param| (identifier(&param.name), in_sys(&rust_type(table, param))))
}

/// The expression for the struct of a method's arguments.
pub fn literal(method: &Method) -> String {
    let fields = if method.params.is_empty() { String::new() } else { format!(" {{ {} }}", arguments(method)) };
    format!("{}{fields}", method.name)
}

/// The argument names, to forward them.
pub fn arguments(method: &Method) -> String {
    let names: Vec<String> = method.params.iter().map(|param| identifier(&param.name)).collect();
    names.join(", ")
}

/// `GetCodeInfo2` as `get_code_info2`.
pub fn snake(name: &str) -> String {
    let name = WORDS.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(index + 1);
        let begins = before.is_some_and(|one| !one.is_ascii_uppercase()) || after.is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && index > 0 && begins {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::snake;

    #[test]
    fn names_are_those_of_the_safe_layer() {
        for (raw, safe) in [
            ("GetFunctionFromIP2", "get_function_from_ip2"),
            ("EnumJITedFunctions2", "enum_jited_functions2"),
            ("RequestReJIT", "request_rejit"),
            ("GetReJITIDs", "get_rejit_ids"),
            ("ForceGC", "force_gc"),
            ("GetClassIDInfo2", "get_class_id_info2"),
            ("GetILToNativeMapping3", "get_il_to_native_mapping3"),
            ("SetEnterLeaveFunctionHooks3WithInfo", "set_enter_leave_function_hooks3_with_info"),
            ("EventPipeStartSession", "event_pipe_start_session"),
        ] {
            assert_eq!(snake(raw), safe);
        }
    }
}
