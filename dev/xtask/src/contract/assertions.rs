//! The assertions of clauses in the sources: `holds!(DET_14 clr rem, …)`.

use super::columns::Column;
use crate::outcome::Outcome;
use crate::tidy::{names, tracked_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Where the macro itself is tested: these assertions show nothing.
const OF_THE_MACRO: &str = "tests/holds/";

/// One clause in one column, asserted in one function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assertion {
    /// `DET-14`.
    pub clause: String,
    /// `sim`, `clr` or `rem`.
    pub column: String,
    /// The source file.
    pub file: String,
    /// The function: a test, or a function that tests call.
    pub function: String,
}

/// All assertions of the sources, and which tests reach them.
#[derive(Debug, Default)]
pub struct Assertions {
    /// Sorted by clause.
    all: BTreeSet<Assertion>,
    /// The functions of each file, with the words in each.
    functions: BTreeMap<String, Vec<Function>>,
}

/// A function in a source file.
#[derive(Debug)]
struct Function {
    name: String,
    is_test: bool,
    /// Each word of its body that may be the name of a function.
    words: BTreeSet<String>,
}

impl Assertions {
    /// Reads every file known to git.
    pub fn read() -> Outcome<Assertions> {
        let mut assertions = Assertions::default();
        for file in tracked_files()? {
            let is_code = file.starts_with("crates/") || file.starts_with("tests/");
            if !file.ends_with(".rs") || !is_code || file.starts_with(OF_THE_MACRO) {
                continue;
            }
            let Ok(text) = fs::read_to_string(crate::root().join(&file)) else { continue };
            assertions.add(&file, &text);
        }
        Ok(assertions)
    }

    /// Adds a source file.
    pub fn add(&mut self, file: &str, text: &str) {
        let code = code_of(text);
        let mut functions: Vec<(usize, Function)> = Vec::new();
        let mut is_test = false;
        let mut position = 0;
        for line in code.lines() {
            let indent = line.len() - line.trim_start().len();
            if line.trim() == "#[test]" {
                is_test = true;
            } else if let Some(name) = function_in(line) {
                let function = Function { name: name.to_owned(), is_test, words: BTreeSet::new() };
                functions.push((indent, function));
                is_test = false;
            }
            // rustfmt indents a body more than its function.
            if let Some((_, function)) = functions.iter_mut().rev().find(|(outer, _)| *outer < indent) {
                let words = line.split(|character: char| !character.is_alphanumeric() && character != '_');
                function.words.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
                for (at, _) in line.match_indices("holds!(") {
                    let head = &code[position + at + "holds!(".len()..];
                    for (clause, column) in asserted(head) {
                        let function = function.name.clone();
                        self.all.insert(Assertion { clause, column, file: file.to_owned(), function });
                    }
                }
            }
            position += line.len() + 1;
        }
        let functions = functions.into_iter().map(|(_, function)| function);
        self.functions.entry(file.to_owned()).or_default().extend(functions);
    }

    /// Those of a clause.
    pub fn of(&self, clause: &str) -> impl Iterator<Item = &Assertion> {
        self.all.iter().filter(move |assertion| assertion.clause == clause)
    }

    /// Whether the clause is asserted in this column, or for live runtimes in any of theirs.
    pub fn has(&self, clause: &str, column: Column) -> bool {
        self.of(clause).any(|assertion| assertion.column == column.kind())
    }

    /// Those in a test of this name in this package.
    pub fn in_test(&self, test: &str, package: &str) -> impl Iterator<Item = &Assertion> {
        self.all.iter().filter(move |one| one.function == test && is_of_package(&one.file, package))
    }

    /// Those that a test of this name in this package reaches: its own, and those of functions of the package that it calls.
    pub fn reached(&self, test: &str, package: &str) -> Vec<&Assertion> {
        let of_package: Vec<(&str, &Function)> = (self.functions.iter())
            .filter(|(file, _)| is_of_package(file, package))
            .flat_map(|(file, functions)| functions.iter().map(move |function| (file.as_str(), function)))
            .collect();
        let called = |name: &str, is_test: bool| {
            let name = name.to_owned();
            of_package.iter().filter(move |(_, function)| function.is_test == is_test && function.name == name).copied()
        };
        let (mut open, mut seen, mut reached) = (called(test, true).collect::<Vec<_>>(), BTreeSet::new(), Vec::new());
        while let Some((file, function)) = open.pop() {
            let is_own = |one: &&Assertion| one.file == file && one.function == function.name;
            reached.extend(self.all.iter().filter(is_own));
            for word in &function.words {
                if seen.insert(word.as_str()) {
                    open.extend(called(word, false));
                }
            }
        }
        reached
    }

