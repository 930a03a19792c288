//! The order of a recorder to a process that it starts: [`Config`](crate::Config), as text in an environment variable.

use crate::bytes::Malformed;
use std::time::Duration;

/// How long a starting process waits for its recorder.
pub const STARTUP_LIMIT: Duration = Duration::from_secs(5);

/// The variable.
pub const STARTUP_VARIABLE: &str = "REMORA_STARTUP";

/// A class id as the runtime's variables have it: `{7D0C3F5E-52A1-4C8B-9E12-52454D4F5241}`.
pub fn class_text((first, second, third, rest): (u32, u16, u16, [u8; 8])) -> String {
    let [high, low, rest @ ..] = rest;
    let rest: String = rest.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("{{{first:08X}-{second:04X}-{third:04X}-{high:02X}{low:02X}-{rest}}}")
}

/// The order, and the variables that the process must not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartupOrder {
    /// [`Config::encode`](crate::Config::encode).
    pub config: Vec<u8>,
    /// The variables that the recorder has set for the runtime, each with its value before. The process's children would load the agent, too.
    pub own_variables: Vec<(String, Option<String>)>,
}

impl StartupOrder {
    /// The value of the variable: after colons the config, then for each variable its name and its value, `-` for none. All but the names
    /// as hexadecimal digits.
    pub fn encode(&self) -> String {
        self.own_variables.iter().fold(digits(&self.config), |text, (name, value)| {
            let value = value.as_ref().map_or("-".to_owned(), |value| digits(value.as_bytes()));
            text + ":" + name + ":" + &value
        })
    }

    /// All variables to set back, each with its value.
    pub fn variables(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let own = self.own_variables.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
        own.chain([(STARTUP_VARIABLE, None)])
    }

    /// Reads what [`StartupOrder::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] if it is something else.
    pub fn decode(text: &str) -> Result<StartupOrder, Malformed> {
        let mut parts = text.split(':');
        let config = bytes(parts.next().unwrap_or_default())?;
        let mut own_variables = Vec::new();
        while let Some(name) = parts.next() {
            let value = match parts.next().ok_or(Malformed)? {
                "-" => None,
                value => Some(String::from_utf8(bytes(value)?).map_err(|_| Malformed)?),
            };
            own_variables.push((name.to_owned(), value));
        }
        Ok(StartupOrder { config, own_variables })
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Result<Vec<u8>, Malformed> {
    let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(Malformed);
    let byte = |pair: &[u8; 2]| Ok((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    let (pairs, []) = digits.as_bytes().as_chunks() else { return Err(Malformed) };
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back_as_it_was_and_another_text_is_refused() {
        let named = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        for own_variables in
            [vec![], vec![named("CORECLR_PROFILER", None), named("B", Some("é: -")), named("C", Some(""))]]
        {
            let order = StartupOrder { config: vec![0, 0x7f, 0xff, 0x0a], own_variables };
            assert_eq!(StartupOrder::decode(&order.encode()), Ok(order));
        }
        for text in ["0", "0g", "é", "00:A", "00:A:0", "00:A:ff"] {
            assert_eq!(StartupOrder::decode(text), Err(Malformed), "{text}");
        }
    }
}
