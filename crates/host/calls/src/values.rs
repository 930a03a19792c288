//! Arguments and results of calls, in words and as JSON.

use crate::structures::shown;
use remora_wire::method_trace::{Parameter, RESULT, RESULT_NAME, TraceValue};
use serde::Serialize;
use serde_json::{Value, json};

/// Characters shown of a string.
const LONGEST_TEXT: usize = 40;

/// An argument as JSON.
#[derive(Debug, Serialize)]
pub struct Argument<'a> {
    position: u8,
    name: Option<&'a str>,
    value: Value,
    /// The constant of its enum.
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    constant: Option<String>,
}

/// The arguments among the values of a call.
pub fn arguments<'a>(values: &[(u8, TraceValue)], parameters: &'a [Parameter]) -> Vec<Argument<'a>> {
    let arguments = values.iter().filter(|(position, _)| *position != RESULT);
    arguments
        .map(|(position, value)| {
            let parameter = parameters.get(usize::from(*position));
            let name = parameter.map(|parameter| parameter.name.as_str());
            Argument {
                position: *position,
                name,
                value: as_json(value, parameter),
                constant: constant(value, parameter),
            }
        })
        .collect()
}

/// The result among the values of a call.
pub fn result(values: &[(u8, TraceValue)], parameters: &[Parameter]) -> Option<Value> {
    at(values, RESULT).map(|value| as_json(value, of_result(parameters)))
}

/// The constant of the result's enum.
pub fn constant_of_result(values: &[(u8, TraceValue)], parameters: &[Parameter]) -> Option<String> {
    constant(at(values, RESULT)?, of_result(parameters))
}

fn of_result(parameters: &[Parameter]) -> Option<&Parameter> {
    parameters.iter().find(|parameter| parameter.name == RESULT_NAME)
}

/// The name of an enum's value.
fn constant(value: &TraceValue, parameter: Option<&Parameter>) -> Option<String> {
    match value {
        TraceValue::Signed(bits) => parameter?.name_of(*bits),
        TraceValue::Unsigned(bits) => parameter?.name_of(*bits as i64),
        _ => None,
    }
}

/// `Shop.Orders.Pay(number=17, means="cash") = true`.
pub fn described(method: &str, values: &[(u8, TraceValue)], parameters: &[Parameter]) -> String {
    let shown = |value, parameter| constant(value, parameter).unwrap_or_else(|| in_words(value, parameter));
    let arguments: Vec<String> = (0..RESULT)
        .zip(parameters)
        .filter(|(_, parameter)| parameter.name != RESULT_NAME)
        .map(|(position, parameter)| match at(values, position) {
            Some(value) => format!("{}={}", parameter.name, shown(value, Some(parameter))),
            None => parameter.name.clone(),
        })
        .collect();
    let result = at(values, RESULT).map(|value| format!(" = {}", shown(value, of_result(parameters))));
    let result = result.unwrap_or_default();
    format!("{method}({}){result}", arguments.join(", "))
}

fn at(values: &[(u8, TraceValue)], position: u8) -> Option<&TraceValue> {
    values.iter().find(|(place, _)| *place == position).map(|(_, value)| value)
}

fn in_words(value: &TraceValue, parameter: Option<&Parameter>) -> String {
    if let Some(text) = structure(value, parameter) {
        return text;
    }
    match value {
        TraceValue::Bool(value) => value.to_string(),
        TraceValue::Char(unit) => format!("{:?}", char::from_u32(u32::from(*unit)).unwrap_or('\u{FFFD}')),
        TraceValue::Signed(value) => value.to_string(),
        TraceValue::Unsigned(value) => value.to_string(),
        TraceValue::Float(value) => value.to_string(),
        TraceValue::Null => "null".into(),
        TraceValue::Wide(bits) => format!("{bits:#x}"),
        TraceValue::Text(text, length) => {
            let kept: String = text.chars().take(LONGEST_TEXT).collect();
            let rest = if kept.encode_utf16().count() < *length as usize { "…" } else { "" };
            format!("{kept:?}{rest}")
        }
    }
}

fn structure(value: &TraceValue, parameter: Option<&Parameter>) -> Option<String> {
    let structure = parameter?.structure?;
    match value {
        TraceValue::Unsigned(bits) if structure.bytes() == 8 => Some(shown(structure, u128::from(*bits))),
        TraceValue::Wide(bits) if structure.bytes() == 16 => Some(shown(structure, *bits)),
        _ => None,
    }
}

fn as_json(value: &TraceValue, parameter: Option<&Parameter>) -> Value {
    if let Some(text) = structure(value, parameter) {
        return json!(text);
    }
    match value {
        TraceValue::Bool(value) => json!(value),
        TraceValue::Char(unit) => json!(String::from_utf16_lossy(&[*unit])),
        TraceValue::Signed(value) => json!(value),
        TraceValue::Unsigned(value) => json!(value),
        // JSON has no such numbers.
        TraceValue::Float(value) if value.is_nan() => json!("NaN"),
        TraceValue::Float(value) if value.is_infinite() => json!(if *value > 0.0 { "Infinity" } else { "-Infinity" }),
        TraceValue::Float(value) => json!(value),
        TraceValue::Text(text, _) => json!(text),
        TraceValue::Null => Value::Null,
        TraceValue::Wide(bits) => json!(format!("{bits:#x}")),
    }
}
