//! The new body of a method: its own, wrapped in calls of the probes.

use super::machine::Machine;
use super::metadata::{Emitter, Metadata, Method};
use super::{probes, records};
use crate::parameters::Types;
use corprof::{Alive, Attached, HResult, Info, MethodToken, ModuleId, sys};
use remora_il::{Assembler, Body, Error, Instructions, MethodSignature, Operand, Probes, Value, locals_with, wrap};
use remora_wire::method_trace::{MOST_VALUES, RESULT, Structure};
use std::collections::BTreeMap;
use std::fmt;

/// The largest body that is read.
const LARGEST: u32 = 8 << 20;

const ABSTRACT: u32 = 0x0400;
const PINVOKE: u32 = 0x2000;
/// `CorMethodImpl`: any other code type than IL, unmanaged, internal call.
const NO_IL: u32 = 0x1007;
/// `CorMethodImpl`: the runtime itself suspends the method at an await.
const RUNTIME_ASYNC: u32 = 0x2000;

/// Signatures of the probes: ECMA-335 II.23.2.3.
mod signatures {
    /// `managed ulong (uint)`.
    pub(super) const ENTER: &[u8] = &[0x00, 1, 0x0B, 0x09];
    /// `managed ulong (uint, ulong)`.
    pub(super) const LEAVE: &[u8] = &[0x00, 2, 0x0B, 0x09, 0x0B];
    /// `managed ulong (uint, ulong, ulong, uint)`.
    pub(super) const STEP_END: &[u8] = &[0x00, 4, 0x0B, 0x09, 0x0B, 0x0B, 0x09];
    /// `unmanaged void (uint, ulong)`.
    pub(super) const ORIGIN: &[u8] = &[0x01, 2, 0x01, 0x09, 0x0B];
    /// `unmanaged nuint (uint, ulong, ulong, uint)`.
    pub(super) const BEGIN: &[u8] = &[0x01, 4, 0x19, 0x09, 0x0B, 0x0B, 0x09];
    /// `unmanaged void (nuint, uint, uint, ulong)`.
    pub(super) const NUMBER: &[u8] = &[0x01, 4, 0x01, 0x19, 0x09, 0x09, 0x0B];
    /// `unmanaged void (nuint, uint, double)`.
    pub(super) const FLOAT: &[u8] = &[0x01, 3, 0x01, 0x19, 0x09, 0x0D];
    /// `unmanaged void (nuint, uint, nint)`.
    pub(super) const TEXT: &[u8] = &[0x01, 3, 0x01, 0x19, 0x09, 0x18];
    /// `unmanaged void (nuint)`.
    pub(super) const COMMIT: &[u8] = &[0x01, 1, 0x01, 0x19];
}

/// Types of locals.
const I4: &[u8] = &[0x08];
const U8: &[u8] = &[0x0B];
const NATIVE: &[u8] = &[0x19];
const PINNED_STRING: &[u8] = &[0x45, 0x0E];

/// Why a method cannot be traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Untraceable {
    Abstract,
    Native,
    RuntimeAsync,
    Body(Error),
    Runtime(HResult),
}

impl fmt::Display for Untraceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untraceable::Abstract => f.write_str("it is abstract"),
            Untraceable::Native => f.write_str("it has no IL: its code is native, or the runtime makes it"),
            Untraceable::RuntimeAsync => f.write_str("the runtime suspends it at an await"),
            Untraceable::Body(error) => error.fmt(f),
            Untraceable::Runtime(code) => write!(f, "the runtime gave no access to its IL ({code})"),
        }
    }
}

impl From<Error> for Untraceable {
    fn from(error: Error) -> Self {
        Untraceable::Body(error)
    }
}

impl From<HResult> for Untraceable {
    fn from(code: HResult) -> Self {
        Untraceable::Runtime(code)
    }
}

/// Whether a method has IL to wrap.
pub(crate) fn check(method: &Method) -> Result<(), Untraceable> {
    match method {
        Method { attributes, .. } if attributes & ABSTRACT != 0 => Err(Untraceable::Abstract),
        Method { attributes, .. } if attributes & PINVOKE != 0 => Err(Untraceable::Native),
        Method { implementation, .. } if implementation & NO_IL != 0 => Err(Untraceable::Native),
        Method { implementation, .. } if implementation & RUNTIME_ASYNC != 0 => Err(Untraceable::RuntimeAsync),
        _ => Ok(()),
    }
}

