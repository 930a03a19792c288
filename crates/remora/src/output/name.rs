//! The default output name: `<app>_<yyyyMMdd>_<HHmmss>.html`, in the current directory.

use jiff::Zoned;
use remora_attach::TargetText;
use std::path::{Path, PathBuf};

/// Maximum length of the application's part, bytes.
const LONGEST: usize = 100;
/// Maximum number of outputs in one second.
const MOST: usize = 100;

/// A free name for an output of `application` at `now`; numbered if two are created within a second.
pub(crate) fn default_output(application: &TargetText, now: &Zoned, ending: &str) -> PathBuf {
    free(&format!("{}_{}", safe(application), now.strftime("%Y%m%d_%H%M%S")), ending, |path| {
        path.symlink_metadata().is_ok()
    })
}

/// `stem` and `ending`, with a number between them if that file exists. A stem includes the second, so few files share it.
fn free(stem: &str, ending: &str, is_there: impl Fn(&Path) -> bool) -> PathBuf {
    let numbered = (2..MOST).map(|number| format!("{stem}_{number}{ending}"));
    let mut names = std::iter::once(format!("{stem}{ending}")).chain(numbered).map(PathBuf::from);
    // If all are taken, the first is refused as existing.
    names.find(|name| !is_there(name)).unwrap_or_else(|| PathBuf::from(format!("{stem}{ending}")))
}

/// Reduces an application's name to characters that every shell and file system accept.
fn safe(application: &TargetText) -> String {
    let accepted = |letter: char| if letter.is_alphanumeric() || "._-+".contains(letter) { letter } else { '_' };
    let name: String = application.within(LONGEST).chars().map(accepted).collect();
    // Neither a hidden file nor like a flag.
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "dotnet".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use jiff::tz::TimeZone;

    #[test]
    fn a_second_one_within_a_second_has_a_name_of_its_own() {
        let there = ["a_1.html", "a_1_2.html"];
        let name = |ending: &str| free("a_1", ending, |path| there.iter().any(|known| path == Path::new(known)));
        assert_eq!((name(".html"), name(".folded")), ("a_1_3.html".into(), "a_1.folded".into()));
        assert_eq!(free("a_1", ".html", |_| true), PathBuf::from("a_1.html"));
    }

    #[test]
    fn the_name_has_the_application_and_the_time() {
        let now = date(2026, 1, 2).at(3, 4, 5, 0).to_zoned(TimeZone::UTC).expect("a time");
        assert_eq!(default_output(&"My.Orders".into(), &now, ".html"), PathBuf::from("My.Orders_20260102_030405.html"));
        assert_eq!(
            default_output(&"../a b;$(c)".into(), &now, ".remora"),
            PathBuf::from("_a_b___c__20260102_030405.remora")
        );
        assert_eq!(default_output(&"".into(), &now, ".html"), PathBuf::from("dotnet_20260102_030405.html"));
        assert!(default_output(&"ö".repeat(300).into(), &now, ".html").as_os_str().len() < 200);
    }
}
