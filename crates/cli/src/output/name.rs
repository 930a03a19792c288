//! The name of an output that nobody named: `<app>_<yyyyMMdd>_<HHmmss>.html`, in the current directory.

use jiff::Zoned;
use std::path::PathBuf;

/// Longest part of it that is the application's name, bytes.
const LONGEST: usize = 100;

/// The name for a recording of `application` begun at `now`.
pub(crate) fn default_output(application: &str, now: &Zoned, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}_{}{ending}", safe(application), now.strftime("%Y%m%d_%H%M%S")))
}

/// What of an application's name may stand in a file's name, in any shell and on any disk.
fn safe(application: &str) -> String {
    let mut name = String::new();
    for letter in application.chars() {
        let letter = if letter.is_alphanumeric() || "._-+".contains(letter) { letter } else { '_' };
        if name.len() + letter.len_utf8() > LONGEST {
            break;
        }
        name.push(letter);
    }
    // Neither hidden nor like a flag.
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "dotnet".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use jiff::tz::TimeZone;

    #[test]
    fn the_name_has_the_application_and_the_time() {
        let now = date(2026, 1, 2).at(3, 4, 5, 0).to_zoned(TimeZone::UTC).expect("a time");
        assert_eq!(default_output("My.Orders", &now, ".html"), PathBuf::from("My.Orders_20260102_030405.html"));
        assert_eq!(default_output("../a b;$(c)", &now, ".remora"), PathBuf::from("_a_b___c__20260102_030405.remora"));
        assert_eq!(default_output("", &now, ".html"), PathBuf::from("dotnet_20260102_030405.html"));
        assert!(default_output(&"ö".repeat(300), &now, ".html").as_os_str().len() < 200);
    }
}
