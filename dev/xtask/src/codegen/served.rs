//! The runtime's half, for `crates/model/clr-abi`: Info as a trait behind its vtable, and a profiler's callbacks as methods to call.

use super::HEAD;
use super::callback::{in_sys, safe, vtable};
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

/// A slot of an interface that the runtime has or calls.
pub struct Served<'a> {
    pub interface: &'a Interface,
    /// The place of the interface among those that extend one another, from 1 on.
    pub version: usize,
    pub method: &'a Method,
    /// The name of the slot's constant and of its thunk.
    pub slot: String,
    /// What its method's name and that of its arguments begin with: another method has the rest of the name.
    pub prefix: &'static str,
}

impl Served<'_> {
    /// The name of the method in Rust.
    pub fn name(&self) -> String {
        let name = snake(&self.method.name);
        if self.prefix.is_empty() { name } else { format!("{}_{name}", self.prefix.to_ascii_lowercase()) }
    }

    /// The name of its arguments.
    pub fn args(&self) -> String {
        format!("{}{}", self.prefix, self.method.name)
    }
}

/// `info.rs`.
pub fn info(table: &Table) -> Result<String, String> {
    let all = served(table, "info", |method| Ok(snake(&method.name)))?;
    let mut out = String::from(HEAD);
    out.push_str(
        "//! One method, one thunk and one vtable entry for each slot of ICorProfilerInfo.\n\
         #![allow(non_snake_case, clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\n\
         use crate::object::serve;\nuse crate::{Answer, InfoObject, Slot};\nuse core::any::Any;\nuse core::ffi::c_void;\nuse corprof::{HResult, sys};\n\n",
    );
    slot_constants(&all, &mut out);
    slot_list("INFO_SLOTS", "Every slot", &all, &mut out);
    identifiers(table, "info", &mut out);
    argument_structs(table, &all, &mut out);
    server(table, &all, &mut out)?;
    for one in &all {
        thunk(table, one, &mut out);
    }
    vtables(table, &mut out);
    Ok(out)
}

/// `callbacks.rs`.
pub fn callbacks(table: &Table) -> Result<String, String> {
    let all = served(table, "callback", |method| Ok(safe(table, method)?.name.clone()))?;
    let mut out = String::from(HEAD);
    out.push_str(
        "//! One call for each slot of ICorProfilerCallback.\n\
         #![allow(non_snake_case, clippy::too_many_arguments, reason = \"the runtime's signatures\")]\n\n\
         use crate::{ProfilerObject, Slot};\nuse core::ffi::c_void;\nuse corprof::{HResult, sys};\n\n",
    );
    slot_constants(&all, &mut out);
    slot_list("CALLBACK_SLOTS", "Every slot", &all, &mut out);
    identifiers(table, "callback", &mut out);
    out.push_str("/// The slot of a callback, by its method of [`ProfilerObject`].\n#[macro_export]\nmacro_rules! callback_slot {\n");
    for Served { slot, .. } in &all {
        let _ = writeln!(out, "    ({slot}) => {{ $crate::callbacks::slot::{} }};", slot.to_uppercase());
    }
    out.push_str("}\n\nimpl ProfilerObject {\n");
    for one in &all {
        call(table, one, &mut out);
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
         use remora_clr_abi::{Answer, InfoServer, MetadataServer, ProfilerObject, Slot, info, metadata};\n\n\
         impl InfoServer for Noted {\n    fn enter(&self, slot: Slot) -> Result<(), HResult> {\n        self.entered(slot)\n    }\n\n\
         \x20   fn leave(&self, slot: Slot, answer: HResult) {\n        self.left(slot, answer);\n    }\n\n\
         \x20   fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {\n        self.caught(slot, payload);\n    }\n\n\
         \x20   fn unknown(&self, slot: Slot) {\n        self.counted(slot);\n    }\n\n\
         \x20   fn version(&self) -> u8 {\n        self.newest\n    }\n",
    );
    let info = served(table, "info", |method| Ok(snake(&method.name)))?;
    noting(&info, "info", &mut out)?;
    out.push_str(
        "}\n\n/// Calls every slot of Info as a profiler would, with zeros for arguments.\n///\n/// # Safety\n/// `info` is a live object of the newest version.\n\
         pub unsafe fn call_every_info_slot(info: *mut sys::IUnknown, mut answered: impl FnMut(&'static str, HResult)) {\n",
    );
    info.iter().for_each(|one| call_with_zeros(one, "info", "HResult(answer)", &mut out));
    out.push_str(
        "}\n\n/// Calls every callback as the runtime would, with zeros for what it hands in.\n///\n/// # Safety\n/// Both are live objects.\n\
         pub unsafe fn call_every_callback(object: &ProfilerObject, info: *mut sys::IUnknown, mut answered: impl FnMut(&'static str, Option<HResult>)) {\n",
    );
    for method in table.methods("callback") {
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

/// For each method of a server: one that logs its call.
pub fn noting(all: &[Served], module: &str, out: &mut String) -> Result<(), String> {
    for one in once(all) {
        let (name, args) = (one.name(), one.args());
        let called = format!("self.called({:?})", one.method.name);
        let body = match one.method.returns.as_str() {
            "void" => format!("{called};"),
            "BOOL" => format!("{called} == HResult::S_FALSE"),
            _ => format!("Ok({called})"),
        };
        let returns = returns(one.method)?.1;
        let _ = write!(
            out,
            "\n    unsafe fn {name}(&self, _: {module}::args::{args}){returns} {{\n        {body}\n    }}\n"
        );
    }
    Ok(())
}

/// Calls one slot of `object`, and passes on what it answered.
pub fn call_with_zeros(one: &Served, object: &str, answer: &str, out: &mut String) {
    let (interface, method) = (&one.interface.name, &one.method.name);
    let zeros = ", zeroed()".repeat(one.method.params.len());
    let call = format!("unsafe {{ sys::{interface}::{method}({object}.cast(){zeros}) }}");
    out.push_str("    // SAFETY: the object is alive, and zero is a value of every argument.\n");
    let _ = if one.method.returns == "void" {
        write!(out, "    {call};\n    answered({method:?}, None);\n")
    } else {
        write!(out, "    let answer = {call};\n    answered({method:?}, {answer});\n")
    };
}

/// A test argument for a parameter: storage for an out-parameter, Info for an object, zero otherwise.
fn argument(param: &Param) -> &'static str {
    match (param.way, param.ty.as_str()) {
        (Way::Out, _) => "&mut 7",
        (Way::In, "IUnknown") => "info",
        (Way::In, _) => "zeroed()",
    }
}

/// The slots of a group. All must return an HRESULT: otherwise a call could not be refused.
fn served<'a>(
    table: &'a Table,
    group: &str,
    named: impl Fn(&Method) -> Result<String, String>,
) -> Result<Vec<Served<'a>>, String> {
    let mut all = Vec::new();
    for (interface, version) in table.group(group).zip(1..) {
        for method in &interface.methods {
            if method.returns != "HRESULT" {
                return Err(format!("{group}: {} cannot be served: it answers no HRESULT", method.name));
            }
            all.push(Served { interface, version, method, slot: named(method)?, prefix: "" });
        }
    }
    Ok(all)
}

