//! The result of each test on each runtime, one line of JSON each, for the contract's table.

use remora_holds::FOLDER;
use std::path::Path;

/// Records that the running test passed or failed on a runtime.
pub fn add(world: &str, passed: bool) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let thread = std::thread::current();
    let path = thread.name().unwrap_or_default();
    // The runner names each test's thread after the test, with its modules.
    let test = path.rsplit("::").next().unwrap_or_default();
    assert!(!test.is_empty() && test != "main", "{FOLDER} is set, and the running test has no name");
    remora_holds::write_line(Path::new(&folder), "jsonl", &line(test, world, passed));
}

fn line(test: &str, world: &str, passed: bool) -> String {
    let (test, world) = (serde_json::json!(test), serde_json::json!(world));
    format!(r#"{{"test": {test}, "world": {world}, "passed": {passed}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_test_world_and_outcome() {
        let line = line("att_10_x", "sim 8", true);
        assert_eq!(line, r#"{"test": "att_10_x", "world": "sim 8", "passed": true}"#);
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok());
    }
}