/// The body of a method, as it was compiled.
pub(crate) fn original(
    info: &Info<Attached, Alive>,
    module: ModuleId,
    method: MethodToken,
) -> Result<Vec<u8>, HResult> {
    let (mut begin, mut length) = (std::ptr::null(), 0);
    // SAFETY: the object is valid; the out-pointers are live.
    HResult(unsafe {
        sys::ICorProfilerInfo::GetILFunctionBody(info.as_raw(), module.0, method.0, &mut begin, &mut length)
    })
    .ok()?;
    if begin.is_null() || length > LARGEST {
        return Err(HResult::E_FAIL);
    }
    // SAFETY: the runtime's own copy, which lives as long as the module; the caller keeps that loaded.
    Ok(unsafe { std::slice::from_raw_parts(begin, length as usize) }.to_vec())
}

/// Wraps a method.
pub(crate) struct Wrapping<'a> {
    pub(crate) metadata: &'a Metadata,
    pub(crate) types: &'a Types<'a, Attached>,
    pub(crate) emitter: &'a Emitter,
    /// What its probes pass: [`probes::id`].
    pub(crate) id: u32,
    /// Whether records have arguments and results.
    pub(crate) has_arguments: bool,
}

/// The numbers of the new locals, and the tokens of the probes' signatures.
struct Parts {
    begin: u16,
    duration: u16,
    slot: u16,
    text: u16,
    result: Option<u16>,
    enter: u32,
    leave: u32,
    record: u32,
    number: u32,
    float: u32,
    text_signature: u32,
    commit: u32,
}

/// A value to record: where it is, and how to read it.
struct Source {
    position: u8,
    place: Place,
    form: Form,
}

/// How to read a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Value(Value),
    /// By its bytes. It is in a local then, whose address is fixed.
    Structure(Structure),
}

#[derive(Clone, Copy)]
enum Place {
    Argument(u16),
    Local(u16),
    /// A field of the first argument; a structure is copied to the local first.
    Field(u32, Option<u16>),
}