/// Each method of a server once: two slots may have one.
fn once<'a, 'b>(all: &'b [Served<'a>]) -> impl Iterator<Item = &'b Served<'a>> {
    all.iter().filter(|one| one.slot == one.name())
}

/// A slot's return type, its method's return type, and the conversion between them.
pub fn returns(method: &Method) -> Result<(&'static str, &'static str, [&'static str; 2]), String> {
    match method.returns.as_str() {
        "HRESULT" => Ok((" -> sys::HRESULT", " -> Answer", ["code(", ").0"])),
        "void" => Ok(("", "", ["", ""])),
        "BOOL" => Ok((" -> sys::BOOL", " -> bool", ["sys::BOOL::from(", ")"])),
        other => Err(format!("{}: nothing can be served that answers {other}", method.name)),
    }
}

/// A constant for each slot, by its name.
pub fn slot_constants(all: &[Served], out: &mut String) {
    out.push_str("/// Every slot by its name.\npub mod slot {\n    use crate::Slot;\n\n");
    for Served { interface, version, method, slot, .. } in all {
        let (constant, name, index) = (slot.to_uppercase(), &method.name, method.slot);
        let _ = writeln!(
            out,
            "    /// `{name}` of {}.\n    pub const {constant}: Slot = Slot {{ index: {index}, name: {name:?}, version: {version} }};",
            interface.name
        );
    }
    out.push_str("}\n\n");
}

/// A list of slots.
pub fn slot_list<'a>(list: &str, what: &str, slots: impl IntoIterator<Item = &'a Served<'a>>, out: &mut String) {
    let _ = writeln!(out, "/// {what}, from 3 on.\npub const {list}: &[Slot] = &[");
    for one in slots {
        let _ = writeln!(out, "    slot::{},", one.slot.to_uppercase());
    }
    out.push_str("];\n\n");
}

fn identifiers(table: &Table, group: &str, out: &mut String) {
    out.push_str("/// The identifiers of the versions, the first one first.\npub const VERSIONS: &[sys::GUID] = &[\n");
    for one in table.group(group) {
        let _ = writeln!(out, "    sys::IID_{},", one.name);
    }
    out.push_str("];\n\n");
}

