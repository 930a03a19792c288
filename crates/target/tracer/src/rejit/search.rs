//! The methods of a module that match the request.

use super::metadata::{Metadata, Method};
use std::collections::{BTreeMap, BTreeSet};

/// Attributes of a method that the compiler turned into a state machine; their value names that class.
const STATE_MACHINES: [&str; 2] = [
    "System.Runtime.CompilerServices.AsyncStateMachineAttribute",
    "System.Runtime.CompilerServices.AsyncIteratorStateMachineAttribute",
];

/// A method that matches.
pub(crate) struct Match {
    pub(crate) token: u32,
    pub(crate) name: String,
    pub(crate) row: Method,
    /// The `MoveNext` of its state machine, if it is asynchronous.
    pub(crate) steps: Option<u32>,
}

/// Searches a module for methods whose name is wanted.
pub(crate) fn search(metadata: &Metadata, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Match> {
    let mut found = Vec::new();
    for class in metadata.types() {
        let Some(class_name) = metadata.type_name(class) else { continue };
        for token in metadata.methods(class) {
            let Ok(row) = metadata.method(token) else { continue };
            let name = format!("{class_name}.{}", row.name);
            if is_wanted(&name) {
                found.push(Match { token, name, row, steps: None });
            }
        }
    }
    find_steps(metadata, &mut found);
    // Steps belong to their method, even if their own name is wanted, too.
    let steps: BTreeSet<u32> = found.iter().filter_map(|method| method.steps).collect();
    found.retain(|method| !steps.contains(&method.token));
    found
}

/// Finds the state machines of asynchronous methods.
fn find_steps(metadata: &Metadata, found: &mut [Match]) {
    let machines: BTreeMap<String, usize> = found
        .iter()
        .enumerate()
        .filter_map(|(index, method)| {
            let value = STATE_MACHINES.iter().find_map(|name| metadata.attribute(method.token, name))?;
            Some((named_type(&value)?, index))
        })
        .collect();
    if machines.is_empty() {
        return;
    }
    for class in metadata.types() {
        let Some(index) = metadata.metadata_name(class).and_then(|name| machines.get(&name)) else { continue };
        found[*index].steps = metadata
            .methods(class)
            .into_iter()
            .find(|token| metadata.method(*token).is_ok_and(|row| row.name == "MoveNext"));
    }
}

/// The type that an attribute's only argument names, without its assembly: ECMA-335 II.23.3.
fn named_type(value: &[u8]) -> Option<String> {
    let text = value.strip_prefix(&[1, 0])?;
    let (length, rest) = match *text {
        [length @ 0..0x80, ref rest @ ..] => (usize::from(length), rest),
        [high @ 0x80..0xC0, low, ref rest @ ..] => (usize::from(high & 0x3F) << 8 | usize::from(low), rest),
        _ => return None,
    };
    let name = std::str::from_utf8(rest.get(..length)?).ok()?;
    Some(name.split(',').next().unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::named_type;

    #[test]
    fn the_class_of_a_state_machine_is_read_from_the_attribute() {
        assert_eq!(named_type(b"\x01\0\x07A+<B>d1\0\0").as_deref(), Some("A+<B>d1"));
        assert_eq!(named_type(b"\x01\0\x0AA+B`1, Lib\0\0").as_deref(), Some("A+B`1"));
        assert_eq!(named_type(b"\x01\0\x0AA"), None);
        assert_eq!(named_type(b""), None);
    }
}
