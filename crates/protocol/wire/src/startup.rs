//! The order of a recorder to a process that it starts: [`Config`](crate::Config), as text in an environment variable.

use crate::bytes::Malformed;

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
    /// Names of variables that only the recorder has set, for the runtime. The process's children would load the agent, too.
    pub own_variables: Vec<String>,
}

impl StartupOrder {
    /// The value of the variable: hexadecimal digits, and the names, each after a colon.
    pub fn encode(&self) -> String {
        let digits: String = self.config.iter().map(|byte| format!("{byte:02x}")).collect();
        self.own_variables.iter().fold(digits, |text, name| text + ":" + name)
    }

    /// All variables to remove.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.own_variables.iter().map(String::as_str).chain([STARTUP_VARIABLE])
    }

    /// Reads what [`StartupOrder::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] if it is something else.
    pub fn decode(text: &str) -> Result<StartupOrder, Malformed> {
        let mut parts = text.split(':');
        let digits = parts.next().unwrap_or_default().as_bytes();
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(Malformed);
        let byte = |pair: &[u8; 2]| Ok((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
        let (pairs, []) = digits.as_chunks() else { return Err(Malformed) };
        let config = pairs.iter().map(byte).collect::<Result<_, _>>()?;
        Ok(StartupOrder { config, own_variables: parts.map(str::to_owned).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back_as_it_was_and_another_text_is_refused() {
        for own_variables in [Vec::new(), vec!["CORECLR_PROFILER".to_owned(), "B".to_owned()]] {
            let order = StartupOrder { config: vec![0, 0x7f, 0xff, 0x0a], own_variables };
            assert_eq!(StartupOrder::decode(&order.encode()), Ok(order));
        }
        for text in ["0", "0g", "00:A\u{e4}:é00:", "é"] {
            let decoded = StartupOrder::decode(text);
            assert!(decoded.is_err() || text.starts_with("00:"), "{text}: {decoded:?}");
        }
    }
}