    /// Clause and test: those of a package's tests that assert the clause in this column, themselves or in a function of their file
    /// that they call.
    pub fn by_tests_of(&self, package: &str, column: Column) -> BTreeSet<(String, String)> {
        let mut asserted = BTreeSet::new();
        for (file, functions) in self.functions.iter().filter(|(file, _)| is_of_package(file, package)) {
            let of_file = || self.all.iter().filter(|one| one.file == *file && one.column == column.kind());
            for test in functions.iter().filter(|function| function.is_test) {
                let own = of_file().filter(|one| one.function == test.name || test.words.contains(&one.function));
                asserted.extend(own.map(|one| (one.clause.clone(), test.name.clone())));
            }
        }
        asserted
    }

    /// The names of all tests.
    pub fn tests(&self) -> impl Iterator<Item = &str> {
        self.functions.values().flatten().filter(|function| function.is_test).map(|function| function.name.as_str())
    }

    /// The functions that assert something, by name.
    pub fn functions(&self) -> BTreeSet<&str> {
        self.all.iter().map(|assertion| assertion.function.as_str()).collect()
    }

    /// Every test with a clause in its name that it does not assert, itself or in a function that it calls: file, test, clause.
    pub fn missing(&self) -> Vec<(&str, &str, String)> {
        let mut helpers: BTreeMap<(&str, &str), Vec<&Function>> = BTreeMap::new();
        for (file, functions) in &self.functions {
            for function in functions.iter().filter(|function| !function.is_test) {
                helpers.entry((package_of(file), &function.name)).or_default().push(function);
            }
        }
        let mut own: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        let mut of_helpers = own.clone();
        for one in &self.all {
            own.entry((&one.file, &one.function)).or_default().insert(&one.clause);
            of_helpers.entry((package_of(&one.file), &one.function)).or_default().insert(&one.clause);
        }
        let mut missing = Vec::new();
        for (file, functions) in &self.functions {
            for test in functions.iter().filter(|function| function.is_test) {
                let mut wanted: BTreeSet<String> = names::clauses(&test.name).into_iter().collect();
                let own = own.get(&(file.as_str(), test.name.as_str())).into_iter().flatten();
                own.for_each(|clause| _ = wanted.remove(*clause));
                let (mut seen, mut called) = (BTreeSet::new(), vec![test]);
                while let Some(function) = called.pop().filter(|_| !wanted.is_empty()) {
                    for word in &function.words {
                        let key = (package_of(file), word.as_str());
                        if let Some(found) = helpers.get(&key).filter(|_| seen.insert(word)) {
                            called.extend(found);
                            of_helpers.get(&key).into_iter().flatten().for_each(|clause| _ = wanted.remove(*clause));
                        }
                    }
                }
                missing.extend(wanted.into_iter().map(|clause| (file.as_str(), test.name.as_str(), clause)));
            }
        }
        missing
    }
}

/// A package has its folder's name, mostly prefixed with `remora-`.
pub fn is_of_package(file: &str, package: &str) -> bool {
    let name = package.strip_prefix("remora-").unwrap_or(package);
    file.split('/').take(3).any(|folder| folder == name)
}

/// The folder of a file's package.
fn package_of(file: &str) -> &str {
    let end = file.find("/src/").or_else(|| file.find("/tests/")).unwrap_or(0);
    &file[..end]
}

/// The name in a line that begins a function.
fn function_in(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let qualifiers = ["pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "async", "\"C\""];
    let name = rest.split(|character: char| !character.is_alphanumeric() && character != '_').next()?;
    (!name.is_empty() && before.split_whitespace().all(|word| qualifiers.contains(&word))).then_some(name)
}

/// The clauses and columns at the beginning of an assertion: `[DET_04 DET_06] sim rem, …`.
fn asserted(head: &str) -> Vec<(String, String)> {
    let Some((head, _)) = head.split_once(',') else { return Vec::new() };
    let words: Vec<&str> = head.split(|character: char| " []\n".contains(character)).collect();
    let words = words.into_iter().filter(|word| !word.is_empty());
    let (clauses, columns): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('_'));
    let pairs = clauses.iter().flat_map(|clause| columns.iter().map(move |column| (*clause, *column)));
    pairs.map(|(clause, column)| (clause.replace('_', "-"), column.to_owned())).collect()
}

