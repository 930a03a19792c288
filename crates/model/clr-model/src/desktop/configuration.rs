//! The GC settings of an application's configuration file (seed 004, "GC Modes").

use crate::runtime::GcMode;
use std::fmt;

/// Largest file that is read, bytes.
const LARGEST: usize = 1 << 20;

/// The settings in the file. The defaults are those of a client application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppConfig {
    /// `<gcConcurrent enabled="…"/>`.
    pub gc_concurrent: Option<bool>,
    /// `<gcServer enabled="…"/>`.
    pub gc_server: Option<bool>,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigError {
    /// It is too large.
    TooLarge,
    /// A comment or an element does not end.
    Unfinished,
    /// `enabled` of this element is neither `true` nor `false`.
    NotBoolean(&'static str),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::TooLarge => write!(out, "it has more than {LARGEST} bytes"),
            ConfigError::Unfinished => out.write_str("an element or a comment does not end"),
            ConfigError::NotBoolean(name) => write!(out, "enabled of <{name}> must be \"true\" or \"false\""),
        }
    }
}

impl AppConfig {
    /// The most bytes that it may have.
    pub const LARGEST: usize = LARGEST;

    /// Reads the settings. Other elements are ignored, as the runtime does.
    ///
    /// # Errors
    /// The file is too large or damaged.
    pub fn parse(text: &str) -> Result<AppConfig, ConfigError> {
        if text.len() > LARGEST {
            return Err(ConfigError::TooLarge);
        }
        let text = without_comments(text)?;
        Ok(AppConfig { gc_concurrent: setting(&text, "gcConcurrent")?, gc_server: setting(&text, "gcServer")? })
    }

    /// The GC mode. Without settings, it is concurrent (seed 004).
    pub fn gc_mode(self) -> GcMode {
        match (self.gc_server, self.gc_concurrent) {
            (Some(true), _) => GcMode::Server,
            (_, Some(false)) => GcMode::Blocking,
            _ => GcMode::Concurrent,
        }
    }
}

fn without_comments(text: &str) -> Result<String, ConfigError> {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, comment)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = comment.split_once("-->").ok_or(ConfigError::Unfinished)?.1;
    }
    kept.push_str(rest);
    Ok(kept)
}

/// `enabled` of the first element with this name.
fn setting(text: &str, name: &'static str) -> Result<Option<bool>, ConfigError> {
    for (at, _) in text.match_indices('<') {
        let Some(attributes) = text[at + 1..].strip_prefix(name) else { continue };
        let (attributes, _) = attributes.split_once('>').ok_or(ConfigError::Unfinished)?;
        if !attributes.starts_with(|letter: char| letter.is_whitespace() || letter == '/') {
            continue;
        }
        return enabled(attributes).map(Some).ok_or(ConfigError::NotBoolean(name));
    }
    Ok(None)
}

fn enabled(attributes: &str) -> Option<bool> {
    let (_, value) = attributes.split_once("enabled")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    match value[1..].split_once(quote)?.0 {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_collections_are_the_default_and_the_setting_switches_them_off() {
        let cases = [
            ("<configuration/>", GcMode::Concurrent),
            ("<runtime><gcConcurrent enabled=\"false\"/></runtime>", GcMode::Blocking),
            ("<gcConcurrent  enabled = 'false' ></gcConcurrent>", GcMode::Blocking),
            ("<gcConcurrent enabled=\"true\"/>", GcMode::Concurrent),
            ("<!-- <gcConcurrent enabled=\"false\"/> -->", GcMode::Concurrent),
            ("<gcConcurrentX enabled=\"false\"/>", GcMode::Concurrent),
            ("<gcServer enabled=\"true\"/><gcConcurrent enabled=\"false\"/>", GcMode::Server),
        ];
        for (text, mode) in cases {
            assert_eq!(AppConfig::parse(text).map(AppConfig::gc_mode), Ok(mode), "{text}");
        }
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        for (text, error) in [
            ("<!-- <gcConcurrent", ConfigError::Unfinished),
            ("<gcConcurrent enabled", ConfigError::Unfinished),
            ("<gcConcurrent enabled=\"0\"/>", ConfigError::NotBoolean("gcConcurrent")),
            ("<gcServer/>", ConfigError::NotBoolean("gcServer")),
            ("<gcServer enabled=\"ü/>", ConfigError::NotBoolean("gcServer")),
        ] {
            assert_eq!(AppConfig::parse(text), Err(error), "{text}");
        }
        assert_eq!(AppConfig::parse(&" ".repeat(LARGEST + 1)), Err(ConfigError::TooLarge));
    }
}
