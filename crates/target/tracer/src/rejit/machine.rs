//! The state machine of an asynchronous method: what its `MoveNext` needs so that all steps of a call count as one.
//!
//! A call keeps its identity over its steps by the id of its task. The runtime gives a task an id when somebody asks, and the task keeps it.
//! No other identity survives a move by the GC. The first step asks only after it has suspended: asking before would create a task that the
//! method may not need.

use super::metadata::{Emitter, Metadata, Method};
use remora_il::{Body, Error, Instruction, Instructions, MethodSignature, NamedType, Operand};
use std::collections::BTreeMap;

/// Names of the fields of C# and Visual Basic.
const STATES: [&str; 2] = ["<>1__state", "$State"];
const BUILDERS: [&str; 2] = ["<>t__builder", "$Builder"];

/// Builders whose task is known from the first wait on.
const TASK_BUILDERS: [&str; 4] = [
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder",
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1",
    "System.Runtime.CompilerServices.AsyncValueTaskMethodBuilder",
    "System.Runtime.CompilerServices.AsyncValueTaskMethodBuilder`1",
];
const TASK: &str = "System.Threading.Tasks.Task";
const RESULTS: [&str; 4] =
    [TASK, "System.Threading.Tasks.Task`1", "System.Threading.Tasks.ValueTask", "System.Threading.Tasks.ValueTask`1"];

/// Assemblies that have or forward [`TASK`]; with a reference to any other, the JIT might throw. The tests use System.Private.CoreLib and
/// netstandard. System.Runtime was tried on 9, mscorlib and trimmed facades were not.
const SCOPES: [&str; 4] = ["System.Runtime", "System.Private.CoreLib", "mscorlib", "netstandard"];

/// Opcodes.
const CALL: u16 = 0x28;
const FIELD_VALUE: u16 = 0x7B;
const FIELD_ADDRESS: u16 = 0x7C;
const FIELD_STORE: u16 = 0x7D;
const CONSTRAINED: u16 = 0xFE16;

/// Methods of numbers that take their address.
const READERS: [&str; 4] = ["ToString", "Equals", "CompareTo", "GetHashCode"];

/// `instance int32 ()`.
const GET_ID: [u8; 3] = [0x20, 0, 0x08];

/// Whether the core library has the members that the steps call: a trimmed application may lack them.
pub(crate) fn core_library_has_ids(metadata: &Metadata) -> bool {
    metadata.defines(TASK, "get_Id") && metadata.defines(RESULTS[2], "AsTask") && metadata.defines(RESULTS[3], "AsTask")
}

/// Whether a method returns a task.
pub(crate) fn returns_task(metadata: &Metadata, method: &Method) -> bool {
    let result = MethodSignature::read(&method.signature).ok().and_then(|signature| NamedType::of(signature.result?));
    let name = result.and_then(|result| metadata.name_of(result.token));
    name.is_some_and(|name| RESULTS.contains(&name.as_str()))
}

/// A state machine.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The token of its state: negative before the first step.
    pub(crate) state: u32,
    pub(crate) builder: u32,
    pub(crate) get_task: u32,
    /// For a value task: its type, and the method that gives the task.
    pub(crate) as_task: Option<(Vec<u8>, u32)>,
    pub(crate) get_id: u32,
    /// Where it completes its task, and whether with an exception.
    pub(crate) ends: BTreeMap<usize, bool>,
    /// The type of its result.
    pub(crate) result: Option<Vec<u8>>,
    /// Parameters of the method by name: the field with its value, if no step changes it.
    parameters: BTreeMap<String, Option<u32>>,
}

impl Machine {
    /// The field with the value of a parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<u32> {
        let field = self.parameters.get(name).or_else(|| self.parameters.get(&format!("$VB$Local_{name}")));
        field.copied().flatten()
    }

    /// The machine of the method with this row, whose `MoveNext` is `body`. `None` if it has another form.
    pub(crate) fn of(metadata: &Metadata, emitter: &Emitter, method: &Method, body: &Body<'_>) -> Option<Machine> {
        let found = Found::of(metadata, body).ok()?;
        let signature = MethodSignature::read(&method.signature).ok()?;
        let result = NamedType::of(signature.result?)?;
        let (name, scope) = reference(metadata, result.token)?;
        if !RESULTS.contains(&name.as_str()) || !SCOPES.contains(&metadata.assembly_reference(scope)?.as_str()) {
            return None;
        }
        let (builder, argument) = found.builder_type(metadata)?;
        if found.ends.is_empty() || argument.is_some() != result.argument.is_some() {
            return None;
        }
        let task = if name == TASK { result.token } else { emitter.type_reference(scope, TASK).ok()? };
        // As the builder declares it: in terms of its own type parameter.
        let declared = |of: &NamedType<'_>| [&[0x20, 0][..], &of.with(of.argument.map(|_| &[0x13, 0][..]))].concat();
        let as_task = if result.is_value {
            // Of the type as the machine sees it, whose type parameters are not those of the method.
            let local = result.with(argument.as_deref());
            let class = if argument.is_some() { emitter.type_spec(&local).ok()? } else { result.token };
            let task = match argument {
                None => NamedType { is_value: false, token: task, argument: None },
                Some(_) => {
                    let token = emitter.type_reference(scope, RESULTS[1]).ok()?;
                    NamedType { is_value: false, token, argument: result.argument }
                }
            };
            Some((local, emitter.member_reference(class, "AsTask", &declared(&task)).ok()?))
        } else {
            None
        };
        let (state, class) = found.state?;
        let (builder_field, _) = found.builder.filter(|(_, of)| *of == class)?;
        // A field of another class may have the name of a parameter.
        let own = found.fields.into_iter().filter(|((of, _), _)| *of == class);
        Some(Machine {
            state,
            builder: builder_field,
            get_task: emitter.member_reference(builder, "get_Task", &declared(&result)).ok()?,
            as_task,
            get_id: emitter.member_reference(task, "get_Id", &GET_ID).ok()?,
            ends: found.ends.iter().map(|(offset, (is_exception, _))| (*offset, *is_exception)).collect(),
            result: argument,
            parameters: own.map(|((_, name), field)| (name, field)).collect(),
        })
    }
}