impl Wrapping<'_> {
    /// The new body.
    pub(crate) fn body(&self, method: &Method, original: &[u8]) -> Result<Vec<u8>, Untraceable> {
        let body = Body::read(original)?;
        let signature = MethodSignature::read(&method.signature)?;
        let mut types = vec![U8, U8, NATIVE, PINNED_STRING];
        let mut sources = Vec::new();
        if self.has_arguments {
            self.arguments(&body, &signature, &mut types, &mut sources)?;
        }
        let result = signature.result.map(|result| {
            types.push(result);
            types.len() as u16 - 1
        });
        let (locals, first) = locals_with(&self.metadata.signature(body.locals)?, &types)?;
        let parts = self.parts(first, result)?;
        let mut before = Assembler::default();
        for source in &mut sources {
            if let Place::Local(copy) = source.place {
                let place = first + copy;
                let argument = u16::from(source.position) + u16::from(signature.has_this);
                before.ldarg(argument).stloc(place);
                source.place = Place::Local(place);
            }
        }
        before
            .ldc_i4(self.id as i32)
            .address(probes::enter as *const () as usize)
            .calli(parts.enter)
            .stloc(parts.begin);
        let on_exception = self.end(&parts, &sources, true);
        if let (Some(place), Some(result), true) = (parts.result, signature.result, self.has_arguments) {
            let form = self.readable(result);
            sources.extend(form.map(|form| Source { position: RESULT, place: Place::Local(place), form }));
        }
        let after = self.end(&parts, &sources, false);
        let locals = self.emitter.signature(&locals)?;
        let result = parts.result;
        let marks = BTreeMap::new();
        Ok(wrap(&body, &Probes { before, on_exception, after, result, locals, marks, max_stack: 6 })?)
    }

    /// The new body of the `MoveNext` of a state machine. Its steps count as one call of `method`.
    pub(crate) fn steps(
        &self,
        method: &Method,
        machine: &Machine,
        body: &Body<'_>,
        signature: &[u8],
    ) -> Result<Vec<u8>, Untraceable> {
        if MethodSignature::read(signature)?.result.is_some() {
            return Err(Untraceable::Body(Error::Signature));
        }
        let mut types = vec![U8, U8, NATIVE, PINNED_STRING, U8, I4, I4, I4];
        let value_task = machine.as_task.as_ref().map(|(local, _)| {
            types.push(local);
            types.len() as u16 - 1
        });
        let result = machine.result.as_deref().filter(|_| self.has_arguments).map(|result| {
            types.push(result);
            types.len() as u16 - 1
        });
        let mut sources = if self.has_arguments { self.fields(method, machine, &mut types)? } else { Vec::new() };
        let (locals, first) = locals_with(&self.metadata.signature(body.locals)?, &types)?;
        for source in &mut sources {
            if let Place::Field(_, Some(copy)) = &mut source.place {
                *copy += first;
            }
        }
        let steps = Steps {
            parts: self.parts(first, result)?,
            machine,
            task: first + 4,
            is_first: first + 5,
            is_ended: first + 6,
            has_result: first + 7,
            value_task: value_task.map(|local| first + local),
            step_end: self.emitter.signature(signatures::STEP_END)?,
            origin: self.emitter.signature(signatures::ORIGIN)?,
            id: self.id,
        };
        let result = steps.parts.result.zip(machine.result.as_deref()).and_then(|(place, of_type)| {
            let form = self.readable(of_type)?;
            Some(Source { position: RESULT, place: Place::Local(place), form })
        });
        let sources = (&sources[..], result.as_ref());
        let marks = machine.ends.iter().map(|(at, is_exception)| (*at, steps.completion(*is_exception))).collect();
        let (before, after, on_exception) = (steps.begin(), steps.end(sources), steps.thrown(sources));
        let locals = self.emitter.signature(&locals)?;
        Ok(wrap(body, &Probes { before, on_exception, after, result: None, locals, marks, max_stack: 6 })?)
    }

    /// The parameters of an asynchronous method that are in fields of its machine, and that no step changes.
    fn fields<'s>(
        &self,
        method: &'s Method,
        machine: &Machine,
        types: &mut Vec<&'s [u8]>,
    ) -> Result<Vec<Source>, Untraceable> {
        let signature = MethodSignature::read(&method.signature)?;
        let source = |(position, of_type): (usize, &&'s [u8])| {
            let name = self.metadata.parameter(method.token, position as u32 + 1)?;
            let field = machine.parameter(&name)?;
            let form = self.readable(of_type)?;
            let copy = matches!(form, Form::Structure(_)).then(|| {
                types.push(of_type);
                types.len() as u16 - 1
            });
            Some(Source { position: position as u8, place: Place::Field(field, copy), form })
        };
        Ok(signature.parameters.iter().enumerate().take(MOST_VALUES - 1).filter_map(source).collect())
    }

    /// The arguments to record. One that the body may change is copied at the beginning.
    fn arguments<'s>(
        &self,
        body: &Body<'_>,
        signature: &MethodSignature<'s>,
        types: &mut Vec<&'s [u8]>,
        sources: &mut Vec<Source>,
    ) -> Result<(), Untraceable> {
        let changed = changed_arguments(body)?;
        for (position, of_type) in signature.parameters.iter().enumerate().take(MOST_VALUES - 1) {
            let Some(form) = self.readable(of_type) else { continue };
            let argument = position as u16 + u16::from(signature.has_this);
            let place = if changed.contains(&argument) || matches!(form, Form::Structure(_)) {
                types.push(of_type);
                Place::Local(types.len() as u16 - 1)
            } else {
                Place::Argument(argument)
            };
            sources.push(Source { position: position as u8, place, form });
        }
        Ok(())
    }

    /// How to read a value, if that is possible: an enum as its number.
    fn readable(&self, of_type: &[u8]) -> Option<Form> {
        let value = match Value::of(of_type) {
            Value::ValueType(_) => match self.types.structure(of_type) {
                Some(structure) => return Some(Form::Structure(structure)),
                None => Value::of(&[self.types.element(of_type)?]),
            },
            value => value,
        };
        (!matches!(value, Value::ValueType(_) | Value::Other)).then_some(Form::Value(value))
    }

    fn parts(&self, first: u16, result: Option<u16>) -> Result<Parts, Untraceable> {
        let token = |signature| self.emitter.signature(signature);
        Ok(Parts {
            begin: first,
            duration: first + 1,
            slot: first + 2,
            text: first + 3,
            result: result.map(|result| first + result),
            enter: token(signatures::ENTER)?,
            leave: token(signatures::LEAVE)?,
            record: token(signatures::BEGIN)?,
            number: token(signatures::NUMBER)?,
            float: token(signatures::FLOAT)?,
            text_signature: token(signatures::TEXT)?,
            commit: token(signatures::COMMIT)?,
        })
    }

    /// The end of a call: counts it, and makes a record if it was slow.
    fn end(&self, parts: &Parts, sources: &[Source], is_thrown: bool) -> Assembler {
        let probe = if is_thrown { probes::throw } else { probes::leave };
        let mut code = Assembler::default();
        code.ldc_i4(self.id as i32).ldloc(parts.begin).address(probe as *const () as usize).calli(parts.leave);
        code.stloc(parts.duration).ldloc(parts.duration);
        let fast = code.brfalse();
        code.ldc_i4(self.id as i32).ldloc(parts.begin).ldloc(parts.duration).ldc_i4(is_thrown.into());
        code.address(records::begin as *const () as usize).calli(parts.record).stloc(parts.slot).ldloc(parts.slot);
        let full = code.brfalse();
        parts.fill(sources, &mut code);
        parts.commit(&mut code);
        code.here(fast);
        code.here(full);
        code
    }
}

