//! The GC settings of an application's configuration file (seed 004, "GC Modes").

use crate::runtime::GcMode;
use roxmltree::{Document, Node, ParsingOptions};
use std::fmt;

/// Largest file that is read, bytes.
const LARGEST: usize = 1 << 20;
/// Most elements, attributes and texts in it.
const MOST_NODES: u32 = 100_000;

/// The settings in the file. The defaults are those of a client application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppConfig {
    /// `<gcConcurrent enabled="…"/>`.
    pub gc_concurrent: Option<bool>,
    /// `<gcServer enabled="…"/>`.
    pub gc_server: Option<bool>,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// It is too large.
    TooLarge,
    /// It is not XML.
    NotXml(String),
    /// `enabled` of this element is neither `true` nor `false`.
    NotBoolean(&'static str),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::TooLarge => write!(out, "it has more than {LARGEST} bytes"),
            ConfigError::NotXml(why) => write!(out, "it is not XML: {why}"),
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
        let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
        let file = Document::parse_with_options(text, options).map_err(|why| ConfigError::NotXml(why.to_string()))?;
        Ok(AppConfig { gc_concurrent: setting(&file, "gcConcurrent")?, gc_server: setting(&file, "gcServer")? })
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

/// `enabled` of the first element with this name in `<runtime>`.
fn setting(file: &Document<'_>, name: &'static str) -> Result<Option<bool>, ConfigError> {
    let is_it = |node: &Node<'_, '_>| {
        node.has_tag_name(name) && node.parent_element().is_some_and(|parent| parent.has_tag_name("runtime"))
    };
    let Some(element) = file.descendants().find(is_it) else { return Ok(None) };
    match element.attribute("enabled") {
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        _ => Err(ConfigError::NotBoolean(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_collections_are_the_default_and_the_setting_switches_them_off() {
        let cases = [
            ("", GcMode::Concurrent),
            ("<runtime><gcConcurrent enabled=\"false\"/></runtime>", GcMode::Blocking),
            ("<runtime><gcConcurrent  enabled = 'false' ></gcConcurrent></runtime>", GcMode::Blocking),
            ("<runtime><gcConcurrent enabled=\"true\"/></runtime>", GcMode::Concurrent),
            ("<runtime><!-- <gcConcurrent enabled=\"false\"/> --></runtime>", GcMode::Concurrent),
            ("<runtime><gcConcurrentX enabled=\"false\"/></runtime>", GcMode::Concurrent),
            ("<gcConcurrent enabled=\"false\"/>", GcMode::Concurrent),
            ("<runtime><gcServer enabled=\"true\"/><gcConcurrent enabled=\"false\"/></runtime>", GcMode::Server),
        ];
        for (text, mode) in cases {
            let text = format!("<configuration>{text}</configuration>");
            assert_eq!(AppConfig::parse(&text).map(AppConfig::gc_mode), Ok(mode), "{text}");
        }
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        for text in ["", "no XML", "<configuration>", "<!-- <gcConcurrent", "<a><b></a>", "<gcConcurrent enabled"] {
            assert!(matches!(AppConfig::parse(text), Err(ConfigError::NotXml(_))), "{text}");
        }
        for setting in ["<gcServer enabled='0'/>", "<gcServer/>"] {
            let text = format!("<configuration><runtime>{setting}</runtime></configuration>");
            assert_eq!(AppConfig::parse(&text), Err(ConfigError::NotBoolean("gcServer")), "{text}");
        }
        assert_eq!(AppConfig::parse(&" ".repeat(LARGEST + 1)), Err(ConfigError::TooLarge));
    }
}
