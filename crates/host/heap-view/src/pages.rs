//! The page's files, embedded in the command.

/// One file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct File {
    /// The path after the secret; the page itself has none.
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const FILES: [File; 16] = [
    File { name: "", kind: HTML, content: include_str!("../assets/page.html") },
    File { name: "common.css", kind: CSS, content: remora_page::STYLE },
    File { name: "common.js", kind: SCRIPT, content: remora_page::MODULE },
    File { name: "style.css", kind: CSS, content: include_str!("../assets/style.css") },
    File { name: "main.js", kind: SCRIPT, content: include_str!("../assets/main.js") },
    File { name: "text.js", kind: SCRIPT, content: include_str!("../assets/text.js") },
    File { name: "ask.js", kind: SCRIPT, content: include_str!("../assets/ask.js") },
    File { name: "header.js", kind: SCRIPT, content: include_str!("../assets/header.js") },
    File { name: "treemap.js", kind: SCRIPT, content: include_str!("../assets/treemap.js") },
    File { name: "found.js", kind: SCRIPT, content: include_str!("../assets/found.js") },
    File { name: "tree.js", kind: SCRIPT, content: include_str!("../assets/tree.js") },
    File { name: "types.js", kind: SCRIPT, content: include_str!("../assets/types.js") },
    File { name: "object.js", kind: SCRIPT, content: include_str!("../assets/object.js") },
    File { name: "list.js", kind: SCRIPT, content: include_str!("../assets/list.js") },
    File { name: "place.js", kind: SCRIPT, content: include_str!("../assets/place.js") },
    File { name: "search.js", kind: SCRIPT, content: include_str!("../assets/search.js") },
];

/// The file of this name.
pub(crate) fn file(name: &str) -> Option<File> {
    FILES.into_iter().find(|file| file.name == name)
}