impl Parts {
    /// Passes the values to the record.
    fn fill(&self, sources: &[Source], code: &mut Assembler) {
        for source in sources {
            read(source, self, code);
        }
    }

    /// Ends the record.
    fn commit(&self, code: &mut Assembler) {
        code.ldloc(self.slot).address(records::commit as *const () as usize).calli(self.commit);
    }
}

/// Arguments, and the result.
type Values<'a> = (&'a [Source], Option<&'a Source>);

/// The code around the steps of a state machine.
struct Steps<'a> {
    parts: Parts,
    machine: &'a Machine,
    /// The local with the task's id; 0 in the first step.
    task: u16,
    is_first: u16,
    /// The local that says whether the call has completed its task.
    is_ended: u16,
    /// The local that says whether it has completed the task with a result, here.
    has_result: u16,
    value_task: Option<u16>,
    step_end: u32,
    origin: u32,
    id: u32,
}

impl Steps<'_> {
    /// Locals of a method may begin with anything.
    fn begin(&self) -> Assembler {
        let mut code = Assembler::default();
        code.ldc_i4(0).conv_u8().stloc(self.task).ldc_i4(0).conv_u8().stloc(self.parts.duration);
        code.ldc_i4(0).stloc(self.is_ended).ldc_i4(0).stloc(self.has_result).ldc_i4(1).stloc(self.is_first);
        code.ldarg(0).ldfld(self.machine.state).ldc_i4(0);
        let first = code.blt();
        code.ldc_i4(0).stloc(self.is_first);
        self.ask_for_task(&mut code);
        code.here(first);
        code.ldc_i4(self.id as i32).ldloc(self.task).address(probes::step as *const () as usize);
        code.calli(self.parts.leave).stloc(self.parts.begin);
        code
    }

    fn ask_for_task(&self, code: &mut Assembler) {
        code.ldarg(0).ldflda(self.machine.builder).call(self.machine.get_task);
        if let (Some((_, as_task)), Some(local)) = (&self.machine.as_task, self.value_task) {
            code.stloc(local).ldloca(local).call(*as_task);
        }
        code.call(self.machine.get_id).conv_u8().stloc(self.task);
    }

    /// Before the call that completes the task. It may run what awaits the task, and that is no part of this call.
    fn completion(&self, is_exception: bool) -> Assembler {
        let mut code = Assembler::default();
        if let (Some(result), false) = (self.parts.result, is_exception) {
            code.dup().stloc(result).ldc_i4(1).stloc(self.has_result);
        }
        self.finish(is_exception, &mut code);
        code
    }

    fn finish(&self, is_thrown: bool, code: &mut Assembler) {
        code.ldc_i4(1).stloc(self.is_ended);
        self.pass(code).ldc_i4(is_thrown.into()).address(probes::finish as *const () as usize);
        code.calli(self.step_end).stloc(self.parts.duration);
    }

    /// Pushes what both probes for the end of a step take.
    fn pass<'c>(&self, code: &'c mut Assembler) -> &'c mut Assembler {
        code.ldc_i4(self.id as i32).ldloc(self.task).ldloc(self.parts.begin)
    }

    /// `MoveNext` returns: the call waits, or has ended.
    fn end(&self, sources: Values<'_>) -> Assembler {
        let mut code = Assembler::default();
        code.ldloc(self.is_ended);
        let ended = code.brtrue();
        code.ldloc(self.is_first);
        let later = code.brfalse();
        // Since the first wait the task exists.
        self.ask_for_task(&mut code);
        code.here(later);
        self.pass(&mut code).ldloc(self.is_first).address(probes::suspend as *const () as usize);
        code.calli(self.step_end).stloc(self.parts.duration).ldloc(self.is_first);
        let without_callers = code.brfalse();
        code.ldc_i4(self.id as i32).ldloc(self.task).address(records::origin as *const () as usize).calli(self.origin);
        code.here(without_callers);
        code.here(ended);
        self.record(sources, &mut code);
        code
    }

    /// An exception leaves `MoveNext`: the runtime could not complete the task.
    fn thrown(&self, sources: Values<'_>) -> Assembler {
        let mut code = Assembler::default();
        code.ldloc(self.is_ended);
        let ended = code.brtrue();
        self.finish(true, &mut code);
        code.here(ended);
        self.record(sources, &mut code);
        code
    }

    fn record(&self, (arguments, result): Values<'_>, code: &mut Assembler) {
        let parts = &self.parts;
        code.ldloc(parts.duration);
        let fast = code.brfalse();
        code.ldc_i4(self.id as i32).ldloc(self.task).ldloc(parts.duration).ldloc(self.is_first);
        code.address(records::begin_async as *const () as usize).calli(parts.record).stloc(parts.slot);
        code.ldloc(parts.slot);
        let full = code.brfalse();
        parts.fill(arguments, code);
        if let Some(result) = result {
            code.ldloc(self.has_result);
            let without = code.brfalse();
            parts.fill(std::slice::from_ref(result), code);
            code.here(without);
        }
        parts.commit(code);
        code.here(fast);
        code.here(full);
    }
}