/// What the IL of `MoveNext` names: tokens of fields, with that of their class.
#[derive(Default)]
struct Found {
    state: Option<(u32, u32)>,
    builder: Option<(u32, u32)>,
    /// Calls that complete the task: whether with an exception, and the type of the builder.
    ends: BTreeMap<usize, (bool, u32)>,
    /// Other fields by class and name; `None` for one that is changed.
    fields: BTreeMap<(u32, String), Option<u32>>,
}

impl Found {
    fn of(metadata: &Metadata, body: &Body<'_>) -> Result<Found, Error> {
        let mut found = Found::default();
        let mut instructions = Instructions::of(body.code).peekable();
        while let Some(instruction) = instructions.next() {
            let instruction = instruction?;
            let Operand::Plain(&[a, b, c, d]) = instruction.operand else { continue };
            let token = u32::from_le_bytes([a, b, c, d]);
            match instruction.opcode {
                CALL => {
                    let Some((name, class)) = metadata.member(token) else { continue };
                    let is_exception = name == "SetException";
                    if (is_exception || name == "SetResult") && is_task_builder(metadata, class).is_some() {
                        found.ends.insert(instruction.offset, (is_exception, class));
                    }
                }
                FIELD_VALUE | FIELD_ADDRESS | FIELD_STORE => {
                    let Some((name, class)) = metadata.member(token) else { continue };
                    // Of the first class: another machine may be a local.
                    if STATES.contains(&name.as_str()) {
                        found.state.get_or_insert((token, class));
                    } else if BUILDERS.contains(&name.as_str()) {
                        found.builder.get_or_insert((token, class));
                    } else if instruction.opcode == FIELD_VALUE
                        || instruction.opcode == FIELD_ADDRESS
                            && matches!(instructions.peek(), Some(Ok(next)) if only_reads(metadata, next))
                    {
                        found.fields.entry((class, name)).or_insert(Some(token));
                    } else {
                        found.fields.insert((class, name), None);
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// The builder's type, and its type argument. `None` if the method completes builders of different types.
    fn builder_type(&self, metadata: &Metadata) -> Option<(u32, Option<Vec<u8>>)> {
        let mut classes = self.ends.values().map(|(_, class)| *class);
        let first = classes.next()?;
        let argument = is_task_builder(metadata, first)?;
        classes.all(|class| class == first).then_some((first, argument))
    }
}

/// Whether an instruction takes the address of a number or an enum only to read it, as in `number.ToString()`.
fn only_reads(metadata: &Metadata, instruction: &Instruction<'_>) -> bool {
    match (instruction.opcode, instruction.operand) {
        (CONSTRAINED, _) => true,
        (CALL, Operand::Plain(&[a, b, c, d])) => {
            metadata.member(u32::from_le_bytes([a, b, c, d])).is_some_and(|(name, _)| READERS.contains(&name.as_str()))
        }
        _ => false,
    }
}

/// Whether a type is one of [`TASK_BUILDERS`] of another assembly: its type argument.
fn is_task_builder(metadata: &Metadata, class: u32) -> Option<Option<Vec<u8>>> {
    let signature = if class >> 24 == 0x1B { metadata.type_signature(class)? } else { Vec::new() };
    let (token, argument) = match signature.is_empty() {
        true => (class, None),
        false => NamedType::of(&signature).map(|of| (of.token, of.argument.map(<[u8]>::to_vec)))?,
    };
    let (name, _) = reference(metadata, token)?;
    TASK_BUILDERS.contains(&name.as_str()).then_some(argument)
}

/// The name and scope of a type of another assembly.
fn reference(metadata: &Metadata, token: u32) -> Option<(String, u32)> {
    (token >> 24 == 1).then(|| metadata.type_reference(token)).flatten()
}
