//! Decides for each function, once, whether it is hooked.

use crate::application::Choice;
use crate::arguments::Shape;
use crate::id_map::IdMap;
use crate::rejit::metadata::Metadata;
use crate::state::State;
use corprof::{Alive, FunctionId, HResult, Info, ModuleId, ModuleMetadata, Startup, TypeToken};
use remora_call_table::layout;
use remora_wire::is_framework;

/// Enclosing types in a name, at most.
const MAXIMUM_NESTING: usize = 16;

/// The number of a function without hooks.
const NONE: u32 = u32::MAX - 1;

/// By function, the method's number, or [`NONE`].
static FUNCTIONS: IdMap<{ 1 << 17 }> = IdMap::new();
/// By module, twice its record's number, and 1 if its methods may be hooked.
static MODULES: IdMap<{ 1 << 12 }> = IdMap::new();

/// The number of a hooked function that was decided before.
pub fn known(function: FunctionId) -> Option<u32> {
    FUNCTIONS.get(function.0).filter(|number| *number != NONE)
}

/// The number of a function if it is hooked.
pub fn decide(state: &State, info: &Info<Startup, Alive>, choice: &Choice, function: FunctionId) -> Option<u32> {
    let number = FUNCTIONS.get(function.0).unwrap_or_else(|| {
        state.table.count(layout::CONSIDERED);
        let number = method_of(state, info, choice, function).unwrap_or_else(|_| {
            state.table.count(layout::NOT_HOOKED);
            None
        });
        let number = number.unwrap_or(NONE);
        FUNCTIONS.put(function.0, number);
        number
    });
    (number != NONE).then_some(number)
}

/// The function is unloaded. The runtime may give its id to another one.
pub fn forget(function: FunctionId) {
    FUNCTIONS.forget(function.0);
}

/// The module is unloaded.
pub fn forget_module(module: ModuleId) {
    MODULES.forget(module.0);
}

fn method_of(
    state: &State,
    info: &Info<Startup, Alive>,
    choice: &Choice,
    function: FunctionId,
) -> Result<Option<u32>, HResult> {
    let facts = info.get_function_info2(function)?;
    let (module, may_be_hooked) = module_of(state, info, choice, facts.module)?;
    if !may_be_hooked {
        return Ok(None);
    }
    let metadata = info.get_module_metadata(facts.module)?.ok_or(HResult::E_FAIL)?;
    let method = metadata.method(facts.token)?;
    let name = format!("{}.{}", type_name(&metadata, method.class)?, method.name);
    if !choice.includes(&name) {
        return Ok(None);
    }
    let full =
        Metadata::of(info, facts.module).map(|all| all.overload(method.class.0, &method.name, &method.signature));
    let name = name + &full.unwrap_or_default();
    let place = (function, facts.module, facts.token);
    let shape = if state.has_values { Shape::of(info, place, &method.signature) } else { None };
    let parameters = shape.as_ref().map_or("", |shape| &shape.parameters);
    let added = state.table.add_method_with(module, facts.token.0, &name, parameters);
    let index = added.ok_or(HResult::E_OUTOFMEMORY)?;
    if let Some(shape) = shape {
        shape.store(index);
    }
    Ok(Some(index.0))
}

/// The record of a module, and whether its methods may be hooked.
fn module_of(
    state: &State,
    info: &Info<Startup, Alive>,
    choice: &Choice,
    module: ModuleId,
) -> Result<(u32, bool), HResult> {
    let number = match MODULES.get(module.0) {
        Some(number) => number,
        None => {
            let facts = info.get_module_info2(module)?;
            let assembly = info.get_assembly_info(facts.assembly)?.name;
            let may_be_hooked = choice.with_framework || !is_framework(&assembly);
            let index =
                if may_be_hooked { state.table.add_module(&facts.path).ok_or(HResult::E_OUTOFMEMORY)? } else { 0 };
            let number = index << 1 | u32::from(may_be_hooked);
            MODULES.put(module.0, number);
            number
        }
    };
    Ok((number >> 1, number & 1 == 1))
}

/// Namespace, enclosing types and name, with dots and without the numbers of type parameters.
pub fn type_name(metadata: &ModuleMetadata<'_>, class: TypeToken) -> Result<String, HResult> {
    let mut name = plain(&metadata.type_definition(class)?.name);
    let mut class = class;
    for _ in 0..MAXIMUM_NESTING {
        let Some(outer) = metadata.enclosing_type(class)? else { break };
        name = format!("{}.{name}", plain(&metadata.type_definition(outer)?.name));
        class = outer;
    }
    Ok(name)
}

fn plain(name: &str) -> String {
    name.split_once('`').map_or(name, |(name, _)| name).to_owned()
}