/// Passes a value to the record.
fn read(source: &Source, parts: &Parts, code: &mut Assembler) {
    let load = |code: &mut Assembler| match source.place {
        Place::Argument(argument) => _ = code.ldarg(argument),
        Place::Local(local) => _ = code.ldloc(local),
        Place::Field(field, _) => _ = code.ldarg(0).ldfld(field),
    };
    let kind = match source.form {
        Form::Value(Value::Bool) => 0,
        Form::Value(Value::Char) => 1,
        Form::Value(Value::Signed) => 2,
        Form::Value(Value::Unsigned) => 3,
        Form::Value(Value::Float) => {
            code.ldloc(parts.slot).ldc_i4(source.position.into());
            load(code);
            code.conv_r8().address(records::float as *const () as usize).calli(parts.float);
            return;
        }
        Form::Structure(structure) => {
            let local = match source.place {
                Place::Local(local) => local,
                Place::Field(_, Some(copy)) => {
                    load(code);
                    code.stloc(copy);
                    copy
                }
                Place::Argument(_) | Place::Field(_, None) => return,
            };
            let read = if structure.bytes() == 16 { records::wide } else { records::ticks };
            code.ldloc(parts.slot).ldc_i4(source.position.into()).ldloca(local).conv_i();
            code.address(read as *const () as usize).calli(parts.text_signature);
            return;
        }
        Form::Value(Value::Text) => {
            load(code);
            code.stloc(parts.text).ldloc(parts.slot).ldc_i4(source.position.into()).ldloc(parts.text).conv_i();
            code.address(records::text as *const () as usize).calli(parts.text_signature);
            code.ldnull().stloc(parts.text);
            return;
        }
        Form::Value(Value::ValueType(_) | Value::Other) => return,
    };
    code.ldloc(parts.slot).ldc_i4(source.position.into()).ldc_i4(kind);
    load(code);
    if source.form == Form::Value(Value::Signed) {
        code.conv_i8()
    } else {
        code.conv_u8()
    };
    code.address(records::number as *const () as usize).calli(parts.number);
}

/// The arguments that the body stores to, or takes the address of.
fn changed_arguments(body: &Body<'_>) -> Result<Vec<u16>, Error> {
    let mut changed = Vec::new();
    for instruction in Instructions::of(body.code) {
        let instruction = instruction?;
        match (instruction.opcode, instruction.operand) {
            // `ldarga.s`, `starg.s`.
            (0x0F | 0x10, Operand::Plain([argument])) => changed.push(u16::from(*argument)),
            // `ldarga`, `starg`.
            (0xFE0A | 0xFE0B, Operand::Plain([low, high])) => changed.push(u16::from_le_bytes([*low, *high])),
            _ => {}
        }
    }
    Ok(changed)
}
