//! Arguments and results of calls, in words and as JSON.

use remora_wire::method_trace::{RESULT, TraceValue};
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
}

/// The arguments among the values of a call.
pub fn arguments<'a>(values: &[(u8, TraceValue)], parameters: &'a [String]) -> Vec<Argument<'a>> {
    let arguments = values.iter().filter(|(position, _)| *position != RESULT);
    arguments
        .map(|(position, value)| {
            let name = parameters.get(usize::from(*position)).map(String::as_str);
            Argument { position: *position, name, value: as_json(value) }
        })
        .collect()
}

/// The result among the values of a call.
pub fn result(values: &[(u8, TraceValue)]) -> Option<Value> {
    at(values, RESULT).map(as_json)
}

/// `Shop.Orders.Pay(number=17, means="cash") = true`.
pub fn described(method: &str, values: &[(u8, TraceValue)], parameters: &[String]) -> String {
    let arguments: Vec<String> = (0..RESULT)
        .zip(parameters)
        .map(|(position, name)| match at(values, position) {
            Some(value) => format!("{name}={}", in_words(value)),
            None => name.clone(),
        })
        .collect();
    let result = at(values, RESULT).map_or(String::new(), |value| format!(" = {}", in_words(value)));
    format!("{method}({}){result}", arguments.join(", "))
}

fn at(values: &[(u8, TraceValue)], position: u8) -> Option<&TraceValue> {
    values.iter().find(|(place, _)| *place == position).map(|(_, value)| value)
}

fn in_words(value: &TraceValue) -> String {
    match value {
        TraceValue::Bool(value) => value.to_string(),
        TraceValue::Char(unit) => format!("{:?}", char::from_u32(u32::from(*unit)).unwrap_or('\u{FFFD}')),
        TraceValue::Signed(value) => value.to_string(),
        TraceValue::Unsigned(value) => value.to_string(),
        TraceValue::Float(value) => value.to_string(),
        TraceValue::Null => "null".into(),
        TraceValue::Text(text, length) => {
            let kept: String = text.chars().take(LONGEST_TEXT).collect();
            let rest = if kept.encode_utf16().count() < *length as usize { "…" } else { "" };
            format!("{kept:?}{rest}")
        }
    }
}

fn as_json(value: &TraceValue) -> Value {
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
    }
}