/// A struct with the arguments of each slot, so that a server accesses them by name.
pub fn argument_structs(table: &Table, all: &[Served], out: &mut String) {
    let mut structs = String::new();
    for one in once(all) {
        let method = one.method;
        let fields: String =
            typed_parameters(table, method).map(|(name, ty)| format!("        pub {name}: {ty},\n")).collect();
        let body = if fields.is_empty() { ";\n".to_owned() } else { format!(" {{\n{fields}    }}\n") };
        let _ = write!(structs, "\n    #[derive(Clone, Copy)]\n    pub struct {}{body}", one.args());
    }
    let imported = if structs.contains("c_void") { "    use core::ffi::c_void;\n" } else { "" };
    let _ = write!(
        out,
        "/// The arguments of each slot as the profiler gave them, under the names of the runtime's headers.\n\
         #[allow(missing_docs, reason = \"the runtime's documentation describes these names\")]\n\
         pub mod args {{\n{imported}    use corprof::sys;\n{structs}}}\n\n"
    );
}

fn server(table: &Table, all: &[Served], out: &mut String) -> Result<(), String> {
    let not_served = |one: &&Served| {
        table.lists.iter().any(|list| list.name == "NOT_SERVED" && list.slots.contains(&one.method.name))
    };
    let slots: String = all
        .iter()
        .filter(|one| !not_served(one))
        .map(|one| format!("            {}: {};\n", one.slot, one.method.name))
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
    server_methods(all, |_| "        Err(HResult::E_NOTIMPL)\n".to_owned(), out)
}

/// The end of a server's trait: a method for each slot. `refused` is the body of those that answer an HRESULT.
pub fn server_methods(all: &[Served], refused: impl Fn(&Served) -> String, out: &mut String) -> Result<(), String> {
    for one in once(all) {
        let Served { interface, method, .. } = one;
        let body = match method.returns.as_str() {
            "void" => String::new(),
            "BOOL" => "        false\n".to_owned(),
            _ => refused(one),
        };
        let (name, args, returns) = (one.name(), one.args(), returns(method)?.1);
        let _ = write!(
            out,
            "\n    /// Slot {}, `{}` of {}.\n    unsafe fn {name}(&self, args: args::{args}){returns} {{\n{body}    }}\n",
            method.slot, method.name, interface.name
        );
    }
    out.push_str("}\n");
    Ok(())
}

fn thunk(table: &Table, one: &Served, out: &mut String) {
    let (name, method) = (&one.slot, one.method);
    let _ = write!(
        out,
        "\nunsafe extern \"system\" fn {name}<T: InfoServer>(this: *mut c_void{}) -> sys::HRESULT {{\n\
         \x20   // SAFETY: the arguments are the profiler's, unchanged; the server promises to expect anything.\n\
         \x20   let call = |server: &T| unsafe {{ server.{name}(args::{}) }};\n\
         \x20   // SAFETY: the profiler calls through the vtable of this very object.\n\
         \x20   unsafe {{ serve(this, slot::{}, call) }}\n}}\n",
        parameters(table, method),
        literal(one),
        name.to_uppercase()
    );
}

fn vtables(table: &Table, out: &mut String) {
    let mut base = "UNKNOWN".to_owned();
    out.push_str("\nimpl<T: InfoServer> InfoObject<T> {\n");
    let mut chain = table.group("info").zip(1..).peekable();
    while let Some((one, version)) = chain.next() {
        let is_last = chain.peek().is_none();
        let (visible, constant) =
            if is_last { ("pub(crate) ", "VTABLE".to_owned()) } else { ("", format!("V{version}")) };
        if is_last {
            out.push_str(
                "    /// The one vtable of every such object: it begins with those of all earlier versions.\n",
            );
        }
        let thunks = one.methods.iter().map(|method| (&method.name, snake(&method.name)));
        vtable(&one.name, &format!("{visible}const {constant}"), &base, thunks, out);
        if !is_last {
            out.push('\n');
        }
        base = constant;
    }
    out.push_str("}\n");
}

fn call(table: &Table, one: &Served, out: &mut String) {
    let Served { interface, version, method, slot, .. } = one;
    let (interface, name) = (&interface.name, &method.name);
    if method.slot > 3 {
        out.push('\n');
    }
    let _ = write!(
        out,
        "    /// Slot {}, `{name}` of {interface}. Without an answer if the profiler does not have that version.\n    ///\n\
         \x20   /// # Safety\n    /// The pointers are valid for what the profiler reads and writes; no other thread releases the object.\n\
         \x20   pub unsafe fn {slot}(&self{}) -> Option<HResult> {{\n\
         \x20       let object = self.at({version})?.cast::<sys::{interface}>();\n\
         \x20       // SAFETY: the profiler has this version, and the caller vouches for the pointers.\n\
         \x20       Some(HResult(unsafe {{ sys::{interface}::{name}(object{}{}) }}))\n    }}\n",
        method.slot,
        parameters(table, method),
        if method.params.is_empty() { "" } else { ", " },
        arguments(method)
    );
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
pub fn literal(one: &Served) -> String {
    let method = one.method;
    let fields = if method.params.is_empty() { String::new() } else { format!(" {{ {} }}", arguments(method)) };
    format!("{}{fields}", one.args())
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