/// The text with spaces in place of comments and of what is in strings. Lines and lengths stay.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("r\"")
            || rest.starts_with("r#") && rest[1..].trim_start_matches('#').starts_with('"')
        {
            let hashes = rest[1..].find('"').unwrap_or(0);
            let end = format!("\"{}", "#".repeat(hashes));
            rest[hashes + 2..].find(&end).map_or(rest.len(), |at| hashes + 2 + at + end.len())
        } else if first == '"' {
            length_of_string(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            rest[2..].find('\'').map_or(rest.len(), |end| end + 3)
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        // Spaces for each byte, so places stay those of the text.
        code.extend(rest[..skipped].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        rest = &rest[skipped..];
    }
    code
}

/// The length of the string at the beginning of `text`, with both quotes.
fn length_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            _ => escaped = byte == b'\\' && !escaped,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/model/clr-model/tests/a.rs";

    fn of(text: &str) -> Assertions {
        let mut assertions = Assertions::default();
        assertions.add(FILE, text);
        assertions
    }

    fn found(text: &str) -> Vec<String> {
        let assertions = of(text);
        assertions.all.iter().map(|one| format!("{} {} {}", one.clause, one.column, one.function)).collect()
    }

    #[test]
    fn each_clause_in_each_column_is_an_assertion_of_its_function() {
        let text = "#[test]\nfn att_01_a() {\n    holds!(ATT_01 sim clr, 1 == 1);\n    run(|| {\n        remora_holds::holds!(\n            [DET_04 DET_06] rem,\n            true\n        );\n    });\n}\n\n\
            mod tests {\n    fn helper() {\n        holds!(CAT_01 rem, x);\n    }\n}\n";
        let expected = [
            "ATT-01 clr att_01_a",
            "ATT-01 sim att_01_a",
            "CAT-01 rem helper",
            "DET-04 rem att_01_a",
            "DET-06 rem att_01_a",
        ];
        assert_eq!(found(text), expected);
    }

    #[test]
    fn what_is_in_comments_and_strings_is_no_assertion() {
        let text = "fn a() {\n    // holds!(ATT_01 sim, 1)\n    /* holds!(ATT_01 sim, 1) */\n    f(\"holds!(ATT_01 sim, \\\" 1)\");\n    \
            f(r#\"holds!(ATT_01 sim, \" 1)\"#);\n    f('\"');\n    holds!(ATT_02 rem, 'x' == '\\'');\n}\n";
        assert_eq!(found(text), ["ATT-02 rem a"]);
        assert_eq!(code_of(text).len(), text.len());
    }

    #[test]
    fn a_test_lacks_the_clauses_of_its_name_that_neither_it_nor_what_it_calls_asserts() {
        let text = "#[test]\nfn att_01_det_02_a() {\n    first();\n}\n\nfn first() {\n    second();\n}\n\nfn second() {\n    holds!(ATT_01 sim, true);\n}\n";
        assert_eq!(of(text).missing(), [(FILE, "att_01_det_02_a", "DET-02".to_owned())]);
        let whole = text.replace("ATT_01", "[ATT_01 DET_02]");
        assert!(of(&whole).missing().is_empty());
        let elsewhere = text.replace("first();\n}\n\n", "}\n\n");
        assert_eq!(of(&elsewhere).missing().len(), 2);
    }

    #[test]
    fn a_test_reaches_what_the_functions_that_it_calls_assert() {
        let text = "#[test]\nfn att_01_a() {\n    first();\n}\n\nfn first() {\n    second();\n}\n\nfn second() {\n    holds!(DET_02 sim, true);\n}\n\n\
            fn other() {\n    holds!(ATT_03 sim, true);\n}\n";
        let assertions = of(text);
        let reached = assertions.reached("att_01_a", "remora-clr-model");
        assert_eq!(reached.iter().map(|one| one.clause.as_str()).collect::<Vec<_>>(), ["DET-02"]);
        assert!(assertions.reached("att_01_a", "corprof").is_empty());
    }

    #[test]
    fn a_test_is_found_by_name_and_package() {
        let assertions = of("#[test]\nfn att_01_a() {\n    holds!(ATT_01 sim, true);\n}\n");
        assert_eq!(assertions.in_test("att_01_a", "remora-clr-model").count(), 1);
        assert_eq!(assertions.in_test("att_01_a", "corprof").count(), 0);
        assert!(assertions.has("ATT-01", Column::Sim) && !assertions.has("ATT-01", Column::Rem));
    }
}
