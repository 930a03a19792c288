//! Escapes the target's texts for a page, as markup or as JSON. Neither form contains a `<`.

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// Writes `text` as the content of an element or a quoted attribute.
pub(super) fn text(text: &str, out: &mut dyn Write) -> io::Result<()> {
    for letter in text.chars() {
        match letter {
            '&' => out.write_all(b"&amp;")?,
            '<' => out.write_all(b"&lt;")?,
            '>' => out.write_all(b"&gt;")?,
            '"' => out.write_all(b"&quot;")?,
            '\'' => out.write_all(b"&#39;")?,
            letter => write!(out, "{letter}")?,
        }
    }
    Ok(())
}

/// Writes `value` as JSON that is safe within `<script>`.
pub(super) fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, ScriptSafe)).map_err(io::Error::from)
}

/// Compact JSON whose strings cannot end a script or start a comment: `</script>` and `<!--` cannot occur.
struct ScriptSafe;

impl Formatter for ScriptSafe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&']) {
            writer.write_all(&rest.as_bytes()[..at])?;
            write!(writer, "\\u{:04x}", rest.as_bytes()[at])?;
            rest = &rest[at + 1..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_the_target_is_markup() {
        let hostile = "</script><script>alert('&\"')";
        let mut out = Vec::new();
        text(hostile, &mut out).expect("a vector takes all");
        assert_eq!(String::from_utf8_lossy(&out), "&lt;/script&gt;&lt;script&gt;alert(&#39;&amp;&quot;&#39;)");
        out.clear();
        json(&[hostile, "\u{2028}<!--ü"], &mut out).expect("a vector takes all");
        assert!(!out.contains(&b'<') && !out.contains(&b'>') && !out.contains(&b'&'));
        let back: Vec<String> = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(back, [hostile, "\u{2028}<!--ü"]);
    }
}
