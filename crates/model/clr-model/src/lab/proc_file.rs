//! Fields of the text files in `/proc`.

use std::fs;

/// The rest of the line that begins with `name`, without the space around it. `None` if there is no such file or line.
pub fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}
